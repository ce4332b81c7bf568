"""Page placement: dirty pages of files, their blocks on the device, and limits of the page cache.

A preallocated file (fallocate) has adjacent blocks. An appended file gets blocks at write-back (delayed allocation):
the pages of one pass get adjacent blocks after those of the previous file, as in ext4 for small files. With room_blocks
a growing file reserves blocks after its last one, so it has few fragments, far from other growing files (ext4's inode
preallocation, up to 8 MiB; XFS's speculative preallocation, up to more).

Sources: Linux, Documentation/filesystems/ext4/allocators.rst; fs/ext4/mballoc.c (ext4_mb_normalize_request,
mb_stream_req); fs/xfs/xfs_iomap.c (xfs_iomap_prealloc_size).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...sim.machine import WaitGate
from .storage import FreeBlocks, Run, append_block

ROOM_BLOCKS = 2048
"""8 MiB, the largest preallocation of ext4."""
_MIB = 1 << 20


@dataclass(slots=True)
class FileBlocks:
    """The blocks of a file: adjacent from `ahead` on if preallocated, else one block number per page."""

    ahead: int | None = None
    placed: dict[int, int] = field(default_factory=dict)
    kept: int = 0
    """Next reserved block."""
    kept_blocks: int = 0
    """Reserved blocks from `kept` on."""

    def block_of(self, page: int) -> int | None:
        return self.placed.get(page) if self.ahead is None else self.ahead + page


class Placement(FreeBlocks):
    """Assigns blocks to the pages of files."""

    def __init__(self, blocks: int, *, room_blocks: int = 0) -> None:
        """room_blocks: number of blocks that a growing file reserves at a time."""
        super().__init__(blocks)
        self._room_blocks = max(room_blocks, 1)

    def place(self, file: FileBlocks, pages: Iterable[int]) -> list[Run]:
        """Return the block runs of ascending pages. A page without a block gets a new block."""
        runs: list[Run] = []
        for page in pages:
            block = file.block_of(page)
            if block is None:
                block = file.placed[page] = self._next_block(file)
            append_block(runs, block)
        return runs

    def _next_block(self, file: FileBlocks) -> int:
        assert file.ahead is None, "all pages of a file that was allocated ahead have a block"
        if not file.kept_blocks:
            file.kept_blocks = self._room_blocks
            file.kept = self.reserve(self._room_blocks)
        file.kept += 1
        file.kept_blocks -= 1
        return file.kept - 1


@dataclass(slots=True, eq=False)
class FilePages:
    """The pages of a file. Invariant: a page is dirty until the device has its write in the queue."""

    path: str
    written: WaitGate
    """Opens when no page of the file is in write-back."""
    blocks: FileBlocks = field(default_factory=FileBlocks)
    dirty: set[int] = field(default_factory=set)
    dirty_since_ns: int = 0
    in_flight: int = 0
    commit_number: int = 0
    """Number of the journal commit that covers the last write-back of the file."""


@dataclass(frozen=True, slots=True)
class PageCacheLimits:
    """Limits of the page cache, with times and the ratio of the two dirty limits as in Linux (sysctl/vm.rst).

    dirty_expire_centisecs 3000, dirty_writeback_centisecs 500, dirty_background_ratio 10, dirty_ratio 20.
    """

    dirty_bytes_max: int = 32 * _MIB
    """Limit of dirty bytes, above which writing tasks wait."""
    cache_bytes: int = 64 * _MIB
    """Limit for clean pages."""
    expire_ns: int = 30_000_000_000
    """Age at which a dirty page is written back."""
    wake_ms: int = 5_000
    """Interval of the flusher, and of journal commits."""

    @property
    def background_bytes(self) -> int:
        """Amount of dirty data above which background write-back begins."""
        return self.dirty_bytes_max // 2
