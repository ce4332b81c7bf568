"""Unjournaled metadata: changes of inodes on an ext4 without a journal, and the writes of a sync.

Handles are only counted there, so a change never waits. A sync writes the metadata of its file in place, a
block at a time, if it has changed, waits for these writes, and flushes the device once. There are no commits. The
flusher's own writes of inodes are left out, because they are single blocks every few seconds.

Sources: Linux, fs/ext4/ext4_jbd2.c (ext4_get_nojournal; __ext4_handle_dirty_metadata: mark_buffer_dirty_inode);
fs/ext4/fsync.c (ext4_fsync_nojournal); fs/buffer.c (generic_buffers_fsync_noflush); fs/ext4/inode.c (ext4_write_inode:
sync_dirty_buffer). Versions of Linux differ in the number of writes, so `MetadataWrites` is measured.
"""

from typing import NamedTuple

from .elevator import Elevator
from .journal import Journal
from .pages import FilePages, InodeBlock
from .storage import FreeBlocks

_TABLE_BLOCKS = 8_192  # inodes of 131,072 files
_DIRECTORY_WRITES = 2  # its block and its inode


class MetadataWrites(NamedTuple):
    """Writes of metadata blocks by a data sync (fdatasync), after the writes of data."""

    after_new_time: int = 0
    """If data was written in place, so that only the inode's time has changed."""
    after_new_blocks: int = 1
    """If pages got blocks, or unwritten extents were converted."""


class Unjournaled:
    """The changes of inodes. Invariant: no number in `_synced` is above `_changes`."""

    orders_data = False
    """A new block counts as unwritten until its data is on the device (dioread_nolock)."""

    def __init__(self, elevator: Elevator, free: FreeBlocks, writes: MetadataWrites) -> None:
        self._elevator = elevator
        self._table = free.reserve(_TABLE_BLOCKS)
        self._places: dict[InodeBlock, int] = {}
        self._of_data_sync = writes
        self._changes = 0
        self._synced: dict[FilePages, int] = {}
        """File -> number of the last change that a sync has begun to write."""

    def start_handle(self, file: FilePages) -> None:
        """Change the file's inode."""
        self._changes += 1
        file.commit_number = self._changes

    def stop_handle(self) -> None:
        """No-op: no commit waits for handles."""

    def order_data(self, file: FilePages) -> None:
        """No-op: no commit waits for data."""

    def record_change(self, file: FilePages) -> None:
        """Change the file's time."""
        self.start_handle(file)

    def record_blocks(self, file: FilePages) -> None:
        """Change the file's blocks or size, for which fdatasync waits."""
        self.start_handle(file)
        file.data_commit_number = file.commit_number

    def make_durable(self, file: FilePages, *, data_only: bool) -> None:
        """Wait until the file's inode and its finished writes are durable. data_only: as fdatasync."""
        synced = self._synced.get(file, 0)
        self._synced[file] = max(synced, file.commit_number)
        if file.data_commit_number > synced:
            writes = self._of_data_sync.after_new_blocks
        elif file.commit_number > synced:
            writes = self._of_data_sync.after_new_time if data_only else 1
        else:
            writes = 0
        place = self._places.setdefault(file.inode_block, self._table + len(self._places) % _TABLE_BLOCKS)
        self._write_and_flush(place, writes)

    def sync_names(self) -> None:
        """Make the names of a directory durable."""
        self._write_and_flush(self._table, _DIRECTORY_WRITES)

    def _write_and_flush(self, block: int, writes: int) -> None:
        for _ in range(writes):
            self._elevator.wait(self._elevator.write([(block, 1)]))
        self._elevator.wait(self._elevator.flush())


Metadata = Journal | Unjournaled
"""The metadata of a file system."""
