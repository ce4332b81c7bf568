"""Memory: the resident pages of one machine, their LRU lists, and reclaim under a limit.

A new page enters the inactive list. The second access after that, or a refault after an eviction, moves it to the
active list. Reclaim takes the oldest inactive pages, and refills the inactive list from the active list while it is
shorter. Only clean pages are reclaimed. If no page is clean, the allocating task wakes the flusher and waits until
writes end, at most 100 ms at a time. Locked pages (mlock) and anonymous memory are never reclaimed: the model has no
swap. Reclaim of clean pages takes no time: on Linux it takes about a microsecond per page, mostly in kswapd.

Sources: Linux, Documentation/admin-guide/mm/concepts.rst (reclaim); mm/vmscan.c (shrink_inactive_list,
inactive_is_low, reclaim_throttle: VMSCAN_THROTTLE_WRITEBACK, HZ/10; SWAP_CLUSTER_MAX 32); mm/workingset.c
(workingset_refault); mm/page-writeback.c (global_dirtyable_memory: free and file pages, without locked and anonymous
ones).
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from ...sim.machine import Scheduler, WaitGate
from .elevator import IoRequest
from .pages import FilePages, PageCacheLimits
from .storage import BLOCK_BYTES

Page = tuple[FilePages, int]
"""File and page number."""
_BATCH_PAGES = 32
_THROTTLE_NS = 100_000_000
_ROUNDS_MAX = 16  # MAX_RECLAIM_RETRIES, after which Linux kills a process

_Lists = OrderedDict[Page, IoRequest | None]


class Memory:
    """The resident pages. Invariant: a page is in one list, or its file is locked and the page is in `_locked`."""

    def __init__(self, kernel: Scheduler, limits: PageCacheLimits, wake_flusher: Callable[[], None]) -> None:
        self._kernel = kernel
        self._pages_max = limits.pages_max
        self._wake_flusher = wake_flusher
        self._inactive: _Lists = OrderedDict()
        self._active: _Lists = OrderedDict()
        self._locked: _Lists = OrderedDict()
        self._evicted: set[Page] = set()
        self._referenced: set[Page] = set()
        """Inactive pages with one access."""
        self._anonymous = 0
        self.cleaned = WaitGate(kernel, "memory reclaim")
        """Opens when writes end, so that pages become reclaimable."""
        self.refaults = 0
        """Pages that came back after an eviction."""
        self.overcommits = 0
        """Allocations above the limit, for which Linux would kill a process."""

    @property
    def pages(self) -> int:
        return len(self._inactive) + len(self._active) + len(self._locked) + self._anonymous

    @property
    def dirtyable(self) -> int:
        """Number of free and reclaimable pages."""
        return max(self._pages_max - len(self._locked) - self._anonymous, 0)

    def find(self, page: Page) -> tuple[bool, IoRequest | None]:
        """Return whether a page is resident, with the request that reads it. Records the access."""
        for pages in (self._active, self._locked):
            if page in pages:
                pages.move_to_end(page)
                return True, pages[page]
        if page not in self._inactive:
            return False, None
        if page not in self._referenced:
            self._referenced.add(page)
            return True, self._inactive[page]
        self._referenced.discard(page)
        self._active[page] = request = self._inactive.pop(page)
        return True, request

    def is_resident(self, page: Page) -> bool:
        return page in self._inactive or page in self._active or page in self._locked

    def add_all(self, file: FilePages, pages: Iterable[int]) -> None:
        """Allocate memory for the pages that are not resident."""
        for number in pages:
            page = file, number
            if page not in self._inactive and page not in self._active and page not in self._locked:
                self.add(page, None)

    def add(self, page: Page, request: IoRequest | None) -> None:
        """Allocate memory for a page that is not resident. Wait for write-back if no page can be reclaimed."""
        if len(self._inactive) + len(self._active) + len(self._locked) + self._anonymous >= self._pages_max:
            self._make_room(1)
            if self.is_resident(page):
                return  # another task has added the page during the wait
        pages = self._locked if page[0].is_locked else self._inactive
        if page in self._evicted:
            self._evicted.discard(page)
            self.refaults += 1
            pages = self._locked if page[0].is_locked else self._active
        pages[page] = request

    def hold_anonymous(self, size_bytes: int) -> None:
        """Allocate anonymous memory, which is never freed."""
        pages = -(-size_bytes // BLOCK_BYTES)
        self._make_room(pages)
        self._anonymous += pages

    def fill(self, file: FilePages) -> None:
        """Fill free memory with clean pages of a file, as on a machine that has run for a while."""
        for number in range(self._pages_max - self.pages):
            self._inactive[file, number] = None

    def lock(self, file: FilePages) -> None:
        """Keep the file's pages in memory, also those added later."""
        file.is_locked = True
        for pages in (self._inactive, self._active):
            for page in [page for page in pages if page[0] is file]:
                self._locked[page] = pages.pop(page)

    def unlock(self, file: FilePages) -> None:
        file.is_locked = False
        for page in [page for page in self._locked if page[0] is file]:
            self._inactive[page] = self._locked.pop(page)

    def drop_clean(self) -> None:
        """Drop all pages that need no write-back, as after a power-off."""
        for pages in (self._inactive, self._active, self._locked):
            for page in [page for page in pages if self._is_clean(page)]:
                del pages[page]
        self._evicted.clear()
        self._referenced.clear()

    def _make_room(self, wanted: int) -> None:
        for _ in range(_ROUNDS_MAX):
            excess = self.pages + wanted - self._pages_max
            batch = min(_BATCH_PAGES, self._pages_max // 16)
            if excess <= 0 or self._reclaim(max(excess, batch)) >= excess:
                return
            self._wake_flusher()
            self.cleaned.wait(self._kernel.now_ns + _THROTTLE_NS)
        self.overcommits += 1

    def _reclaim(self, wanted: int) -> int:
        """Evict up to `wanted` clean pages, oldest first. Return their number."""
        inactive, active, evicted = self._inactive, self._active, 0
        for _ in range(len(inactive) + len(active)):
            if evicted >= wanted:
                break
            while active and len(inactive) < len(active):
                inactive.update([active.popitem(last=False)])
            page, request = inactive.popitem(last=False)
            file, number = page
            if number not in file.dirty and number not in file.writing:
                self._evicted.add(page)
                self._referenced.discard(page)
                evicted += 1
            else:
                inactive[page] = request  # scanned again after the others
        return evicted

    @staticmethod
    def _is_clean(page: Page) -> bool:
        file, number = page
        return number not in file.dirty and number not in file.writing
