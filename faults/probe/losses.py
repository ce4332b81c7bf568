"""What a crash took, in words, with the steps of the program that had made it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..crashes.enumeration import CrashLosses
from ..crashes.page_outcomes import DirtyPage, PageOutcome
from ..disk.changes import Change, Create, Extend, Rename, Truncate
from .record import FILES


class Loss(NamedTuple):
    """One thing that is lost."""

    what: str
    step: int
    """The step that had made it; of a page, the first of those whose writes are lost."""


def losses_of(taken: CrashLosses, steps_of: Sequence[int]) -> list[Loss]:
    """Return what was lost, in the order in which it had been made. steps_of: the step of each operation."""
    found = [(change.number, _of_change(change, kept_bytes)) for change, kept_bytes in taken.changes]
    for page, page_outcome in taken.pages:
        found += _of_page(page, page_outcome)
    return [Loss(what, steps_of[number]) for number, what in sorted(found)]


def named(path: str) -> str:
    """Return a path as the program knows it: relative to its directory, or absolute outside of that."""
    return path.removeprefix(f"{FILES}/") if path != FILES else "."


def _of_change(change: Change, kept_bytes: int) -> str:
    path = named(change.path)
    match change:
        case Extend() if kept_bytes:
            left_bytes = change.before_bytes + kept_bytes
            return f"size of {path} cut to {left_bytes:,} bytes: it had grown to {change.size_bytes:,}"
        case Extend():
            return f"size of {path} lost: it had grown to {change.size_bytes:,} bytes"
        case Truncate():
            return f"cut of {path} to {change.size_bytes:,} bytes undone"
        case Create():
            return f"name of {path} lost"
        case Rename():
            return f"rename of {path} to {named(change.target)} undone"
    return f"{change.kind} {path}: {change.lost}"


def _of_page(page: DirtyPage, page_outcome: PageOutcome) -> Iterator[tuple[int, str]]:
    """Yield the loss of a page, if it is one, with the number of the first operation that is concerned."""
    writes, latest = page.writes, len(page.writes)
    where = f"page {page.page} of {named(page.path)}"
    if page_outcome.torn_at and page_outcome.other != page_outcome.version:
        first = min(page_outcome.version, page_outcome.other)
        yield (
            writes[first][0],
            f"{where} torn inside a sector: newer only up to its byte {page_outcome.torn_at}",
        )
    elif page_outcome.sectors and page_outcome.other != page_outcome.version:
        first = min(page_outcome.version, page_outcome.other)
        sectors = [
            str(bit) for bit in range(page_outcome.sectors.bit_length()) if page_outcome.sectors >> bit & 1
        ]
        age = "older" if page_outcome.other < page_outcome.version else "newer"
        yield (
            writes[first][0],
            f"{where} torn: {'sector' if len(sectors) == 1 else 'sectors'} {', '.join(sectors)} {age}",
        )
    elif page_outcome.version < latest:
        gone = latest - page_outcome.version
        which = (
            "its write"
            if latest == 1
            else f"its last {gone} of {latest} writes"
            if page_outcome.version
            else f"all {latest} writes"
        )
        yield writes[page_outcome.version][0], f"{where} lost: {which}"
