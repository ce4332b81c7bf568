"""Reads of files through the page cache: what is not there is read, and what is read ahead is begun.

Each reader of a file has a read-ahead of its own. Linux has one for each opened file, but finds the trails of several
readers in it by what is cached in front of where they read, which comes to the same.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from .elevator import Elevator, IoRequest
from .file_pages import FilePages
from .memory import Memory
from .read_ahead import ReadAhead
from .storage import BLOCK_BYTES, Run

Page = tuple[str, int]
"""A file's path, and which of its pages."""


class CachedReads:
    """The clean pages of one machine, those used last at the end, each with the request that brings it."""

    def __init__(
        self, elevator: Elevator, memory: Memory, read_ahead: Callable[[str], ReadAhead] | None = None
    ) -> None:
        """read_ahead: makes the read-ahead of a reader of a file, by the file's path."""
        self._elevator = elevator
        self._most = memory.cache_bytes // BLOCK_BYTES
        self._read_ahead = read_ahead or (lambda path: ReadAhead())
        self._pages: OrderedDict[Page, IoRequest] = OrderedDict()
        self._states: dict[tuple[str, str], ReadAhead] = {}
        self.misses = 0
        """How often a reader had to wait for the device."""

    def drop(self) -> None:
        """Forget all pages and where every reader is, as after the machine has been off."""
        self._pages.clear()
        self._states.clear()

    def read(self, reader: str, file: FilePages, first: int, last: int) -> None:
        """Let the current task, which goes by a reader's name, wait until a file's pages [first, last] are there."""
        state = self._states.get((reader, file.path))
        if state is None:
            state = self._states[reader, file.path] = self._read_ahead(file.path)
        for page in range(first, last + 1):
            request = self._pages.get((file.path, page))
            if request is None:
                self.misses += 1
                self._begin(file, state.miss(page, last + 1 - page))
                request = self._pages.get((file.path, page))
            else:
                self._pages.move_to_end((file.path, page))
                self._begin(file, state.hit(page))
            if request is not None:
                self._elevator.wait(request)
            state.passed(page)

    def _begin(self, file: FilePages, pages: Iterable[int]) -> None:
        """Begin to read those pages that are not there, and have a block."""
        runs: list[Run] = []
        of_runs: list[list[int]] = []
        for page in pages:
            block = file.blocks.block_of(page)
            if block is None or (file.path, page) in self._pages:
                continue
            if runs and sum(runs[-1]) == block:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
                of_runs[-1].append(page)
            else:
                runs.append((block, 1))
                of_runs.append([page])
        for run, pages_of_run in zip(runs, of_runs, strict=True):
            request = self._elevator.read([run])
            for page in pages_of_run:
                self._pages[file.path, page] = request
        while len(self._pages) > self._most:
            self._pages.popitem(last=False)
