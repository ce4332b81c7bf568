"""Page placement: dirty pages of files, their blocks on the device, and limits of the page cache.

A preallocated file (fallocate) has adjacent blocks, whose extents are unwritten: they read as zeros without the
device, and the first write-back converts them, which changes metadata. A sparse or appended file gets blocks at
write-back (delayed allocation): the pages of one pass get adjacent blocks after those of the previous file, as in ext4
for small files. With room_blocks a growing file reserves blocks after its last one, so it has few fragments, far from
other growing files (ext4's inode preallocation, up to 8 MiB; XFS's speculative preallocation, up to more).

Sources: Linux, Documentation/filesystems/ext4/allocators.rst; fs/ext4/mballoc.c (ext4_mb_normalize_request,
mb_stream_req); fs/ext4/page-io.c (ext4_end_io: conversion of unwritten extents); fs/xfs/xfs_iomap.c
(xfs_iomap_prealloc_size).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .elevator import Elevator, IoRequest
from .storage import BLOCK_BYTES, FreeBlocks, Run, append_block

ROOM_BLOCKS = 2048
"""8 MiB, the largest preallocation of ext4."""
_MIB = 1 << 20


@dataclass(slots=True)
class FileBlocks:
    """The blocks of a file: adjacent from `ahead` on if preallocated, else one block number per page."""

    ahead: int | None = None
    placed: dict[int, int] = field(default_factory=dict)
    converted: set[int] = field(default_factory=set)
    """Pages of a preallocated file whose extents are written."""
    kept: int = 0
    """Next reserved block."""
    kept_blocks: int = 0
    """Reserved blocks from `kept` on."""

    def block_of(self, page: int) -> int | None:
        return self.placed.get(page) if self.ahead is None else self.ahead + page

    def needs_mapping(self, page: int) -> bool:
        """Return whether the write-back of a page changes metadata: it allocates a block or converts an extent."""
        return page not in (self.placed if self.ahead is None else self.converted)

    def stored_block(self, page: int) -> int | None:
        """Return the block with the page's bytes; None if the page reads as zeros."""
        return None if self.needs_mapping(page) else self.block_of(page)


class Placement(FreeBlocks):
    """Assigns blocks to the pages of files."""

    def __init__(self, blocks: int, *, room_blocks: int = 0) -> None:
        """room_blocks: number of blocks that a growing file reserves at a time."""
        super().__init__(blocks)
        self._room_blocks = max(room_blocks, 1)

    def place(self, file: FileBlocks, pages: Sequence[int]) -> list[Run]:
        """Return the block runs of ascending pages. A page without a block gets a new block."""
        runs: list[Run] = []
        for page in pages:
            block = file.block_of(page)
            if block is None:
                block = file.placed[page] = self._next_block(file)
            append_block(runs, block)
        if file.ahead is not None:
            file.converted.update(pages)
        return runs

    def _next_block(self, file: FileBlocks) -> int:
        assert file.ahead is None, "all pages of a file that was allocated ahead have a block"
        if not file.kept_blocks:
            file.kept_blocks = self._room_blocks
            file.kept = self.reserve(self._room_blocks)
        file.kept += 1
        file.kept_blocks -= 1
        return file.kept - 1


InodeBlock = tuple[str, int]
"""A directory, and the number of a block with inodes of its files."""
INODES_PER_BLOCK = 16  # ext4's inodes of 256 bytes


@dataclass(slots=True, eq=False)
class PageWrite:
    """A write of pages that is under way, until the file system has recorded its end."""

    pages: list[int]
    request: IoRequest
    converts: bool
    """Whether the end of the write changes metadata: it converts unwritten extents."""
    is_ended: bool = False


@dataclass(slots=True, eq=False)
class FilePages:
    """The pages of a file. Invariant: a page is dirty until the device has its write in the queue."""

    path: str
    inode_block: InodeBlock
    blocks: FileBlocks = field(default_factory=FileBlocks)
    dirty: set[int] = field(default_factory=set)
    """Dirty pages. A map may write to them without a page fault, because only write-back protects pages."""
    dirty_since_ns: int = 0
    writing: dict[int, PageWrite] = field(default_factory=dict)
    """Page under write-back -> its last write."""
    changed_tick: int = -1
    """Time of the last change of the inode's time, in ticks of the kernel's clock."""
    commit_number: int = 0
    """Number of the journal commit that covers the last change of the inode."""
    data_commit_number: int = 0
    """Number of the commit for which fdatasync waits: the last change of the file's blocks (i_datasync_tid)."""
    is_locked: bool = False
    """Whether mlock keeps the pages in memory."""

    def wait_for_data(self, elevator: Elevator) -> None:
        """Wait until the device has written all data that is under way."""
        for write in dict.fromkeys(self.writing.values()):
            elevator.wait(write.request)


@dataclass(frozen=True, slots=True)
class PageCacheLimits:
    """Limits of memory and of the page cache, with the names, times and ratios of Linux (sysctl/vm.rst)."""

    dirty_bytes_max: int = 32 * _MIB
    """Limit of dirty bytes (dirty_bytes), with half of it as dirty_background_bytes. 0: dirty_ratio applies."""
    memory_bytes: int = 0
    """Memory for the page cache and anonymous pages. 0: twice dirty_bytes_max."""
    dirty_ratio: int = 20
    """Limit of dirty pages in percent of the memory that can be dirtied."""
    dirty_background_ratio: int = 10
    expire_ns: int = 30_000_000_000
    """Age at which a dirty page is written back (dirty_expire_centisecs 3000)."""
    wake_ms: int = 5_000
    """Interval of the flusher (dirty_writeback_centisecs 500)."""

    def __post_init__(self) -> None:
        if not self.memory_bytes and not self.dirty_bytes_max:
            raise ValueError("page cache: expected memory_bytes or dirty_bytes_max, found neither")
        assert 0 <= self.dirty_background_ratio <= self.dirty_ratio <= 100, self

    @property
    def pages_max(self) -> int:
        return (self.memory_bytes or 2 * self.dirty_bytes_max) // BLOCK_BYTES

    def dirty_pages_max(self, dirtyable: int) -> tuple[int, int]:
        """Return the limits of dirty pages, for background write-back and for writers (domain_dirty_limits)."""
        if self.dirty_bytes_max:
            limit = self.dirty_bytes_max // BLOCK_BYTES
            return limit // 2, limit
        return dirtyable * self.dirty_background_ratio // 100, dirtyable * self.dirty_ratio // 100
