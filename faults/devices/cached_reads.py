"""Cached reads: model the page cache, its misses, and read-ahead.

Each reader of a file has its own read-ahead state. Linux has one per open file, but recognises a second reader by the
cached pages before its position, with the same effect.

A first read, or a miss right after the last page, reads a window of a few pages, and the reader waits for the first
page. When the reader reaches the first page beyond its own request, a background read gets the next window, twice as
large. A miss elsewhere reads only the requested pages and resets the window. A memory map with read-around instead
reads a full window, half of it before the page.

Sources: Linux, mm/readahead.c (ondemand_readahead): 4 pages at first, 128 KiB at most; mm/filemap.c
(do_sync_mmap_readahead) for read-around.
"""

from collections.abc import Callable, Iterable

from .elevator import Elevator, IoRequest
from .memory import Memory
from .pages import FilePages
from .storage import Run, append_block

_PAGES_FIRST = 4
PAGES_MAX = 32  # 128 KiB, Linux's read_ahead_kb


class ReadAhead:
    """The read-ahead state of one reader of one file.

    Invariant: the last window ends at `_end`; a hit at or after `_marker` starts the next.
    """

    __slots__ = ("_around", "_end", "_last", "_marker", "_pages_max", "window")

    def __init__(self, pages_max: int = PAGES_MAX, *, around: bool = False) -> None:
        self._pages_max = pages_max
        self._around = around
        self._last = -1
        self._end = 0
        self._marker = -1
        self.window = 0
        """Pages in the last window; 0 after a random miss."""

    def pages_after_miss(self, page: int, wanted: int) -> range:
        """Return the pages to read. page: first missing page. wanted: number of requested pages."""
        if page - self._last not in (0, 1):
            self.window, self._marker = 0, -1
            if self._around:
                return range(max(page - self._pages_max // 2, 0), page + max(self._pages_max // 2, wanted))
            return range(page, page + wanted)
        self.window = min(max(self.window * 2, _PAGES_FIRST, wanted), self._pages_max)
        self._end = page + max(self.window, wanted)
        self._marker = min(page + wanted, self._end - 1)
        assert page <= self._marker < self._end, (page, self._marker, self._end)
        return range(page, self._end)

    def pages_after_hit(self, page: int) -> range:
        """Return the pages to read ahead, usually none."""
        if not 0 <= self._marker <= page < self._end:
            return range(0)
        begin = self._marker = self._end
        self.window = min(self.window * 2, self._pages_max)
        self._end = begin + self.window
        assert page < begin <= self._end, (page, begin, self._end)
        return range(begin, self._end)

    def record_position(self, page: int) -> None:
        self._last = page


class CachedReads:
    """Reads of pages through the page cache of one machine."""

    def __init__(
        self, elevator: Elevator, memory: Memory, read_ahead: Callable[[str], ReadAhead] | None = None
    ) -> None:
        """read_ahead: returns the read-ahead for a reader of the file at a path."""
        self._elevator = elevator
        self._memory = memory
        self._read_ahead = read_ahead or (lambda path: ReadAhead())
        self._states: dict[tuple[str, str], ReadAhead] = {}
        self.misses = 0

    def drop_pages(self) -> None:
        """Drop clean pages and read positions, as after a power-off."""
        self._memory.drop_clean()
        self._states.clear()

    def read(self, reader: str, file: FilePages, first: int, last: int) -> None:
        """Wait until pages [first, last] of a file are cached. reader: identifies the read position."""
        state = self._states.get((reader, file.path))
        if state is None:
            state = self._states[reader, file.path] = self._read_ahead(file.path)
        for page in range(first, last + 1):
            is_resident, request = self._memory.find((file, page))
            if is_resident:
                self._start_reads(file, state.pages_after_hit(page))
            else:
                self.misses += 1
                self._start_reads(file, state.pages_after_miss(page, last + 1 - page))
                _, request = self._memory.find((file, page))
            if request is not None:  # None: the page reads as zeros, or was written here
                self._elevator.wait(request)
            state.record_position(page)

    def wait(self, request: IoRequest) -> None:
        self._elevator.wait(request)

    def _start_reads(self, file: FilePages, pages: Iterable[int]) -> None:
        runs: list[Run] = []
        of_runs: list[list[int]] = []
        for page in pages:
            block = file.blocks.stored_block(page)
            if block is None or self._memory.is_resident((file, page)):
                continue
            if append_block(runs, block):
                of_runs.append([])
            of_runs[-1].append(page)
        for run, pages_of_run in zip(runs, of_runs, strict=True):
            request = self._elevator.read([run])
            for page in pages_of_run:
                self._memory.add((file, page), request)
