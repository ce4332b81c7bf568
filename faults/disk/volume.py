"""Volume: the names, space, locks and faults of a disk, shared by all its machines."""

import errno
from dataclasses import dataclass, field
from typing import NamedTuple

from ...sim.machine import Machine
from ..kinds import FaultKind
from .fault_injector import FaultInjector, os_error
from .namespace import Namespace
from .page_cache import Inode

_UNLIMITED_BYTES = 1 << 40  # free space of an unlimited disk


class SimulatedDiskSpace(NamedTuple):
    """Used and free space."""

    used_bytes: int
    usable_bytes: int


@dataclass(slots=True, eq=False)
class Volume:
    """The state of a disk, shared by its machines. limit_bytes: capacity; None: unlimited.

    limits_by_directory: the capacity of directories that are disks of their own. Their files count for the whole disk,
    too. A file uses its size minus its holes. Directories and files without a name use no space. A lock belongs to the
    file and ends with the process, as with flock(2). Invariant: at most one living machine holds the lock of a file.
    """

    names: Namespace
    injector: FaultInjector
    sector_bytes: int
    limit_bytes: int | None
    limits_by_directory: dict[str, int] = field(default_factory=dict)
    _reported_bytes: tuple[int, int] | None = None  # lowest and highest used space since `take_used_extremes`
    _holders: dict[int, Machine] = field(default_factory=dict)  # lock holders by file number
    _maps: dict[object, tuple[Machine, str, Inode]] = field(default_factory=dict)  # until they are closed
    _locked: dict[object, tuple[Machine, str]] = field(default_factory=dict)  # maps locked in memory

    def note_map(self, mapped: object, machine: Machine, path: str, inode: Inode) -> None:
        self._maps[mapped] = machine, path, inode

    def note_unmap(self, mapped: object) -> None:
        self._maps.pop(mapped, None)
        self.note_munlock(mapped)

    def note_mlock(self, mapped: object, machine: Machine, path: str) -> None:
        self._locked[mapped] = machine, path

    def note_munlock(self, mapped: object) -> None:
        self._locked.pop(mapped, None)

    def locked_paths(self) -> list[str]:
        """Return the files that living machines have locked in memory."""
        return sorted(path for machine, path in self._locked.values() if machine.alive)

    def mapped_paths(self, machine: Machine) -> list[str]:
        """Return the files that a machine has mapped, without removed files."""
        maps, inode_at = self._maps.values(), self.names.current.inode
        return sorted(path for owner, path, inode in maps if owner is machine and inode_at(path) is inode)

    def space_at(self, path: str) -> SimulatedDiskSpace:
        """Return used and free space of the disk on which a path is."""
        for directory, limit_bytes in self.limits_by_directory.items():
            if f"{path}/".startswith(f"{directory}/"):
                used_bytes = self.names.current.used_bytes_below(directory)
                return SimulatedDiskSpace(used_bytes, max(0, limit_bytes - used_bytes))
        return self.space()

    def space(self) -> SimulatedDiskSpace:
        """Return used and free space. Used space may exceed a capacity that was reduced later."""
        used_bytes = self.names.current.used_bytes
        assert used_bytes >= 0, used_bytes
        least, most = self._reported_bytes or (used_bytes, used_bytes)
        self._reported_bytes = min(least, used_bytes), max(most, used_bytes)
        limit_bytes = _UNLIMITED_BYTES if self.limit_bytes is None else self.limit_bytes
        return SimulatedDiskSpace(used_bytes, max(0, limit_bytes - used_bytes))

    def take_used_extremes(self) -> tuple[int, int]:
        """Return the lowest and the highest used space since the last call, and now."""
        self.space()
        assert self._reported_bytes is not None
        extremes, self._reported_bytes = self._reported_bytes, None
        return extremes

    def usable_bytes(self, path: str) -> int:
        # Every write calls this, so an unlimited disk skips the sum of the file sizes.
        usable_bytes = _UNLIMITED_BYTES if self.limit_bytes is None else self.space().usable_bytes
        return min(usable_bytes, self.space_at(path).usable_bytes) if self.limits_by_directory else usable_bytes

    def has_room(self, path: str, more_bytes: int) -> bool:
        return self.usable_bytes(path) >= more_bytes

    def check_creation(self, path: str) -> None:
        """Raise OSError(ENOSPC or EDQUOT) if the disk is full, or by chance."""
        if self.usable_bytes(path) == 0:
            raise self.disk_full_error(path)
        if self.injector.inject_if(FaultKind.FAILED_CREATION, path):
            raise self._space_error(path)

    def check_growth(self, path: str, more_bytes: int) -> None:
        if not self.has_room(path, more_bytes):
            raise self.disk_full_error(path)

    def check_allocation(self, path: str, more_bytes: int) -> None:
        """Raise OSError(ENOSPC or EDQUOT) if more_bytes do not fit, or by chance."""
        if self.injector.inject_if(FaultKind.FAILED_EXTEND, path):
            raise self._space_error(path)
        if not self.injector.faults.sparse:
            self.check_growth(path, more_bytes)

    def check_write(self, path: str, inode: Inode, start: int, end: int) -> None:
        """Raise OSError for a write of a part of a bad sector (EIO), or into a hole on a full disk (ENOSPC)."""
        if inode.flaws is None:
            return
        if inode.flaws.write_hits_bad_sector(start, end):
            self.injector.count_fault(FaultKind.LATENT_SECTOR_ERROR, path)
            raise os_error(errno.EIO, path)
        if not self.fill_holes(path, inode, start, end):
            raise self.disk_full_error(path)

    def fill_holes(self, path: str, inode: Inode, start: int, end: int) -> bool:
        """Allocate blocks for holes in [start, end), first hole first. False: the disk is full."""
        assert inode.flaws is not None, "a file without flaws has no holes"
        for page in inode.flaws.holes_in(start, end):
            if not self.has_room(path, min(inode.page_bytes, inode.size_bytes - page * inode.page_bytes)):
                return False
            inode.flaws.holes.discard(page)
        return True

    def disk_full_error(self, path: str) -> OSError:
        self.injector.count_fault(FaultKind.DISK_FULL, path)
        return self._space_error(path)

    def _space_error(self, path: str) -> OSError:
        return os_error(getattr(errno, self.injector.faults.space_error), path)

    def lock(self, path: str, machine: Machine) -> "SimFileLock":
        """Lock a file. BlockingIOError: a living machine, possibly the caller's, holds the lock."""
        file = self.names.current.names[path]
        holder = self._holders.get(file)
        if holder is not None and holder.alive:
            raise os_error(errno.EWOULDBLOCK, path)
        assert machine.alive, machine.name
        self._holders[file] = machine
        return SimFileLock(self, file, machine)

    def release(self, file: int, machine: Machine) -> None:
        self.injector.pause(machine, "unlock")
        if self._holders.get(file) is machine:
            del self._holders[file]


@dataclass(slots=True, eq=False)
class SimFileLock:
    """A lock that a machine holds until it releases it or dies."""

    _volume: Volume
    _file: int
    _machine: Machine

    def release(self) -> None:
        self._volume.release(self._file, self._machine)
