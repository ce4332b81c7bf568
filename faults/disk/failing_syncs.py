"""What a sync that fails leaves. Each file system has its way (`FaultPlan.failing_sync`):

    ext4-ordered  EIO at once; the pages are clean, and readers see the new bytes, which no later sync will write
    xfs           the same
    btrfs         EIO at once; the pages are clean, and readers see the old bytes again
    ext4-data     answered OK, for the journal has the data; its copy to their place fails, and they are gone when the
                  journal's space is used again. The file's next sync raises EIO; then all is as with ext4-ordered

With each of them a later sync succeeds. A directory's failed sync leaves names as unsure as they were. Where it was the
journal that could not be written (`stopped_file_system_chance`), ext4 and btrfs go on read-only, and xfs shuts down,
until the disk has been off.

Source: Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020.
"""

import errno

from .damage import DamagedRange
from .fault_injector import FaultInjector
from .page_cache import Inode

_STOPPED_WITH = {
    "ext4-ordered": errno.EROFS,
    "ext4-data": errno.EROFS,
    "xfs": errno.EIO,
    "btrfs": errno.EROFS,
}

_Saved = tuple[int, int, bytes]
"""What a page of the platter was before a sync of that number wrote it: number, at, data."""


class FailingSyncs:
    """The failures of one disk's syncs."""

    __slots__ = ("_injector", "_journalled")

    def __init__(self, injector: FaultInjector) -> None:
        self._injector = injector
        self._journalled: dict[int, list[_Saved]] = {}
        """By Inode.identity: pages that have reached the journal, and will not reach their place."""

    def strike(self, why: str, path: str, inode: Inode, number: int, start: int, end: int) -> bool:
        """Draw whether a file's sync fails, and do what that does to the file; return whether to raise an error now.

        If not, the sync is to do its work, even if that will be undone. why: the sync, as draws are labelled with.
        """
        injector = self._injector
        faults = injector.faults
        if faults.failed_sync_chance <= 0.0 or not injector.stream.chance(
            faults.failed_sync_chance, f"failed sync {why}"
        ):
            return False
        if faults.failing_sync == "ext4-data":
            self._save(inode, number, start, end)
            return False
        lost = inode.drop(number, start, end)
        injector.fired["failed sync"] += 1
        if faults.failing_sync == "btrfs":
            for page in sorted(lost):
                injector.damage.append(DamagedRange(path, *inode.revert(page), "failed sync"))
        return True

    def come_due(self, path: str, inode: Inode) -> bool:
        """Undo what an earlier sync of this file left in the journal only; return whether to raise an error for it."""
        saved = self._journalled.pop(inode.identity, None)
        if saved is None:
            return False
        injector = self._injector
        lost = [
            DamagedRange(path, at, at + len(data), "late sync error")
            for number, at, data in reversed(saved)
            if inode.take_back(number, at, data)
        ]
        if not lost:
            return False
        injector.damage += lost
        injector.fired["late sync error"] += 1
        injector.fired["failed sync"] += 1
        return True

    def strike_directory(self, label: str) -> bool:
        """Draw whether a directory's sync fails."""
        injector = self._injector
        return injector.inject_if(
            injector.faults.failed_directory_sync_chance, "failed directory sync", label
        )

    def stop(self, label: str) -> None:
        """Draw whether a failure stops the file system."""
        injector = self._injector
        faults = injector.faults
        if injector.inject_if(faults.stopped_file_system_chance, "stopped file system", label):
            injector.stopped = _STOPPED_WITH[faults.failing_sync]

    def _save(self, inode: Inode, number: int, start: int, end: int) -> None:
        page_bytes = inode.page_bytes
        durable_bytes = inode.durable_bytes(inode.size_bytes)
        saved = [
            (number, page * page_bytes, durable_bytes[page * page_bytes : (page + 1) * page_bytes])
            for page in inode.covered_pages(number, start, end)
        ]
        if saved:
            self._journalled.setdefault(inode.identity, []).extend(saved)
