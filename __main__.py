"""The `tornlog` command. Handlers of signals come before slow imports, so that a signal shows no traceback."""

import sys
from typing import TYPE_CHECKING, Annotated

from . import __version__
from .reports.cli.termination import end_at_once_on_stop_signals

if TYPE_CHECKING:
    from collections.abc import Callable

    import typer


def _version(wanted: bool) -> None:
    if wanted:
        import typer

        from .store.real.native import load_core  # who asks for a command waits for no part of the store

        core = "Python alone" if load_core() is None else "a core in C"
        typer.echo(f"tornlog {__version__}, {core}")
        raise typer.Exit


def application() -> "typer.Typer":
    """Return the application with every command in it."""
    import typer
    from typer.completion import get_completion_inspect_parameters, install_callback, show_callback

    from .command_line import Commands

    get_completion_inspect_parameters()  # has typer know its shells
    app = typer.Typer(
        cls=Commands,
        no_args_is_help=True,
        add_completion=False,  # its own options import half a second's worth to read a flag
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def tornlog(
        version: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
        ] = False,
        install_completion: Annotated[
            bool,
            typer.Option(
                "--install-completion",
                callback=install_callback,
                is_eager=True,
                expose_value=False,
                help="Have this shell complete commands, options and names.",
            ),
        ] = False,
        show_completion: Annotated[
            bool,
            typer.Option(
                "--show-completion",
                callback=show_callback,
                is_eager=True,
                expose_value=False,
                help="Print the completion script.",
            ),
        ] = False,
    ) -> None:
        """Simulate power cuts and faults of a message store or any program, and check what survives."""

    return app


def main() -> None:
    """Run the command line."""
    run(application)


def run(make: "Callable[[], typer.Typer]") -> None:
    """Make an application and run it. An error that it does not handle ends with exit code 3."""
    end_at_once_on_stop_signals()
    if not __debug__:
        sys.exit("tornlog: python -O drops the asserts that its results rest on; start it without -O")
    import errno
    import traceback

    try:
        make()()
    except Exception as error:
        # What a place that is read or written may answer. Any other error is tornlog's own, and shows where.
        refusals = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
        if isinstance(error, OSError) and error.errno in refusals:
            print(f"tornlog: {error}", file=sys.stderr)
        else:
            traceback.print_exc()
        sys.exit(3)  # neither a broken promise nor a wrong command line


if __name__ == "__main__":
    main()
