"""Storage models: durations of syncs, by a journalling file system on a device, or as measured.

A sync writes the file's dirty blocks, then the inode (its time at least changed) to the journal, and ends when the
journal's commit block is on the medium: the order of ext4 with data=ordered (Linux,
Documentation/filesystems/ext4/journal.rst). The journal is a ring of blocks. Blocks have 4096 bytes.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Protocol

from ..disk.fault_injector import FaultInjector
from ..disk.page_cache import Inode
from ..disk.syncs import SyncTiming

Run = tuple[int, int]
"""Adjacent blocks: the first, and their number."""
BLOCK_BYTES = 4096
JOURNAL_BLOCKS = 32_768  # 128 MiB
DESCRIPTION_BLOCKS = 2  # the descriptor, and a block of the inodes' table
COMMIT_BLOCKS = 1


class BlockDevice(Protocol):
    """A device that writes and reads blocks, one request after another."""

    @property
    def blocks(self) -> int:
        """Return how many blocks it has."""

    def write(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when runs are in its cache or on its medium, in the order of their blocks, begun at now_ns."""

    def read(self, now_ns: int, run: Run) -> int:
        """Return when a run has been read, begun at now_ns."""

    def flush(self, now_ns: int) -> int:
        """Return when all written data is on the medium, begun at now_ns."""


class Storage(Protocol):
    """The durations of syncs, and the placement of files."""

    def sync(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when a sync of these dirty blocks ends, begun at now_ns."""

    def place(self, blocks: int) -> int:
        """Return the first block of a free run of this length, and reserve it."""


def append_block(runs: list[Run], block: int) -> bool:
    """Add a block to runs, to the last one if adjacent; return whether it began a new run."""
    if runs and sum(runs[-1]) == block:
        runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        return False
    runs.append((block, 1))
    return True


class FreeBlocks:
    """The free blocks of one device: all from `_free` on. Files are adjacent, in order of creation."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._free = 0

    def take(self, blocks: int) -> int:
        """Return the first block of a free run of this length, and reserve it. ValueError: the device is full."""
        first = self._free
        self._free += blocks
        if self._free > self._blocks:
            raise ValueError(f"the device has {self._blocks} blocks, and {self._free} are asked for")
        return first


class JournalRing:
    """The blocks of a journal, written cyclically."""

    def __init__(self, free: FreeBlocks) -> None:
        self._first = free.take(JOURNAL_BLOCKS)
        self._at = 0

    def next(self, blocks: int) -> Run:
        """Return the next blocks. If they would cross the end, they begin at the start."""
        assert 0 < blocks <= JOURNAL_BLOCKS, blocks
        if self._at + blocks > JOURNAL_BLOCKS:
            self._at = 0
        first = self._first + self._at
        self._at += blocks
        return first, blocks


class JournalledStorage:
    """A file system with a journal on a device of its own."""

    def __init__(self, device: BlockDevice) -> None:
        self._device = device
        self._free = FreeBlocks(device.blocks)
        self._journal = JournalRing(self._free)
        self._idle_ns = 0

    def sync(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when a sync of these dirty blocks ends. Syncs run one after another, because there is one journal."""
        device = self._device
        done_ns = max(now_ns, self._idle_ns)
        if runs:
            done_ns = device.write(done_ns, runs)
        done_ns = device.write(done_ns, [self._journal.next(DESCRIPTION_BLOCKS)])
        done_ns = device.flush(done_ns)  # the commit block must not be durable before the blocks that it commits
        done_ns = device.write(done_ns, [self._journal.next(COMMIT_BLOCKS)])
        self._idle_ns = device.flush(done_ns)
        assert self._idle_ns >= done_ns >= now_ns, (now_ns, done_ns, self._idle_ns)
        return self._idle_ns

    def place(self, blocks: int) -> int:
        """Return the first block of a free run of this length, and reserve it. ValueError: the device is full."""
        return self._free.take(blocks)


class MeasuredStorage:
    """Storage with measured sync times in their order, because slow syncs come in clusters. Syncs do not overlap."""

    def __init__(self, syncs_ns: Sequence[int]) -> None:
        """Set up. syncs_ns: measured durations in their order, at least one."""
        if not syncs_ns:
            raise ValueError("expected the times of syncs, at least one")
        self._syncs_ns = cycle(syncs_ns)
        self._usual_ns: int | None = sorted(syncs_ns)[len(syncs_ns) // 2]  # the median
        self._free = 0
        self._idle_ns = 0

    def begin(self) -> None:
        """Start the sequence with the next sync. Until then each sync takes the median."""
        self._usual_ns = None

    def sync(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when a sync ends, begun at now_ns, whatever it writes."""
        took_ns = next(self._syncs_ns) if self._usual_ns is None else self._usual_ns
        self._idle_ns = max(now_ns, self._idle_ns) + took_ns
        return self._idle_ns

    def place(self, blocks: int) -> int:
        """Return the first block of a free run of this length, and reserve it."""
        self._free += blocks
        return self._free - blocks


class StorageTiming:
    """Takes sync durations from a storage. Slow syncs and stalls of a fault plan are added."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._first_blocks: dict[int, int] = {}  # first block of each file, by its inode's number
        self._faults = SyncTiming(base_ns_min=0, base_ns_max=0)
        self.syncs = 0

    def sync_ns(self, injector: FaultInjector, label: str, inode: Inode | None, start: int, end: int) -> int:
        """Return one sync's latency in ns."""
        now_ns = injector.kernel.now_ns
        runs: list[Run] = []
        if inode is not None:
            self.syncs += 1
            runs = _runs(self._first_block(inode), inode, start, end)
        done_ns = self._storage.sync(now_ns, runs)
        assert done_ns >= now_ns, (label, now_ns, done_ns)
        return done_ns - now_ns + self._faults.draw(injector, label)

    def _first_block(self, inode: Inode) -> int:
        first = self._first_blocks.get(inode.identity)
        if first is None:
            first = self._storage.place(-(-inode.size_bytes // BLOCK_BYTES))
            self._first_blocks[inode.identity] = first
        return first


def _runs(first_block: int, inode: Inode, start: int, end: int) -> list[Run]:
    """Return the dirty blocks of a file's [start, end), ascending, with adjacent ones as one run."""
    dirty: set[int] = set()
    for _, at, data in inode.pending:
        if data and at < end and start < at + len(data):
            dirty.update(range(at // BLOCK_BYTES, (at + len(data) - 1) // BLOCK_BYTES + 1))
    runs: list[Run] = []
    for block in sorted(dirty):
        append_block(runs, first_block + block)
    return runs
