"""File maps: show the state of each sector of a file before and after a cut."""

from collections.abc import Iterable, Sequence

from ....faults.disk.aftermath import DiskState, FileState
from ....faults.disk.content import Content
from .record import ABSENT, BACK, CHANGED, DIRTY, DROPPED, DURABLE, EMPTY, KEPT, LOST, MIXED, FileMap


def file_map(
    path: str,
    before: FileState | None,
    at_once: Content | None,
    after: Content | None,
    torn: tuple[int, ...],
    disk: DiskState,
    pages_max: int | None = None,
) -> FileMap:
    """Return the sectors of one file before and after a cut.

    at_once: the content immediately after the cut. after: the content at the next mount. disk has the sizes of pages
    and sectors. For a file with more than pages_max pages, the result has only the pages that were not durable.
    """
    size_before = -1 if before is None else len(before.cache)
    size_after = -1 if after is None else len(after)
    size = max(size_before, size_after, 0)
    page_bytes, sector_bytes = disk.page_bytes, disk.sector_bytes
    pages: Sequence[int] = range(-(-size // page_bytes))
    is_whole, more = pages_max is None or len(pages) <= pages_max, 0
    if not is_whole:
        touched = _touched_sectors(before, len(pages), page_bytes)
        pages, more = touched[:pages_max], len(touched[pages_max:])
    starts = [at for page in pages for at in range(page * page_bytes, min((page + 1) * page_bytes, size), sector_bytes)]
    letters = sector_letters_before(before, starts, sector_bytes)
    behind = "".join(
        _letter_after(letter, before, at_once, after, start, start + sector_bytes)
        for letter, start in zip(letters, starts, strict=True)
    )
    is_named = before is not None and before.name_is_durable
    shown = () if is_whole else tuple(pages)
    return FileMap(path, size_before, size_after, letters, behind, torn, is_named, shown, more)


def sector_letters_before(file: FileState | None, starts: Iterable[int], sector_bytes: int) -> str:
    size_bytes = 0 if file is None else len(file.cache)
    return "".join(
        ABSENT if file is None or start >= size_bytes else _letter_before(file, start, start + sector_bytes)
        for start in starts
    )


def _touched_sectors(file: FileState | None, pages: int, page_bytes: int) -> list[int]:
    if file is None:
        return []
    dirty = {page for first, last in file.dirty for page in range(first // page_bytes, -(-last // page_bytes))}
    return sorted(page for page in dirty | file.stale if page < pages)


def _letter_before(file: FileState, start: int, stop: int) -> str:
    if any(first < stop and start < last for first, last in file.dirty):
        return DIRTY
    seen = file.cache[start:stop]
    if seen != file.durable_bytes[start:stop]:
        return DROPPED
    return DURABLE if any(seen) else EMPTY


def _letter_after(
    letter: str, before: FileState | None, at_once: Content | None, after: Content | None, start: int, stop: int
) -> str:
    found = b"" if after is None else after[start:stop]
    if not found:
        return ABSENT
    if at_once is None or found != at_once[start:stop]:
        return CHANGED
    if before is None:
        return BACK
    if letter in (EMPTY, DURABLE):
        return letter if found == before.cache[start:stop] else CHANGED
    if found == before.cache[start:stop]:
        return KEPT
    return LOST if found == before.durable_bytes[start:stop] else MIXED
