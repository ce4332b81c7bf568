"""Long measurements that are followed: a display on a terminal, plain lines on standard error where there is none."""

from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from .common import ERR, progress_bar

T = TypeVar("T")

TOLD_EVERY_SECONDS = 5.0
"""Lines come no closer than this, but for the last one."""


def _nothing(_: object) -> str:
    return ""


def followed(
    what: str, found: Iterable[T], total: int | None, about: Callable[[T], str] = _nothing
) -> Iterator[T]:
    """Yield what is found as it comes, and tell how far that is.

    what: in a word or two; total: how many there will be, None if nobody knows; about: says of one which it is.
    """
    done, told_at = 0, monotonic()
    with progress_bar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    ) as progress:
        bar = progress.add_task(what, total=total)
        for one in found:
            yield one
            done += 1
            which = about(one)
            progress.update(bar, advance=1, description=f"{what}: {which}" if which else what)
            now = monotonic()
            if not ERR.is_terminal and (done == total or now - told_at >= TOLD_EVERY_SECONDS):
                told_at = now
                of = "" if total is None else f" of {total:,}"
                ERR.print(
                    f"{what}: {done:,}{of}{f', {which}' if which else ''}", soft_wrap=True, markup=False
                )
