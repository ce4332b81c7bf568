"""Storage models: blocks of a device, and syncs that take measured times.

`MeasuredStorage` replays the durations of a real machine's syncs. The page cache over a block device is in `system.py`.
Blocks have 4096 bytes. The journal of the file system is a ring of blocks on the device.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Protocol

from ..disk.fault_injector import FaultInjector
from ..disk.page_cache import Inode
from ..disk.syncs import SyncTiming

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


class Storage(Protocol):
    """A model of sync durations and of block placement."""

    def sync(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when a sync of these dirty blocks that begins at now_ns ends."""

    def place(self, blocks: int) -> int:
        """Reserve adjacent free blocks, and return the first."""


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


class MeasuredStorage:
    """Measured sync durations in their original order, because slow syncs come in clusters. Syncs do not overlap."""

    def __init__(self, syncs_ns: Sequence[int]) -> None:
        """syncs_ns: at least one sync duration, in the order of the measurement."""
        if not syncs_ns:
            raise ValueError("syncs_ns: expected at least one duration, found none")
        self._syncs_ns = cycle(syncs_ns)
        self._usual_ns: int | None = sorted(syncs_ns)[len(syncs_ns) // 2]  # the median
        self._free = 0
        self._idle_ns = 0

    def use_measured_syncs(self) -> None:
        """Use the measured sequence for later syncs. Earlier syncs take the median."""
        self._usual_ns = None

    def sync(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when a sync ends, independent of the amount of data."""
        took_ns = next(self._syncs_ns) if self._usual_ns is None else self._usual_ns
        self._idle_ns = max(now_ns, self._idle_ns) + took_ns
        return self._idle_ns

    def place(self, blocks: int) -> int:
        """Reserve adjacent free blocks, and return the first."""
        self._free += blocks
        return self._free - blocks


class StorageTiming:
    """Sync durations of a Storage, plus the slow syncs and stalls of a fault plan."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._first_blocks: dict[int, int] = {}  # by Inode.identity
        self._faults = SyncTiming(base_ns_min=0, base_ns_max=0)
        self.syncs = 0

    def sync_ns(self, injector: FaultInjector, label: str, inode: Inode | None, start: int, end: int) -> int:
        now_ns = injector.kernel.now_ns
        runs: list[Run] = []
        if inode is not None:
            self.syncs += 1
            runs = _dirty_runs(self._first_block(inode), inode, start, end)
        done_ns = self._storage.sync(now_ns, runs)
        assert done_ns >= now_ns, (label, now_ns, done_ns)
        return done_ns - now_ns + self._faults.draw(injector, label)

    def _first_block(self, inode: Inode) -> int:
        first = self._first_blocks.get(inode.identity)
        if first is None:
            first = self._storage.place(-(-inode.size_bytes // BLOCK_BYTES))
            self._first_blocks[inode.identity] = first
        return first


def _dirty_runs(first_block: int, inode: Inode, start: int, end: int) -> list[Run]:
    dirty: set[int] = set()
    for _, at, data in inode.pending:
        if data and at < end and start < at + len(data):
            dirty.update(range(at // BLOCK_BYTES, (at + len(data) - 1) // BLOCK_BYTES + 1))
    runs: list[Run] = []
    for block in sorted(dirty):
        append_block(runs, first_block + block)
    return runs
