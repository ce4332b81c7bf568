"""Storage models: how long a disk's sync takes, as a journalling file system asks its device, or as it was measured.

A sync writes the file's dirty blocks where they belong, then the inode, which has a new time at least, to the journal,
and ends when the journal's commit block is on the medium: the order of ext4 with data=ordered (Linux,
Documentation/filesystems/ext4/journal.rst). The journal is a ring of blocks of its own, written in sequence.

Blocks have 4096 bytes and are counted from the device's first.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Protocol

from ..disk.fault_injector import FaultInjector
from ..disk.page_cache import Inode
from ..disk.syncs import SyncTiming

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


class MeasuredStorage:
    """Storage whose syncs were timed. Bad moments of a disk come in clusters, so their order is kept.

    Syncs that overlap are taken to follow one another, as on a file system with one journal.
    """

    def __init__(self, syncs_ns: Sequence[int]) -> None:
        """syncs_ns: what syncs took, in the order in which they were made; at least one."""
        if not syncs_ns:
            raise ValueError("expected the times of syncs, at least one")
        self._syncs_ns = cycle(syncs_ns)
        self._usual_ns: int | None = sorted(syncs_ns)[len(syncs_ns) // 2]
        self._free = 0
        self._idle_ns = 0

    def begin(self) -> None:
        """Let the next sync be the first that was timed. Until then each takes the usual time."""
        self._usual_ns = None

    def sync(self, now_ns: int, runs: Sequence[Run]) -> int:
        """Return when a sync ends, begun at now_ns, whatever it writes."""
        took_ns = next(self._syncs_ns) if self._usual_ns is None else self._usual_ns
        self._idle_ns = max(now_ns, self._idle_ns) + took_ns
        return self._idle_ns

    def place(self, blocks: int) -> int:
        """Return the first of so many blocks in a row."""
        self._free += blocks
        return self._free - blocks


class StorageTiming:
    """Asks a storage how long each sync takes. Slow syncs and stalls that a fault plan asks for come on top."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._first_blocks: dict[int, int] = {}
        """Of each file, by its inode's number, where it lies."""
        self._faults = SyncTiming(base_ns_min=0, base_ns_max=0)
        self.syncs = 0
        """How many syncs of files there were."""

    def sync_ns(self, injector: FaultInjector, label: str, inode: Inode | None, start: int, end: int) -> int:
        """Return one sync's latency in ns."""
        now_ns = injector.kernel.now_ns
        runs: list[Run] = []
        if inode is not None:
            self.syncs += 1
            runs = _runs(self._first_block(inode), inode, start, end)
        done_ns = self._storage.sync(now_ns, runs)
        return done_ns - now_ns + self._faults.draw(injector, label)

    def _first_block(self, inode: Inode) -> int:
        first = self._first_blocks.get(inode.identity)
        if first is None:
            first = self._storage.place(-(-inode.size_bytes // BLOCK_BYTES))
            self._first_blocks[inode.identity] = first
        return first


def _runs(first_block: int, inode: Inode, start: int, end: int) -> list[Run]:
    """Return the dirty blocks of a file's [start, end), ascending, what lies side by side as one run."""
    dirty: set[int] = set()
    for _, at, data in inode.pending:
        if data and at < end and start < at + len(data):
            dirty.update(range(at // BLOCK_BYTES, (at + len(data) - 1) // BLOCK_BYTES + 1))
    runs: list[Run] = []
    for block in sorted(dirty):
        if runs and runs[-1][0] + runs[-1][1] == first_block + block:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((first_block + block, 1))
    return runs
