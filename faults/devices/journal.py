"""Journal: handles, transactions and commits of ext4's journal (jbd2), and the tasks that wait for them.

A handle is one change of metadata. Handles join the running transaction. A commit passes four phases:

1. Locked: new handles wait until the open handles of the transaction have stopped. Then a new transaction begins.
2. Data (data=ordered): the commit waits for the data of files that got new blocks in the transaction.
3. Metadata: the changed blocks are written to the journal. A handle that changes the same inode block waits, because
   the journal is writing that block (a shadow buffer).
4. Commit block: a flush, the block, a flush. Linux asks for REQ_PREFLUSH and REQ_FUA. Without FUA (most SATA drives,
   virtual disks) it flushes again after the block; with FUA the device makes the block durable, in about the same time.

The journal task commits a transaction when a sync requests it, or 5 s after the first handle. All syncs requested
during a commit share the next one.

Sources: Linux, Documentation/filesystems/ext4/journal.rst (data=ordered, commit=5); fs/jbd2/commit.c
(jbd2_journal_commit_transaction, journal_finish_inode_data_buffers, journal_submit_commit_record);
fs/jbd2/transaction.c (wait_transaction_locked, do_get_write_access: BH_Shadow); fs/ext4/ext4_jbd2.h
(ext4_should_order_data); Documentation/block/writeback_cache_control.rst and block/blk-flush.c (FUA). From Linux 5.6
on, ext4 allocates new blocks as unwritten extents (dioread_nolock), and a commit need not wait for data: `orders_data`
off.
"""

from ...sim.machine import Machine, WaitGate
from .elevator import Elevator
from .pages import FilePages, InodeBlock
from .storage import COMMIT_BLOCKS, JournalRing

COMMIT_MS = 5_000  # the mount option commit=5
_DESCRIPTOR_BLOCKS = 1
_BLOCKS_MAX = 1_024
"""Metadata blocks of one commit. A larger transaction would be split by its credits."""


class _Transaction:
    """Invariant: `begun_ns` is None as long as no handle has joined."""

    __slots__ = ("begun_ns", "inode_blocks", "ordered")

    def __init__(self) -> None:
        self.begun_ns: int | None = None
        self.inode_blocks: set[InodeBlock] = set()
        self.ordered: dict[str, FilePages] = {}


class Journal:
    """The transactions of a journal. Invariant: new changes belong to commit `open_number`, which is not locked."""

    def __init__(self, machine: Machine, elevator: Elevator, ring: JournalRing, *, orders_data: bool = True) -> None:
        kernel = machine.kernel
        self._kernel = kernel
        self._elevator = elevator
        self._ring = ring
        self.orders_data = orders_data
        self._committed_gate = WaitGate(kernel, "journal commit")
        self._unlocked = WaitGate(kernel, "journal locked")
        self._shadow_written = WaitGate(kernel, "journal buffer")
        self._handles_stopped = WaitGate(kernel, "journal handles")
        self._signal = machine.tasks.signal("jbd2")
        self._running = _Transaction()
        self._shadow: set[InodeBlock] = set()
        self._open_handles = 0
        self._is_locked = False
        self._requested = 0
        self._committed = 0
        self.open_number = 1
        machine.tasks.spawn("jbd2", self._commit_when_due)

    @property
    def commits(self) -> int:
        return self._committed

    def start_handle(self, file: FilePages, *, is_reserved: bool = False) -> None:
        """Join the running transaction with a change of the file's inode, and wait until this is possible.

        is_reserved: the handle may join a locked transaction, because its task may have another handle open
        (jbd2_journal_start_reserved).
        """
        while True:
            if self._is_locked and not is_reserved:
                self._unlocked.wait(None)
            elif file.inode_block in self._shadow:
                self._shadow_written.wait(None)
            else:
                break
        running = self._running
        self._open_handles += 1
        if running.begun_ns is None:
            running.begun_ns = self._kernel.now_ns
            self._signal.notify()
        running.inode_blocks.add(file.inode_block)
        file.commit_number = self.open_number

    def order_data(self, file: FilePages) -> None:
        """Let the commit of the current handle wait for the data of a file that gets blocks, and fdatasync for it."""
        assert self._open_handles, "ordered data belongs to a handle"
        if self.orders_data:
            self._running.ordered[file.path] = file
            file.data_commit_number = self.open_number

    def stop_handle(self) -> None:
        self._open_handles -= 1
        assert self._open_handles >= 0, "more handles stopped than started"
        if self._is_locked and not self._open_handles:
            self._handles_stopped.open()

    def record_change(self, file: FilePages) -> None:
        """Change the file's time in a short handle."""
        self.start_handle(file)
        self.stop_handle()

    def record_blocks(self, file: FilePages) -> None:
        """Change the file's blocks or size, for which fdatasync waits. The file system has reserved the handle."""
        self.start_handle(file, is_reserved=True)
        file.data_commit_number = self.open_number
        self.stop_handle()

    def make_durable(self, file: FilePages, *, data_only: bool) -> None:
        """Wait until the file's inode and its finished writes are durable. data_only: as fdatasync."""
        number = file.data_commit_number if data_only else file.commit_number
        if number <= self._committed:
            self._flush()
        else:
            self.wait_for_commit(number)

    def sync_names(self) -> None:
        """Make the names of a directory durable."""
        self.wait_for_commit(self.open_number)

    def wait_for_commit(self, number: int) -> None:
        assert number <= self.open_number, (number, self.open_number)
        if number > self._committed:
            self._requested = max(self._requested, number)
            self._signal.notify()
        while self._committed < number:
            self._committed_gate.wait(None)

    def _commit_when_due(self) -> None:
        kernel, commit_ns = self._kernel, COMMIT_MS * 1_000_000
        while True:
            begun_ns = self._running.begun_ns
            if self._committed < self._requested or (begun_ns is not None and kernel.now_ns - begun_ns >= commit_ns):
                self._commit()
            else:
                left_ns = None if begun_ns is None else begun_ns + commit_ns - kernel.now_ns
                self._signal.wait(None if left_ns is None else -(-left_ns // 1_000_000))

    def _commit(self) -> None:
        self._is_locked = True
        while self._open_handles:
            self._handles_stopped.wait(None)
        transaction, self._running = self._running, _Transaction()
        number, self.open_number = self.open_number, self.open_number + 1
        self._is_locked = False
        self._unlocked.open()
        if self.orders_data:
            for file in transaction.ordered.values():
                file.wait_for_data(self._elevator)
        self._shadow = transaction.inode_blocks
        # At least one block, because a directory sync commits without a handle.
        self._write_blocks(_DESCRIPTOR_BLOCKS + min(max(len(self._shadow), 1), _BLOCKS_MAX))
        self._shadow = set()
        self._shadow_written.open()
        self._flush()
        self._write_blocks(COMMIT_BLOCKS)
        self._flush()
        assert self._committed == number - 1, "commits end in order"
        self._committed = number
        self._committed_gate.open()

    def _write_blocks(self, blocks: int) -> None:
        self._elevator.wait(self._elevator.write([self._ring.next_blocks(blocks)]))

    def _flush(self) -> None:
        self._elevator.wait(self._elevator.flush())
