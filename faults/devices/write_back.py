"""Write-back: dirty pages, the flusher that writes them, and the journal.

The flusher runs every few seconds and writes files whose oldest dirty page is too old. While dirty data exceeds the
background limit, the flusher writes the files that have been dirty longest. Above the hard limit, a writing task waits.
Linux slows writing tasks already below the hard limit; in the model they run at full speed, then wait.

One journal commit covers all syncs that were requested during the previous commit. As in jbd2, a commit writes a
description, flushes, writes a commit block and flushes again. Syncs of one task, one after another, need a commit each;
concurrent syncs of several tasks share one.

Sources: Linux, Documentation/admin-guide/sysctl/vm.rst; fs/fs-writeback.c; mm/page-writeback.c (balance_dirty_pages);
Documentation/filesystems/ext4/journal.rst.
"""

from collections.abc import Sequence

from ...sim.machine import Machine, Scheduler, WaitGate
from .elevator import Elevator, IoRequest
from .pages import FilePages, PageCacheLimits, Placement
from .storage import BLOCK_BYTES, COMMIT_BLOCKS, DESCRIPTION_BLOCKS, JournalRing

_FILES_AT_ONCE = 256  # Linux's limit for queued requests (nr_requests)
_PAGES_AT_ONCE = 4096  # 16 MiB
_PAGES_OF_REQUEST = 256  # 1 MiB, about Linux's limit for one request (max_sectors_kb)
Batch = tuple[FilePages, list[int]]
"""A file and its pages to write back, in ascending order."""


class Journal:
    """The commits of a journal. Invariant: new changes belong to commit `open_number`, which has not begun."""

    def __init__(self, kernel: Scheduler, elevator: Elevator, ring: JournalRing) -> None:
        self._elevator = elevator
        self._ring = ring
        self._waiters = WaitGate(kernel, "a journal commit")
        self._is_committing = False
        self._is_due = False
        self._committed = 0
        self.open_number = 1

    @property
    def commits(self) -> int:
        return self._committed

    def record_change(self) -> int:
        """Record a metadata change and return the number of the commit that will cover it."""
        self._is_due = True
        return self.open_number

    def commit_if_due(self) -> None:
        """Wait until all recorded changes are committed."""
        if self._is_due:
            self.wait_for_commit(self.open_number)

    def wait_for_commit(self, number: int) -> None:
        """Wait for a commit. If no other task runs the commit, run it here."""
        while self._committed < number:
            if self._is_committing:
                self._waiters.wait(None)
            else:
                self._run_commit()

    def _run_commit(self) -> None:
        assert not self._is_committing, "two commits would interleave in the ring"
        self._is_committing = True
        self._is_due = False
        # Changes recorded during this commit belong to the next one.
        number, self.open_number = self.open_number, self.open_number + 1
        self._write_blocks(DESCRIPTION_BLOCKS)
        self._write_blocks(COMMIT_BLOCKS)
        assert self._committed < number < self.open_number, (self._committed, number, self.open_number)
        self._committed = number
        self._is_committing = False
        self._waiters.open()

    def _write_blocks(self, blocks: int) -> None:
        elevator = self._elevator
        elevator.wait(elevator.write([self._ring.next_blocks(blocks)]))
        elevator.wait(elevator.flush())


class WriteBack:
    """The dirty pages of a machine. Invariant: `_files` has the files with dirty pages, longest dirty first."""

    def __init__(
        self, machine: Machine, elevator: Elevator, journal: Journal, placement: Placement, memory: PageCacheLimits
    ) -> None:
        self._kernel = machine.kernel
        self._elevator = elevator
        self._journal = journal
        self._placement = placement
        self._memory = memory
        self.background_bytes = memory.background_bytes
        self._background = memory.background_bytes // BLOCK_BYTES
        self._limit = memory.dirty_bytes_max // BLOCK_BYTES
        self._files: dict[str, FilePages] = {}
        self._dirty = 0
        self._in_flight = 0
        self._room = WaitGate(self._kernel, "room for dirty pages")
        self._signal = machine.tasks.signal("flusher")
        self._is_writing = False
        self.throttled_ns = 0
        machine.tasks.spawn("flusher", self._run_write_back)

    @property
    def dirty_bytes(self) -> int:
        """Bytes that are not on the device yet, including queued writes."""
        return (self._dirty + self._in_flight) * BLOCK_BYTES

    def record_write(self, file: FilePages, first: int, last: int) -> None:
        """Record writes to pages [first, last]. If too many pages are dirty, wait for write-back."""
        dirty = file.dirty
        before = len(dirty)
        if first == last:
            dirty.add(first)
        else:
            dirty.update(range(first, last + 1))
        if len(dirty) == before:
            return
        if not before:
            file.dirty_since_ns = self._kernel.now_ns
            # `_next_batch` relies on the dict's insertion order: the first file became dirty first.
            assert file.path not in self._files, file.path
            self._files[file.path] = file
        self._dirty += len(dirty) - before
        if self._dirty > self._background and not self._is_writing:  # a busy flusher checks the limit itself
            self._signal.notify()
        if self._dirty + self._in_flight > self._limit:
            self._wait_for_room()

    def sync(self, file: FilePages, first: int, last: int) -> None:
        """Wait until the current content of pages [first, last] is durable."""
        pages = sorted(page for page in file.dirty if first <= page <= last)
        if pages:
            self._write_batch([(file, pages)])
        while file.in_flight:  # the flusher may already be writing some of these pages
            file.written.wait(None)
        self._journal.wait_for_commit(file.commit_number)

    def sync_names(self) -> None:
        self._journal.wait_for_commit(self._journal.open_number)

    def prepare(self, file: FilePages, first: int, last: int) -> None:
        """Record writes without a wait, before `forget` and a measurement."""
        file.dirty.update(range(first, last + 1))
        self._files[file.path] = file

    def forget(self) -> None:
        """Before a measurement, assign blocks to all dirty pages and mark the pages clean."""
        for file in self._files.values():
            self._placement.place(file.blocks, sorted(file.dirty))
            file.dirty.clear()
        self._files.clear()
        self._dirty = 0

    def _wait_for_room(self) -> None:
        begun_ns = self._kernel.now_ns
        self._signal.notify()
        while self._dirty + self._in_flight > self._limit:
            self._room.wait(None)
        self.throttled_ns += self._kernel.now_ns - begun_ns

    def _run_write_back(self) -> None:
        committed_ns = self._kernel.now_ns
        while True:
            self._signal.wait(self._memory.wake_ms)
            self._is_writing = True
            while batch := self._next_batch():
                self._write_batch(batch)
            self._is_writing = False
            if self._kernel.now_ns - committed_ns >= self._memory.wake_ms * 1_000_000:
                committed_ns = self._kernel.now_ns
                self._journal.commit_if_due()

    def _next_batch(self) -> list[Batch]:
        """Return the pages to write back now, longest dirty files first."""
        expired_ns = self._kernel.now_ns - self._memory.expire_ns
        found: list[Batch] = []
        count = 0
        for file in self._files.values():
            is_wanted = self._dirty - count > self._background or file.dirty_since_ns <= expired_ns
            if not is_wanted or len(found) >= _FILES_AT_ONCE or count >= _PAGES_AT_ONCE:
                break  # later files became dirty later
            pages = sorted(file.dirty)[: _PAGES_AT_ONCE - count]
            found.append((file, pages))
            count += len(pages)
        return found

    def _write_batch(self, batch: Sequence[Batch]) -> None:
        """Write pages of several files concurrently."""
        pieces = [
            (file, pages[at : at + _PAGES_OF_REQUEST])
            for file, pages in batch
            for at in range(0, len(pages), _PAGES_OF_REQUEST)
        ]
        # Queue all pieces before the first wait, so that the elevator sorts them.
        requests = [self._queue_write(file, pages) for file, pages in pieces]
        for (file, pages), request in zip(pieces, requests, strict=True):
            self._elevator.wait(request)
            self._in_flight -= len(pages)
            file.in_flight -= len(pages)
            assert 0 <= file.in_flight <= self._in_flight, (file.path, file.in_flight, self._in_flight)
            file.written.open()
            self._room.open()

    def _queue_write(self, file: FilePages, pages: list[int]) -> IoRequest:
        """Queue writes of one file's pages, which then count as clean."""
        runs = self._placement.place(file.blocks, pages)
        file.in_flight += len(pages)
        file.dirty.difference_update(pages)
        if not file.dirty:
            del self._files[file.path]
        file.commit_number = self._journal.record_change()
        self._dirty -= len(pages)
        self._in_flight += len(pages)
        return self._elevator.write(runs)
