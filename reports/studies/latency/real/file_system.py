"""File system measurement: counts the blocks and flushes of a sync, to find out whether there is a journal.

Linux counts the written sectors and the flushes of each disk (Documentation/block/stat.rst; flushes from Linux 5.5 on).
Its count of writes is not used, because it includes flushes without data (block/blk-flush.c). A sync of a page that has
a block needs one write and one flush. If a sync changes metadata, a journal adds its blocks, a commit block and,
without FUA, a second flush (fs/jbd2/commit.c). Without a journal, the sync adds the inode's block or a few blocks
(fs/ext4/fsync.c).

The counters include other processes. So a count is the lower decile of many syncs; a duration is the median.
"""

import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

from .....faults.devices.unjournaled import MetadataWrites

_PAGE_BYTES = mmap.PAGESIZE
_SYNCS = 31
_SECTORS_FIELD, _FLUSHES_FIELD = 6, 15  # of /sys/block/*/stat, from 0
_SECTOR_BYTES = 512
_COMMIT_BLOCKS = 3
"""Blocks of the smallest commit: a descriptor, a block of metadata, the commit block."""


class SyncRequests(NamedTuple):
    """The requests and the duration of one kind of sync."""

    kind: str
    writes: int
    """Written blocks of one page: of data, metadata and the journal."""
    flushes: int
    us: float


class SyncCosts(NamedTuple):
    """The costs of syncs on one file system, each of one page."""

    overwritten: SyncRequests
    """A page that overwrites a block with data (msync)."""
    preallocated: SyncRequests
    """A page of a range that fallocate has reserved (msync)."""
    appended: SyncRequests
    """A page after the end of the file (write, fdatasync)."""

    @property
    def has_journal(self) -> bool:
        before, after = self.overwritten, self.preallocated
        return after.flushes > before.flushes or after.writes >= before.writes + _COMMIT_BLOCKS

    def unjournaled(self) -> MetadataWrites | None:
        """Return the writes of metadata, or None if the file system has a journal."""
        if self.has_journal:
            return None
        return MetadataWrites(*(max(one.writes - 1, 0) for one in (self.overwritten, self.preallocated)))


def measure_syncs(directory: Path) -> SyncCosts | None:
    """Return None if the system does not count the requests of the disk below a directory."""
    path = directory / "synced"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        counts = counts_of(_stat_of(os.fstat(descriptor).st_dev))
        if counts is None:
            return None
        os.posix_fallocate(descriptor, 0, _SYNCS * _PAGE_BYTES)
        os.fsync(descriptor)
        with mmap.mmap(descriptor, _SYNCS * _PAGE_BYTES) as pages:

            def sync_page(number: int) -> None:
                at = number * _PAGE_BYTES
                pages[at] = 1
                pages.flush(at, _PAGE_BYTES)

            preallocated = requests_of("preallocated", sync_page, counts)
            overwritten = requests_of("overwritten", sync_page, counts)

        def append_page(_: int) -> None:
            os.write(descriptor, bytes(_PAGE_BYTES))
            os.fdatasync(descriptor)

        os.ftruncate(descriptor, 0)
        os.fsync(descriptor)
        return SyncCosts(overwritten, preallocated, requests_of("appended", append_page, counts))
    finally:
        os.close(descriptor)
        path.unlink()


def requests_of(kind: str, sync: Callable[[int], None], counts: Callable[[], tuple[int, int]]) -> SyncRequests:
    """Repeat a sync. counts: a function from `counts_of`."""
    writes, flushes, us = [], [], []
    for number in range(_SYNCS):
        before, begun_ns = counts(), time.perf_counter_ns()
        sync(number)
        us.append((time.perf_counter_ns() - begun_ns) / 1_000)
        after = counts()
        writes.append(-(-(after[0] - before[0]) * _SECTOR_BYTES // _PAGE_BYTES))
        flushes.append(after[1] - before[1])
    return SyncRequests(kind, _lower_decile(writes), _lower_decile(flushes), median_low(us))


def _lower_decile(counts: list[int]) -> int:
    return sorted(counts)[len(counts) // 10]


def _stat_of(device: int) -> Path:
    """Return the path of a disk's counters."""
    place = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if (place / "partition").exists():
        place = place.resolve().parent  # flushes are counted for whole disks only
    return place / "stat"


def counts_of(stat: Path) -> Callable[[], tuple[int, int]] | None:
    """Return a function that reads the numbers of written sectors and flushes of a disk; None: they are not counted."""
    if not stat.exists() or len(stat.read_text().split()) <= _FLUSHES_FIELD:
        return None

    def counts() -> tuple[int, int]:
        fields = stat.read_text().split()
        return int(fields[_SECTORS_FIELD]), int(fields[_FLUSHES_FIELD])

    return counts
