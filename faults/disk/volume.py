"""Volume: names, space, locks and faults shared by all machines that mount a disk."""

import errno
from dataclasses import dataclass, field
from typing import NamedTuple

from ...sim.machine import Machine
from ..kinds import FaultKind
from .fault_injector import FaultInjector, os_error
from .namespace import Namespace
from .page_cache import Inode

_UNLIMITED_BYTES = 1 << 40  # reported by a disk without a capacity


class SimulatedDiskSpace(NamedTuple):
    """Used and free space of a disk."""

    used_bytes: int
    usable_bytes: int


@dataclass(slots=True, eq=False)
class Volume:
    """The state that all machines mounting one disk share. limit_bytes: its capacity; None: unlimited.

    A file takes its size without holes; files without a name and directories take no space. A lock, as in flock(2), is
    on the file and ends with its process. Invariant: a lock has one living holder.
    """

    names: Namespace
    injector: FaultInjector
    sector_bytes: int
    limit_bytes: int | None
    _reported_bytes: tuple[int, int] | None = None  # the least and most used space reported since `take_used_extremes`
    _holders: dict[int, Machine] = field(default_factory=dict)  # lock holders, by the files' numbers

    def space(self) -> SimulatedDiskSpace:
        """Return the used and free bytes. After a cut of the capacity, used may exceed it."""
        used_bytes = self.names.current.used_bytes
        assert used_bytes >= 0, used_bytes
        least, most = self._reported_bytes or (used_bytes, used_bytes)
        self._reported_bytes = min(least, used_bytes), max(most, used_bytes)
        limit_bytes = _UNLIMITED_BYTES if self.limit_bytes is None else self.limit_bytes
        return SimulatedDiskSpace(used_bytes, max(0, limit_bytes - used_bytes))

    def take_used_extremes(self) -> tuple[int, int]:
        """Return the least and the most used space reported since the last call, including now."""
        self.space()
        assert self._reported_bytes is not None
        extremes, self._reported_bytes = self._reported_bytes, None
        return extremes

    @property
    def usable_bytes(self) -> int:
        """Return the free space for files."""
        # Without a limit file sizes are not summed up, because every write asks.
        return _UNLIMITED_BYTES if self.limit_bytes is None else self.space().usable_bytes

    def has_room(self, more_bytes: int) -> bool:
        """Return whether there is space for more_bytes."""
        return self.usable_bytes >= more_bytes

    def check_creation(self, path: str) -> None:
        """Raise OSError(ENOSPC) if the disk is full, or by chance. A new file is empty."""
        if self.usable_bytes == 0:
            raise self.full(path)
        if self.injector.inject_if(FaultKind.FAILED_CREATION, path):
            raise os_error(errno.ENOSPC, path)

    def check_growth(self, path: str, more_bytes: int) -> None:
        """Raise OSError(ENOSPC) if there is no space for more_bytes."""
        if not self.has_room(more_bytes):
            raise self.full(path)

    def check_allocation(self, path: str, more_bytes: int) -> None:
        """Raise OSError(ENOSPC) if there are no blocks for a longer file, or with the given chance."""
        if self.injector.inject_if(FaultKind.FAILED_EXTEND, path):
            raise os_error(errno.ENOSPC, path)
        if not self.injector.faults.sparse:
            self.check_growth(path, more_bytes)

    def check_write(self, path: str, inode: Inode, start: int, end: int) -> None:
        """Raise the OSError of a write to [start, end): EIO for a part of a bad sector, ENOSPC for a hole without
        space.
        """
        if inode.flaws is None:
            return
        if inode.flaws.spoils_write(start, end):
            self.injector.injected[FaultKind.LATENT_SECTOR_ERROR] += 1
            raise os_error(errno.EIO, path)
        if not self.fill_holes(inode, start, end):
            raise self.full(path)

    def fill_holes(self, inode: Inode, start: int, end: int) -> bool:
        """Allocate blocks for a file's holes in [start, end), one by one; return False at the first without space."""
        assert inode.flaws is not None, "a file without flaws has no holes"
        for page in inode.flaws.holes_in(start, end):
            if not self.has_room(min(inode.page_bytes, inode.size_bytes - page * inode.page_bytes)):
                return False
            inode.flaws.holes.discard(page)
        return True

    def full(self, path: str) -> OSError:
        """Return the error of a full disk, and count it."""
        self.injector.injected[FaultKind.DISK_FULL] += 1
        return os_error(errno.ENOSPC, path)

    def lock(self, path: str, machine: Machine) -> "SimFileLock":
        """Lock the file at path. BlockingIOError if a living machine, including this one, holds the lock."""
        file = self.names.current.names[path]
        holder = self._holders.get(file)
        if holder is not None and holder.alive:  # flock(2): a lock ends with its process, released or not
            raise os_error(errno.EWOULDBLOCK, path)
        assert machine.alive, machine.name
        self._holders[file] = machine
        return SimFileLock(self, file, machine)

    def release(self, file: int, machine: Machine) -> None:
        """Release a machine's lock on a file, if it holds one."""
        self.injector.pause(machine, "unlock")
        if self._holders.get(file) is machine:
            del self._holders[file]


@dataclass(slots=True, eq=False)
class SimFileLock:
    """A lock that one machine holds until it releases it or dies."""

    _volume: Volume
    _file: int
    _machine: Machine

    def release(self) -> None:
        """Release the lock, if the machine still holds it."""
        self._volume.release(self._file, self._machine)
