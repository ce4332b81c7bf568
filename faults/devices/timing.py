"""The timing of a simulated disk's syncs by a model of its storage, which sees which blocks a sync writes."""

from ..disk.fault_injector import FaultInjector
from ..disk.page_cache import Inode
from ..disk.syncs import SyncTiming
from .storage import BLOCK_BYTES, Run, Storage


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
