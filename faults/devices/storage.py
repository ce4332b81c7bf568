"""Blocks of a device: requests, free blocks, and the journal's ring. The page cache is in `system.py`."""

from collections.abc import Sequence
from typing import Protocol

Run = tuple[int, int]
"""Adjacent blocks: first, count."""
BLOCK_BYTES = 4096
JOURNAL_BLOCKS = 32_768  # 128 MiB
COMMIT_BLOCKS = 1


class BlockDevice(Protocol):
    """A device that reads and writes blocks, one request at a time."""

    @property
    def blocks(self) -> int: ...

    def write(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when a write that begins at now_ns is in the cache or on the medium. runs: in ascending order."""

    def read(self, now_ns: int, run: Run) -> int:
        """Return when a read that begins at now_ns ends."""

    def flush(self, now_ns: int) -> int:
        """Return when a flush that begins at now_ns has made earlier writes durable."""


def append_block(runs: list[Run], block: int) -> bool:
    """Append a block. Return whether a new run began."""
    if runs and sum(runs[-1]) == block:
        runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        return False
    runs.append((block, 1))
    return True


class FreeBlocks:
    """The free blocks of a device: all blocks from `_free` on."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._free = 0

    def reserve(self, blocks: int) -> int:
        """Reserve adjacent free blocks, and return the first. ValueError: the device is full."""
        first = self._free
        self._free += blocks
        if self._free > self._blocks:
            raise ValueError(f"device: expected at most {self._blocks} blocks in use, found {self._free}")
        return first


class JournalRing:
    """The blocks of a journal, written cyclically."""

    def __init__(self, free: FreeBlocks) -> None:
        self._first = free.reserve(JOURNAL_BLOCKS)
        self._at = 0

    def next_blocks(self, blocks: int) -> Run:
        """Return the next blocks, or the first ones if the ring's end is too near."""
        assert 0 < blocks <= JOURNAL_BLOCKS, blocks
        if self._at + blocks > JOURNAL_BLOCKS:
            self._at = 0
        first = self._first + self._at
        self._at += blocks
        return first, blocks
