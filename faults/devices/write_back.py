"""Write-back: dirty pages, the flusher that writes them, and the journal.

The flusher wakes every few seconds and writes files whose first dirty page is too old. Above the background limit it
writes the longest dirty files until it is below. A task that dirties pages above the limit waits. Linux slows such
tasks to the pace of the disk earlier; here they run, then wait.

One commit covers all syncs that waited during the previous one. A commit writes a description, flushes, writes a commit
block and flushes again: the order of jbd2. Files that one task syncs in turn need one commit each; files that several
tasks sync at once share one.

Sources: Linux, Documentation/admin-guide/sysctl/vm.rst; fs/fs-writeback.c; mm/page-writeback.c (balance_dirty_pages);
Documentation/filesystems/ext4/journal.rst.
"""

from collections.abc import Sequence

from ...sim.machine import Gate, Machine, Scheduler
from .elevator import Elevator, IoRequest
from .pages import FilePages, Memory, Placement
from .storage import BLOCK_BYTES, COMMIT_BLOCKS, DESCRIPTION_BLOCKS, JournalRing

_FILES_AT_ONCE = 256  # Linux's limit for the requests of a queue (nr_requests)
_PAGES_AT_ONCE = 4096  # 16 MiB
_PAGES_OF_REQUEST = 256  # 1 MiB, about Linux's limit for one request (max_sectors_kb)
Batch = tuple[FilePages, list[int]]
"""Pages of one file, ascending."""


class Journal:
    """The commits of one journal. Invariant: changes belong to commit `open_number`, which has not begun."""

    def __init__(self, kernel: Scheduler, elevator: Elevator, ring: JournalRing) -> None:
        self._elevator = elevator
        self._ring = ring
        self._waiters = Gate(kernel, "a journal commit")
        self._is_committing = False
        self._is_due = False
        self._committed = 0
        self.open_number = 1

    @property
    def commits(self) -> int:
        """Return the number of finished commits."""
        return self._committed

    def note(self) -> int:
        """Record a change; return the number of its commit."""
        self._is_due = True
        return self.open_number

    def commit_if_due(self) -> None:
        """Wait in the current task until all recorded changes are committed."""
        if self._is_due:
            self.wait_for(self.open_number)

    def wait_for(self, number: int) -> None:
        """Wait until a commit has ended; run it unless another task does."""
        while self._committed < number:
            if self._is_committing:
                self._waiters.wait(None)
            else:
                self._commit()

    def _commit(self) -> None:
        assert not self._is_committing, "two commits would interleave in the ring"
        self._is_committing = True
        self._is_due = False
        # Taken before the first write: changes noted while this commit runs belong to the next one.
        number, self.open_number = self.open_number, self.open_number + 1
        self._write(DESCRIPTION_BLOCKS)
        self._write(COMMIT_BLOCKS)
        assert self._committed < number < self.open_number, (self._committed, number, self.open_number)
        self._committed = number
        self._is_committing = False
        self._waiters.open()

    def _write(self, blocks: int) -> None:
        """Write the next blocks of the ring, and flush."""
        elevator = self._elevator
        elevator.wait(elevator.write([self._ring.next(blocks)]))
        elevator.wait(elevator.flush())


class WriteBack:
    """The dirty pages of one machine. Invariant: `_files` are the files with dirty pages, the longest dirty first."""

    def __init__(
        self, machine: Machine, elevator: Elevator, journal: Journal, placement: Placement, memory: Memory
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
        self._room = Gate(self._kernel, "room for dirty pages")
        self._signal = machine.tasks.signal("flusher")
        self._is_writing = False
        self.throttled_ns = 0
        machine.tasks.spawn("flusher", self._run)

    @property
    def dirty_bytes(self) -> int:
        """Return the number of bytes that are not on the device yet, including those in flight."""
        return (self._dirty + self._in_flight) * BLOCK_BYTES

    def dirtied(self, file: FilePages, first: int, last: int) -> None:
        """Record writes to pages [first, last] of a file; wait if too much is dirty."""
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
            # A dict keeps the order of insertion, and `_next_batch` relies on it: the longest dirty file comes first.
            assert file.path not in self._files, file.path
            self._files[file.path] = file
        self._dirty += len(dirty) - before
        if self._dirty > self._background and not self._is_writing:  # a writing flusher checks again by itself
            self._signal.notify()
        if self._dirty + self._in_flight > self._limit:
            self._wait_for_room()

    def sync(self, file: FilePages, first: int, last: int) -> None:
        """Wait in the current task until pages [first, last] of a file, as they are now, are durable."""
        pages = sorted(page for page in file.dirty if first <= page <= last)
        if pages:
            self._write([(file, pages)])
        while file.in_flight:  # the flusher may have taken some of these pages before
            file.written.wait(None)
        self._journal.wait_for(file.commit_number)

    def sync_names(self) -> None:
        """Wait in the current task until changes of names are durable."""
        self._journal.wait_for(self._journal.open_number)

    def prepare(self, file: FilePages, first: int, last: int) -> None:
        """Record writes before a measurement: no task waits, and `forget` follows."""
        file.dirty.update(range(first, last + 1))
        self._files[file.path] = file

    def forget(self) -> None:
        """Place all dirty pages and mark them clean: a measurement starts without them."""
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

    def _run(self) -> None:
        committed_ns = self._kernel.now_ns
        while True:
            self._signal.wait(self._memory.wake_ms)
            self._is_writing = True
            while batch := self._next_batch():
                self._write(batch)
            self._is_writing = False
            if self._kernel.now_ns - committed_ns >= self._memory.wake_ms * 1_000_000:
                committed_ns = self._kernel.now_ns
                self._journal.commit_if_due()

    def _next_batch(self) -> list[Batch]:
        """Return pages to write back now, of the longest dirty files first."""
        expired_ns = self._kernel.now_ns - self._memory.expire_ns
        found: list[Batch] = []
        count = 0
        for file in self._files.values():
            is_wanted = self._dirty - count > self._background or file.dirty_since_ns <= expired_ns
            if not is_wanted or len(found) >= _FILES_AT_ONCE or count >= _PAGES_AT_ONCE:
                break  # files are ordered by the time they became dirty, so no later one is due
            pages = sorted(file.dirty)[: _PAGES_AT_ONCE - count]
            found.append((file, pages))
            count += len(pages)
        return found

    def _write(self, batch: Sequence[Batch]) -> None:
        """Write pages of files at once, and wait for the end, piece by piece."""
        pieces = [
            (file, pages[at : at + _PAGES_OF_REQUEST])
            for file, pages in batch
            for at in range(0, len(pages), _PAGES_OF_REQUEST)
        ]
        # All are queued before the first wait, so that the elevator can sort them.
        requests = [self._begin(file, pages) for file, pages in pieces]
        for (file, pages), request in zip(pieces, requests, strict=True):
            self._elevator.wait(request)
            self._in_flight -= len(pages)
            file.in_flight -= len(pages)
            assert 0 <= file.in_flight <= self._in_flight, (file.path, file.in_flight, self._in_flight)
            file.written.open()
            self._room.open()

    def _begin(self, file: FilePages, pages: list[int]) -> IoRequest:
        """Start a write of pages of one file. They are clean as soon as they are queued."""
        runs = self._placement.place(file.blocks, pages)
        file.in_flight += len(pages)
        file.dirty.difference_update(pages)
        if not file.dirty:
            del self._files[file.path]
        file.commit_number = self._journal.note()
        self._dirty -= len(pages)
        self._in_flight += len(pages)
        return self._elevator.write(runs)
