"""What a file system with a journal asks of a device for one sync.

A sync writes the file's dirty blocks where they belong, then the inode, which has a new time at least, to the journal,
and ends when the journal's commit block is on the medium: the order of ext4 with data=ordered (Linux,
Documentation/filesystems/ext4/journal.rst). The journal is a ring of blocks of its own, written in sequence.

Blocks have 4096 bytes and are counted from the device's first.
"""

from collections.abc import Sequence
from typing import Protocol

Run = tuple[int, int]
"""Blocks that lie side by side: the first, and how many."""

BLOCK_BYTES = 4096
_JOURNAL_BLOCKS = 32_768
_DESCRIPTION_BLOCKS = 2  # the descriptor and the inode's table block
_COMMIT_BLOCKS = 1


class BlockDevice(Protocol):
    """A device that writes and reads blocks, one request after the other."""

    @property
    def blocks(self) -> int:
        """Return how many blocks it has."""

    def write(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when runs, in the order of their blocks, are in its cache or on its medium, begun at now_ns."""

    def read(self, now_ns: int, run: Run) -> int:
        """Return when a run has been read, begun at now_ns."""

    def flush(self, now_ns: int) -> int:
        """Return when all that was written is on the medium, begun at now_ns."""


class Storage(Protocol):
    """What a disk asks how long a sync takes."""

    def sync(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when a sync of these dirty blocks ends, begun at now_ns."""

    def place(self, blocks: int) -> int:
        """Return the first of so many blocks in a row, free until now."""


class JournalledStorage:
    """A file system with a journal on a device of its own. Invariant: the journal's next block is `_journal_at`."""

    def __init__(self, device: BlockDevice) -> None:
        self._device = device
        self._journal_at = 0
        self._free = _JOURNAL_BLOCKS
        self._idle_ns = 0

    def sync(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when a sync of these dirty blocks ends. Syncs follow one another: there is one journal."""
        device = self._device
        done_ns = max(now_ns, self._idle_ns)
        if runs:
            done_ns = device.write(done_ns, runs)
        done_ns = device.write(done_ns, [self._journal(_DESCRIPTION_BLOCKS)])
        done_ns = device.flush(done_ns)
        done_ns = device.write(done_ns, [self._journal(_COMMIT_BLOCKS)])
        self._idle_ns = device.flush(done_ns)
        return self._idle_ns

    def place(self, blocks: int) -> int:
        """Return the first of so many blocks in a row: files lie behind one another, as they were made."""
        first = self._free
        self._free += blocks
        if self._free > self._device.blocks:
            raise ValueError(f"the device has {self._device.blocks} blocks, and {self._free} are asked for")
        return first

    def _journal(self, blocks: int) -> Run:
        if self._journal_at + blocks > _JOURNAL_BLOCKS:
            self._journal_at = 0
        first = self._journal_at
        self._journal_at += blocks
        return first, blocks
