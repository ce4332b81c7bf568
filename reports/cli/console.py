"""Console output: prints results, errors, progress, tables and paths."""

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
    """Raises an exception for a closed pipe; the command line handles it."""

    def on_broken_pipe(self) -> None:
        """rich would exit with 1, but tornlog uses 1 for a broken promise."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


OUT = PipedConsole(highlight=False)
ERR = Console(stderr=True, highlight=False)
"""The console for progress and errors, and for findings if JSON is written to standard output."""
T = TypeVar("T")
_LINE_EVERY_SECONDS = 5.0
"""Interval between progress lines for items that take seconds. The last line is always printed."""
_SIGN_EVERY_SECONDS = 60.0
"""Interval between progress lines of other work."""


def print_error(error: object) -> None:
    ERR.print(str(error), style="red", markup=False, soft_wrap=True)


def print_note(text: str) -> None:
    ERR.print(text, markup=False, soft_wrap=True)


@contextmanager
def show_progress(what: str = "", total: float | None = None, *, ticks: bool = True) -> Iterator[Callable[..., None]]:
    """Show a progress bar on standard error during the block. In a pipe, print one line per minute.

    Yield a function with the arguments of rich's `Progress.update`, and `facts`, a text after the bar. ticks: whether a
    thread updates the elapsed time. A process that forks should not have this thread, and must pass `refresh`.
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


def with_progress(
    what: str, found: Iterable[T], total: int | None, about: Callable[[T], str] = lambda one: ""
) -> Iterator[T]:
    """Yield items, and show the progress on standard error: a bar, or lines in a pipe.

    what: one or two words that describe the work. about: returns the name of an item.
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
    for path in paths:
        OUT.print(str(path), soft_wrap=True, markup=False)


def plain_table(title: str, texts: Sequence[str], figures: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE, show_edge=False, pad_edge=False, collapse_padding=True)
    for name in texts:
        table.add_column(name, no_wrap=name not in ("what", "message"))
    for name in figures:
        table.add_column(name, justify="right")
    return table
