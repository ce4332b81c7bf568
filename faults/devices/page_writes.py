"""Page writes: the waits of stores through maps and of `write`, page by page.

A store through a map is free while its page is dirty. Write-back protects the page again (page_mkclean), and the next
store takes a page fault. The fault gets the page into memory, changes the inode's time within a journal handle, once
per tick of the clock, waits for the page's write-back if the device needs stable pages, and may pause at the dirty
limit. A `write` does the same, but without a fault, and changes the time also if its pages are dirty. A fault or a
write of a part of a page reads the page first, unless it is in memory or reads as zeros.

Sources: Linux, mm/memory.c (do_shared_fault, wp_page_shared, fault_dirty_shared_page); fs/ext4/inode.c
(ext4_page_mkwrite: file_update_time, then folio_wait_stable; ext4_write_begin); mm/page-writeback.c
(folio_wait_stable: BDI_CAP_STABLE_WRITES; folio_clear_dirty_for_io); "Stable pages", LWN 442355; "Optimizing stable
pages", LWN 528031. Devices with checksums ask for stable pages (T10 DIF, btrfs, iSCSI), as does RAID 5.
"""

from collections.abc import Callable
from functools import partial

from ...sim.machine import Scheduler
from .cached_reads import CachedReads
from .memory import Memory
from .pages import FilePages
from .storage import BLOCK_BYTES
from .throttling import TICK_NS, DirtyThrottle
from .unjournaled import Metadata
from .write_back import WriteBack

_BATCH_PAGES = 8
"""Number of pages that a `write` dirties before it checks whether to pause: a large folio."""


class PageWrites:
    """The writes of one machine's tasks to its page cache."""

    def __init__(
        self,
        kernel: Scheduler,
        memory: Memory,
        reads: CachedReads,
        metadata: Metadata,
        write_back: WriteBack,
        *,
        stable_pages: bool,
    ) -> None:
        """stable_pages: whether writes wait for the write-back of their page."""
        self._kernel = kernel
        self._memory = memory
        self._reads = reads
        self._metadata = metadata
        self._write_back = write_back
        self._stable_pages = stable_pages
        self.throttle = DirtyThrottle(kernel, write_back)
        self.on_fault: Callable[[int], None] = lambda pages: None
        """Called with the number of page faults, to spend their computing time."""
        self.explain: Callable[[str, Callable[[], None]], None] = lambda reason, call: call()
        """Runs a call that may wait, with a reason for reports."""
        self.faults = 0

    def store(self, file: FilePages, at: int, size_bytes: int) -> None:
        """Write through a map."""
        first, last = at // BLOCK_BYTES, (at + size_bytes - 1) // BLOCK_BYTES
        dirty = file.dirty
        if first in dirty and last - first <= 1 and last in dirty:
            return
        for page in range(first, last + 1):
            while page not in dirty:  # again if a sync cleans the page while the task pauses
                self.faults += 1
                self.on_fault(1)
                self._load(file, page)
                self._change_time(file)
                self._make_dirty(file, range(page, page + 1))

    def write(self, file: FilePages, at: int, size_bytes: int) -> None:
        """Write through a descriptor."""
        self._change_time(file)
        end = at + size_bytes
        first, last = at // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
        for page in dict.fromkeys((first, last)):
            if page * BLOCK_BYTES < at or end < (page + 1) * BLOCK_BYTES:
                self._load(file, page)
        for page in range(first, last + 1, _BATCH_PAGES):
            pages = range(page, min(page + _BATCH_PAGES, last + 1))
            self._memory.add_all(file, pages)
            self._make_dirty(file, pages)

    def write_direct(self, file: FilePages, at: int, size_bytes: int) -> None:
        """Write past the page cache (O_DIRECT), and wait for the device. The range covers whole pages."""
        assert at % BLOCK_BYTES == size_bytes % BLOCK_BYTES == 0, (at, size_bytes)
        self._write_back.write_direct(file, range(at // BLOCK_BYTES, (at + size_bytes) // BLOCK_BYTES))

    def _load(self, file: FilePages, page: int) -> None:
        is_resident, request = self._memory.find((file, page))
        if not is_resident and file.blocks.stored_block(page) is None:
            self._memory.add((file, page), None)
        elif not is_resident:
            reader = self._kernel.current.name
            self.explain("page read", partial(self._reads.read, reader, file, page, page))
        elif request is not None:
            self._reads.wait(request)

    def _change_time(self, file: FilePages) -> None:
        tick = self._kernel.now_ns // TICK_NS
        if tick != file.changed_tick:
            file.changed_tick = tick
            self._metadata.record_change(file)

    def _make_dirty(self, file: FilePages, pages: range) -> None:
        if self._stable_pages and file.writing:
            for page in pages:
                write = file.writing.get(page)
                if write is not None:
                    self.explain("stable page", partial(self._write_back.end_write, file, write))
        new = self._write_back.record_dirty(file, pages)
        if new:
            self.throttle.pause_dirtier(new)
