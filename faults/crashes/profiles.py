"""Crash profiles: the possible losses by kind of crash and file system.

    name          page cache  names, directories, lengths       appended data   a page  fsync of a new file
    nothing-lost  survives    survive                           survives        whole   -
    process-kill  survives    survive                           survives        whole   -
    os-crash      lost        any combination                   in any order    whole   keeps its content
    ext4          lost        in order, except grown lengths    before length   torn    keeps its name too
    ext4-ordered  lost        in order                          before length   torn    keeps its name too
    ext4-data     lost        in order                          before length   whole   keeps its name too
    xfs           lost        in order, except grown lengths    before length   torn    keeps its name too
    btrfs         lost        in order, except logged files     before length   whole   keeps its name too
    strict-posix  lost        any combination                   in any order    torn    keeps its content
    torn-sectors  lost        any combination                   in any order    torn    keeps its content

Lost page cache: each unsynced page has any version since its last sync, independent of other pages. In a torn page,
some sectors have one version and the rest another. With torn-sectors every unsynced page is torn, and a sector may be
torn too: the bytes up to some offset are newer. This models media that write smaller units (persistent memory: 8 bytes)
and drives without atomic sectors. After an os-crash the drive still has power. It finishes accepted writes, so no page
is torn, and its cache survives (`lying sync`).

In order: a prefix of the changes survives, because the file system has one journal. A sync commits all changes up to
the last one of its file. For fdatasync and msync only changes of length, blocks or names count (`Namespace`).

Grown lengths (xfs and ext4, delayed allocation): write-back assigns blocks and logs the length. So the length of a file
that grew by `write` may be lost independently of other changes. A length set by fallocate is logged in order. ext4 has
one order for all changes, so a surviving length implies the changes logged before the file grew. ext4 allocates at
once, and so logs the length in order, in two cases (auto_da_alloc): when a file is renamed over another, and when an
emptied file is closed after writes. The simulation does not see this close. ext4 has default mount options;
ext4-ordered has nodelalloc.

Logged (btrfs): a transaction of the whole file system survives completely or not at all. Before its commit, a sync logs
either one file with its name and the new directories above it, or one directory. Other names, even older ones, may be
lost.

Before length: data appended by `write` is durable before its length, so no zeros or old blocks appear. Stores through a
map into fallocated space have no such guarantee.

In steps: for fallocate, ext4 and btrfs log the length with each extent, so a crash may leave any length in between. xfs
sets the length once, at the end. Without fallocate in the file system, the C library writes block by block, so even a
process kill may leave a length in between. Files of a run may be smaller than a block, so these lengths are in bytes.
Only the first of the lost ordered growths may be partial.

strict-posix means POSIX on a drive with atomic sectors. It allows every image of the other profiles except
torn-sectors. Not modelled, because they lose less: btrfs flushes a new file before it replaces another by rename, xfs
flushes an emptied file when it is closed, and ext4-data keeps the order of `pwrite`s and names.

Sources: Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014 (persistence properties by file system);
Mohan et al., "Finding Crash-Consistency Bugs with Bounded Black-Box Crash Testing", OSDI 2018, and "File System
Crash-Recovery Guarantees", which its authors wrote down with the file systems' developers (linux-fsdevel, March 2019);
the kernel's description of ext4 (data=, delalloc); XFS FAQ, "Why do I see binary NULLS in some files after recovery";
btrfs manual (flushoncommit, log tree); POSIX fsync(); Zheng et al., "Understanding the Robustness of SSDs under Power
Fault", FAST 2013 (shorn writes); Rudoff, "Persistent Memory Programming", ;login: Summer 2017 (8 bytes are atomic).
"""

from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from ..disk.changes import (
    Change,
    Create,
    Empty,
    Extend,
    Link,
    Lost,
    MakeDirectory,
    RemoveDirectory,
    Rename,
    RenameExchange,
    Symlink,
    Truncate,
    Unlink,
)
from ..kinds import FaultKind


class Metadata(Enum):
    """Which unsynced metadata changes survive: creations, sizes, renames and removals."""

    KEPT = "completely"
    PREFIX = "up to some change, in order"
    PREFIX_BUT_GROWTH = "up to some change, in order, except lengths grown by writes, which are independent"
    PREFIX_BUT_DELAYED = "up to some change, in order; lengths grown by writes among them may be lost"
    PREFIX_BUT_LOGGED = "up to some change, in order, and those of synced files"
    ANY = "in any combination"

    def is_in_order(self, change: Change) -> bool:
        """Whether a change survives if a later ordered change survives. Unordered changes are independent."""
        if self is Metadata.PREFIX_BUT_GROWTH:
            return not (isinstance(change, Extend) and change.by_write)
        if self is Metadata.PREFIX_BUT_DELAYED:
            return not (isinstance(change, Extend) and change.by_write and not change.is_allocated)
        return self is not Metadata.ANY

    def split_by_order(self, changes: Sequence[Change]) -> tuple[Sequence[Change], Sequence[Change]]:
        if self is Metadata.ANY:
            return (), changes
        if self not in (Metadata.PREFIX_BUT_GROWTH, Metadata.PREFIX_BUT_DELAYED):
            return changes, ()
        ordered = [change for change in changes if self.is_in_order(change)]
        return ordered, [change for change in changes if not self.is_in_order(change)]

    def is_lost_with_ordered(self, change: Change, first_lost: int | None) -> bool:
        """Whether an unordered change is lost because it was logged after the first lost ordered change."""
        return self is Metadata.PREFIX_BUT_DELAYED and first_lost is not None and change.number > first_lost


@dataclass(frozen=True, slots=True)
class CrashProfile:
    """One kind of crash."""

    name: str
    metadata: Metadata
    page_cache_survives: bool = False
    data_before_size: bool = False
    whole_pages: bool = False
    drive_cache_survives: bool = False
    """Whether synced data in the drive's volatile cache survives."""
    torn_bytes_chance: float = 0.0
    """Chance that a torn page is torn inside a sector. The disk's plan may increase it."""
    torn_page_chance: float = 0.0
    """Chance that an unsynced page is torn. 0: the same chance as in other power cuts."""
    grows_in_steps: bool = False
    """Whether a growth by allocation may leave any length in between."""

    def __post_init__(self) -> None:
        assert not (self.page_cache_survives and self.metadata is not Metadata.KEPT), self
        assert not (self.whole_pages and (self.torn_bytes_chance or self.torn_page_chance)), self

    @property
    def summary(self) -> str:
        if self.page_cache_survives:
            # After a process kill `DiskLifecycle` mounts the same disk, so a power cut can still lose cached data.
            later = "a later power cut may lose them" if self.name == "process-kill" else "all are durable"
            return f"the page cache survives, and with it every write, name and size; {later}"
        torn = "torn between or inside sectors" if self.torn_bytes_chance else "torn"
        pages = "lost" if self.whole_pages else f"lost or {torn}"
        return f"unsynced pages may be {pages}; unsynced names and sizes survive {self.metadata.value}"

    def with_consequences(self, unsure: Sequence[Change], lost: Lost) -> Lost:
        ordered, others = self.metadata.split_by_order(unsure)
        first_lost = next((change.number for change in ordered if change.number in lost), None)
        taken = [one.number for one in others if self.metadata.is_lost_with_ordered(one, first_lost)]
        return {**dict.fromkeys(taken, 0), **lost}

    def partial_growths(self, unsure: Sequence[Change], lost: Container[int]) -> list[Extend]:
        """Return the lost growths that may survive in part. unsure: all changes that may be lost."""
        if not self.grows_in_steps:
            return []
        ordered, others = self.metadata.split_by_order(unsure)
        # Only the first lost growth can be partial, because it is at the end of the journal.
        first = [change for change in ordered if change.number in lost][:1]
        gone = first + [change for change in others if change.number in lost]
        growths = [change for change in gone if isinstance(change, Extend)]
        return [growth for growth in growths if growth.in_steps and growth.grown_bytes > 1]


NOTHING_LOST = "nothing-lost"
PROFILES: dict[str, CrashProfile] = {
    profile.name: profile
    for profile in (
        CrashProfile(NOTHING_LOST, Metadata.KEPT, page_cache_survives=True),
        CrashProfile("process-kill", Metadata.KEPT, page_cache_survives=True),
        CrashProfile("os-crash", Metadata.ANY, whole_pages=True, drive_cache_survives=True, grows_in_steps=True),
        CrashProfile("ext4", Metadata.PREFIX_BUT_DELAYED, data_before_size=True, grows_in_steps=True),
        CrashProfile("ext4-ordered", Metadata.PREFIX, data_before_size=True, grows_in_steps=True),
        CrashProfile("ext4-data", Metadata.PREFIX, data_before_size=True, whole_pages=True, grows_in_steps=True),
        CrashProfile("xfs", Metadata.PREFIX_BUT_GROWTH, data_before_size=True),
        CrashProfile("btrfs", Metadata.PREFIX_BUT_LOGGED, data_before_size=True, whole_pages=True, grows_in_steps=True),
        CrashProfile("strict-posix", Metadata.ANY, grows_in_steps=True),
        CrashProfile("torn-sectors", Metadata.ANY, torn_bytes_chance=1.0, torn_page_chance=1.0, grows_in_steps=True),
    )
}
_CHANGES = (
    *(Create, Extend, Empty, Truncate, Unlink, Rename, RenameExchange, Link, Symlink),
    *(MakeDirectory, RemoveDirectory),
)
_WRITES = ("store", "pwrite", "write", "zero range")


def crash_kinds(operations: Collection[str], profiles: Collection[CrashProfile]) -> Iterator[str]:
    """Yield the kinds of loss that are possible after these operations and crashes, with repetitions."""
    cuts = [profile for profile in profiles if not profile.page_cache_survives]
    if not cuts:
        return
    yield from (change.lost.value for change in _CHANGES if change.kind in operations)
    if any(kind in operations for kind in _WRITES):
        yield FaultKind.PAGE_LOST.value
        if not all(profile.whole_pages for profile in cuts):
            yield FaultKind.TORN_PAGE.value
        if any(profile.torn_bytes_chance for profile in cuts):
            yield FaultKind.TORN_SECTOR.value
