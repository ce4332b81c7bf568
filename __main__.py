"""The `tornlog` command: one application, put together from what each package registers."""

import errno
import sys
import traceback
from typing import Annotated

import typer

from . import __version__
from .reports import commands as report_commands
from .scenarios import commands as scenario_commands
from .store import commands as store_commands
from .store.broker import commands as broker_commands

_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
"""What a place that results are to be written to may answer. Any other error is tornlog's own, and shows where."""

PACKAGES = (scenario_commands, report_commands, store_commands, broker_commands)
"""Modules with commands of their own, each with `register(app)`."""


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tornlog {__version__}")
        raise typer.Exit


def application() -> typer.Typer:
    """Return the application with every command in it."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

    @app.callback()
    def tornlog(
        version: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
        ] = False,
    ) -> None:
        """Pull the plug on a message store, thousands of times, and get a seed back."""

    for package in PACKAGES:
        package.register(app)
    return app


def main() -> None:
    """Run the command line."""
    if not __debug__:
        sys.exit("tornlog: python -O drops the asserts that its results rest on; start it without -O")
    try:
        application()()
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _REFUSALS:
            typer.echo(f"tornlog: {error}", err=True)
        else:
            traceback.print_exc()
        sys.exit(3)  # neither a broken promise nor a wrong command line


if __name__ == "__main__":
    main()
