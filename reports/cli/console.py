"""Where commands print: results and errors, progress, tables, paths. Knows nothing of what is printed."""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table


class PipedConsole(Console):
    """A console that leaves it to the command line what comes of a reader who has seen enough."""

    def on_broken_pipe(self) -> None:
        """Raise, where rich would end with 1, which is a broken promise here."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


OUT = PipedConsole(highlight=False)
"""Results: tables, and what was found beside them."""
ERR = Console(stderr=True, highlight=False)
"""Progress, and errors. Findings only if standard output is taken by JSON."""
T = TypeVar("T")
_LINE_EVERY_SECONDS = 5.0
"""Lines of what takes seconds each come no closer than this, but for the last one."""
_SIGN_EVERY_SECONDS = 60.0
"""Of other long work a log has a line this often."""


def findings_console(json_file: str | None) -> Console:
    """Return where findings are printed: beside the table, unless JSON has standard output to itself."""
    return ERR if json_file == "-" else OUT


def print_error(error: object) -> None:
    """Print what kept a command from doing its work, in red, as it is spelled."""
    ERR.print(str(error), style="red", markup=False, soft_wrap=True)


def print_note(text: str) -> None:
    """Print a fact about a run on standard error."""
    ERR.print(text, markup=False, soft_wrap=True)


@contextmanager
def progress_shown(what: str = "", total: float | None = None, *, ticks: bool = True) -> Iterator[Callable[..., None]]:
    """Show on standard error how far work is: gone when it ends, a line a minute in a pipe. Yield what updates it.

    That takes what rich's `Progress.update` takes, and `facts`, a text beside the bar. ticks: whether a thread shows
    how time passes. A process that forks should have none, and has to ask for each `refresh`.
    """
    with _display(what, total, ticks=ticks) as update:
        printed_at = monotonic()

        def update_or_print(**fields: Any) -> None:
            nonlocal printed_at
            update(**fields)
            if not ERR.is_terminal and fields.get("facts") and monotonic() - printed_at >= _SIGN_EVERY_SECONDS:
                printed_at = monotonic()
                done = fields.get("completed")
                count = "" if not isinstance(done, int) or total is None else f"{done:,} of {total:,.0f}, "
                ERR.print(f"{what or 'so far'}: {count}{fields['facts']}", soft_wrap=True, markup=False)

        yield update_or_print


@contextmanager
def _display(what: str, total: float | None, *, ticks: bool) -> Iterator[Callable[..., None]]:
    remaining = () if total is None else (TimeRemainingColumn(compact=True), "left")
    columns = ("{task.description}", BarColumn(), "{task.fields[facts]}", TimeElapsedColumn(), *remaining)
    quiet = not ERR.is_terminal
    with Progress(*columns, console=ERR, transient=True, disable=quiet, auto_refresh=ticks) as display:
        yield partial(display.update, display.add_task(what, total=total, facts=""))


def followed(
    what: str, found: Iterable[T], total: int | None, about: Callable[[T], str] = lambda one: ""
) -> Iterator[T]:
    """Yield what is found as it comes, and show on standard error how far that is: a display, or plain lines.

    what: in a word or two; total: how many there will be, None if nobody knows; about: says of one which it is.
    """
    done, printed_at = 0, monotonic()
    with _display(what, total, ticks=True) as update:
        for one in found:
            yield one
            done += 1
            which, count = about(one), f"{done:,}" if total is None else f"{done:,} of {total:,}"
            update(advance=1, description=f"{what}: {which}" if which else what, facts=count)
            now = monotonic()
            if not ERR.is_terminal and (done == total or now - printed_at >= _LINE_EVERY_SECONDS):
                printed_at = now
                ERR.print(f"{what}: {count}{f', {which}' if which else ''}", soft_wrap=True, markup=False)


def print_paths(paths: Iterable[Path]) -> None:
    """Print where results were left, one path a line."""
    for path in paths:
        OUT.print(str(path), soft_wrap=True, markup=False)


def plain_table(title: str, texts: Sequence[str], figures: Sequence[str]) -> Table:
    """Return a table without lines: columns of text first, columns of figures behind them."""
    table = Table(title=title, title_justify="left", box=SIMPLE, show_edge=False, pad_edge=False, collapse_padding=True)
    for name in texts:
        table.add_column(name, no_wrap=name != "what")
    for name in figures:
        table.add_column(name, justify="right")
    return table
