"""File system of one simulated machine: names, small files, maps, locks and descriptors.

A descriptor refers to a file, not to a name, so it works after a rename or unlink. Traces, random choices and errors
use the path of the open call.
"""

import errno
from typing import NamedTuple

from isal.isal_zlib import crc32

from ...sim.machine import Machine
from ..kinds import FaultKind
from .changes import parent_of
from .fault_injector import CrashPhase, FaultInjector, os_error
from .mapped_file import FlawedMappedFile, ReclaimedMappedFile, SimMappedFile
from .namespace import Namespace
from .page_cache import Inode
from .syncs import Syncs, SyncWait
from .volume import SimFileLock, SimulatedDiskSpace, Volume

_NOTE_WRITE, _NOTE_ZERO = 7 << 56, 8 << 56  # tags of digest words, different from those of the injector, maps and syncs


class SimulatedFileStatus(NamedTuple):
    """Size, time and type of a path. Directories have size and time 0."""

    size_bytes: int
    mtime_ms: int
    is_directory: bool


class SimDescriptor:
    """An open file. Every call is a scheduling point."""

    __slots__ = ("_file", "_injector", "_is_closed", "_machine", "_names", "_syncs", "_volume", "path")

    def __init__(self, path: str, file: int, machine: Machine, volume: Volume, syncs: Syncs) -> None:
        self.path = path
        self._file = file
        self._machine = machine
        self._volume = volume
        self._names = volume.names
        self._injector = volume.injector
        self._syncs = syncs
        self._is_closed = False

    @property
    def size_bytes(self) -> int:
        return self._inode.size_bytes

    @property
    def unsynced_writes(self) -> set[int]:
        """Return the numbers of operations with data that may not be durable. Not a scheduling point. For judges."""
        return {number for number, _, _ in self._inode.pending}

    @property
    def _inode(self) -> Inode:
        if self._is_closed:
            raise os_error(errno.EBADF, self.path)
        return self._names.current.files[self._file]

    def read(self, at: int, size_bytes: int) -> bytes:
        """Read size_bytes at an offset, or fewer at the end of the file. OSError(EIO): by chance."""
        injector = self._injector
        injector.pause_for_device(self._machine, "read", self.path)
        injector.check_readable(self.path)
        inode = self._inode
        injector.fail_by_chance(FaultKind.FAILED_READ, self.path)
        end = min(at + size_bytes, inode.size_bytes)
        if inode.flaws is not None and inode.flaws.read_hits_bad_sector(at, end):
            injector.count_fault(FaultKind.LATENT_SECTOR_ERROR, self.path)
            raise os_error(errno.EIO, self.path)
        inode.writable_cache(0)
        return bytes(inode.readable[at:end])

    def write(self, at: int, data: bytes) -> int:
        """Write and return the number of written bytes. Zeros fill a gap after the old end.

        OSError(ENOSPC): no space to grow or to fill a hole. OSError(EIO): a write of a part of an unreadable sector.
        """
        injector = self._injector
        injector.pause_for_device(self._machine, "write", self.path)
        inode = self._inode
        data = bytes(data[: injector.writable_bytes(self.path, len(data))])
        self._volume.check_growth(self.path, at + len(data) - inode.size_bytes)
        self._volume.check_write(self.path, inode, at, at + len(data))
        write_to_page_cache(injector, self._machine, self._names, self.path, inode, at, data)
        return len(data)

    def allocate(self, size_bytes: int) -> None:
        """Extend the file with zeros to at least this length. OSError(ENOSPC): no space."""
        self._injector.pause(self._machine, "extend")
        more_bytes = size_bytes - self.size_bytes
        if more_bytes > 0:
            self._volume.check_growth(self.path, more_bytes)
            grow_file(self._machine, self._volume, self.path, self._inode, size_bytes, in_steps=True)

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file or extend it with zeros. A lying drive drops acknowledged data after the new end."""
        injector = self._injector
        injector.pause(self._machine, "truncate")
        if size_bytes > self.size_bytes:
            grow_file(self._machine, self._volume, self.path, self._inode, size_bytes, in_steps=False)
        elif size_bytes < self.size_bytes:
            change, wall_ns = self._names.truncate, injector.wall_ns(self._machine)
            path, machine = self.path, self._machine
            injector.run_atomic_operation(machine, "truncate", path, change, path, self._file, size_bytes, wall_ns)

    def store(self, at: int, data: bytes) -> None:
        """Write through a map, inside the file. Readers see the bytes at once, but the bytes become durable later."""
        injector, inode = self._injector, self._inode
        injector.pause(self._machine, "store")
        if at + len(data) > inode.size_bytes:
            raise ValueError(f"{self.path}: [{at}, {at + len(data)}) is not within [0, {inode.size_bytes})")
        number = injector.begin_atomic(self._machine, "store", self.path)
        injector.kernel.note((_NOTE_WRITE | at, crc32(data)))
        inode.write(number, at, bytes(data), injector.wall_ns(self._machine))
        injector.end_operation(self._machine, "store", number)

    def zero(self, at: int, size_bytes: int) -> None:
        """Zero bytes inside the file. A crash can restore the old pages."""
        injector, inode = self._injector, self._inode
        injector.pause(self._machine, "zero range")
        number = injector.begin_atomic(self._machine, "zero range", self.path)
        end = min(at + size_bytes, inode.size_bytes)
        injector.kernel.note((_NOTE_ZERO | at, size_bytes))
        if at < end:
            inode.zero(number, at, end, injector.wall_ns(self._machine))
        injector.end_operation(self._machine, "zero range", number)

    def sync(self, start: int = 0, end: int | None = None, *, data_only: bool = False) -> None:
        """Make the pages of [start, end) and the size durable.

        After OSError(EIO) the pages' unsynced data is lost. data_only: as fdatasync.
        """
        self._injector.pause(self._machine, "sync")
        size_bytes = self.size_bytes
        end = size_bytes if end is None else min(end, size_bytes)
        why = SyncWait("sync", self.path, data_only=data_only)
        self._syncs.file(self._machine, why, self._inode, min(start, end), end)

    def link(self, new: str) -> None:
        """Add a name. FileExistsError: the name exists."""
        self._injector.pause(self._machine, "link")
        self._names.check_free(new)
        self._injector.run_atomic_operation(self._machine, "link", new, self._names.link, new, self._file)

    def close(self) -> None:
        """Close the descriptor; a second call has no effect. Later uses raise EBADF. No scheduling point."""
        self._is_closed = True


def grow_file(
    machine: Machine, volume: Volume, path: str, inode: Inode, size_bytes: int, *, in_steps: bool, sparse: bool = False
) -> None:
    """Extend a file. in_steps: by allocation, which a crash may leave incomplete. sparse: with holes."""
    injector = volume.injector
    if in_steps:
        number, size_bytes = injector.begin_growth(machine, path, inode.size_bytes, size_bytes)
    else:
        number = injector.begin_atomic(machine, "extend", path)
    if sparse:
        # After the begin, because a crash there would leave holes beyond the end of the file.
        inode.make_flaws(volume.sector_bytes).grow(inode.size_bytes, size_bytes)
    inode.writable_cache(size_bytes)
    volume.names.extend(number, path, inode, size_bytes, in_steps=in_steps)
    injector.end_operation(machine, "extend", number)


def write_to_page_cache(
    injector: FaultInjector, machine: Machine, names: Namespace, path: str, inode: Inode, at: int, data: bytes
) -> None:
    """Write to the page cache, and extend the file if needed. A crash can leave a prefix of the data."""
    number = injector.begin_operation(machine, "write", path)
    if number == injector.crash_at and injector.moment == CrashPhase.DURING:
        data = data[: len(data) - injector.stream.randbelow(len(data) + 1, f"bytes not written {path}")]
    if data:
        injector.kernel.note((_NOTE_WRITE | at, crc32(data)))
        grows = at + len(data) > inode.size_bytes
        inode.write(number, at, bytes(data), injector.wall_ns(machine))
        assert inode.size_bytes >= at + len(data), (path, inode.size_bytes, at, len(data))
        if inode.flaws is not None:
            inode.flaws.record_overwrite(at, at + len(data))
        if grows:
            names.extend(number, path, inode, inode.size_bytes, by_write=True)
    injector.end_operation(machine, "write", number)


class SimFiles:
    """A mounted disk of one machine. Every call is a scheduling point, and raises MachineDied after a crash.

    Calls raise POSIX errors before the operation is counted, except for failed syncs and for writes to a full disk.
    """

    __slots__ = ("_injector", "_machine", "_names", "_syncs", "_volume")

    def __init__(self, machine: Machine, volume: Volume, syncs: Syncs) -> None:
        self._machine = machine
        self._volume = volume
        self._names = volume.names
        self._injector = volume.injector
        self._syncs = syncs

    def status(self, path: str) -> SimulatedFileStatus | None:
        self._injector.pause_for_device(self._machine, "status", path)
        self._injector.check_look_up(path)
        inode = self._names.current.inode(path)
        if inode is not None:
            mtime_ms = inode.mtime_ms(self._injector.kernel.wall_start_ms)
            return SimulatedFileStatus(inode.size_bytes, mtime_ms, False)
        return SimulatedFileStatus(0, 0, True) if path in self._names.current.directories else None

    def list_directory(self, path: str) -> list[str]:
        self._injector.pause_for_device(self._machine, "list", path)
        self._injector.check_look_up(path)
        return self._names.children(path)

    def make_directories(self, path: str) -> None:
        """Create a directory and its missing parents, with one operation for each."""
        self._injector.pause(self._machine, "make directory")
        missing: list[str] = []
        while path not in self._names.current.directories:
            if path in self._names.current.names:
                raise os_error(errno.ENOTDIR, path) if missing else os_error(errno.EEXIST, path)
            missing.append(path)
            path = parent_of(path)
        for directory in reversed(missing):
            self._injector.pause(self._machine, "make directory")
            if directory in self._names.current.directories:  # another task has created it meanwhile
                continue
            self._names.check_parent(directory)
            change = self._names.make_directory
            self._injector.run_atomic_operation(self._machine, "make directory", directory, change, directory)

    def map(self, path: str, size_bytes: int) -> SimMappedFile:
        """Map the first size_bytes. Create a missing file, and extend a short file with zeros."""
        injector = self._injector
        injector.pause_for_device(self._machine, "map", path)
        injector.fail_by_chance(FaultKind.FAILED_MAP, path)
        inode = self._open_or_create(path)
        if inode.size_bytes < size_bytes:
            injector.pause(self._machine, "extend")
        if inode.size_bytes < size_bytes:  # check again, because another task may have extended the file
            self._volume.check_allocation(path, size_bytes - inode.size_bytes)
            sparse = injector.faults.sparse
            grow_file(self._machine, self._volume, path, inode, size_bytes, in_steps=not sparse, sparse=sparse)
        inode.writable_cache(0)
        kind: type[SimMappedFile] = SimMappedFile
        if inode.flaws is not None:
            kind = FlawedMappedFile
        elif injector.faults.slow_page_in_chance > 0.0 or injector.faults.failed_page_in_chance > 0.0:
            kind = ReclaimedMappedFile
        mapped = kind(path, size_bytes, inode, self._machine, self._volume, self._syncs)
        self._volume.note_map(mapped, self._machine, path, inode)
        return mapped

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Set the modification time, which is durable at once."""
        self._injector.pause(self._machine, "set mtime")
        self._names.find_file(path).set_mtime_ns((mtime_ms - self._injector.kernel.wall_start_ms) * 1_000_000)

    def space(self, path: str) -> SimulatedDiskSpace:
        """Return used and free space. path: any path on the disk. OSError(EIO): by chance."""
        self._injector.pause(self._machine, "space")
        current = self._names.current
        if path not in current.directories and path not in current.names:
            raise self._names.missing_path_error(path)
        self._injector.fail_by_chance(FaultKind.FAILED_SPACE_QUERY, path)
        return self._volume.space_at(path)

    def buffer(self, size_bytes: int) -> memoryview:
        """Return zeroed memory of the machine."""
        return memoryview(bytearray(size_bytes))

    def read(self, path: str) -> bytes:
        injector = self._injector
        self._injector.pause_for_device(self._machine, "read", path)
        injector.check_readable(path)
        inode = self._names.find_file(path)
        injector.fail_by_chance(FaultKind.FAILED_READ, path)
        if inode.flaws is not None and inode.flaws.bad_sectors:
            injector.count_fault(FaultKind.LATENT_SECTOR_ERROR, path)
            raise os_error(errno.EIO, path)
        return bytes(inode.content())

    def write(self, path: str, data: bytes) -> None:
        """Create or empty a small file, then write: two operations, or one if data is empty.

        A crash during the second operation, a full disk (ENOSPC) and a failed write leave a prefix of the data. After a
        short write, a third operation writes the rest.
        """
        self._injector.pause_for_device(self._machine, "write", path)
        if self._open_or_create(path).size_bytes:
            wall_ns = self._injector.wall_ns(self._machine)
            self._injector.run_atomic_operation(self._machine, "empty", path, self._names.empty, path, wall_ns)
        file = self._names.current.names[path]
        injector = self._injector
        at = 0
        while at < len(data):
            injector.pause(self._machine, "write")
            fitting = data[at : at + self._volume.usable_bytes(path)]
            chunk = fitting[: injector.writable_bytes(path, len(fitting))] if fitting else fitting
            inode = self._names.current.files[file]
            write_to_page_cache(injector, self._machine, self._names, path, inode, at, chunk)
            at += len(chunk)
            if at < len(data) and len(chunk) == len(fitting):
                raise self._volume.disk_full_error(path)

    def open(self, path: str) -> SimDescriptor:
        """Open a file, and create it if it is missing."""
        self._injector.pause_for_device(self._machine, "open", path)
        self._open_or_create(path)
        file = self._names.current.names[path]
        return SimDescriptor(path, file, self._machine, self._volume, self._syncs)

    def sync(self, path: str) -> None:
        """Make content and size durable. The name may still be lost."""
        self._injector.pause(self._machine, "sync")
        inode = self._names.find_file(path)
        self._syncs.file(self._machine, SyncWait("sync", path), inode, 0, inode.size_bytes)

    def sync_directory(self, path: str) -> None:
        """Make the names in one directory durable, but not the names in its subdirectories."""
        self._injector.pause(self._machine, "sync directory")
        self._names.check_directory(path)
        self._syncs.directory(self._machine, SyncWait("sync directory", path))

    def open_unnamed(self) -> SimDescriptor:
        """Open a new file without a name, as with O_TMPFILE."""
        injector = self._injector
        injector.pause_for_device(self._machine, "open", "")
        file = self._names.create_unnamed(injector.wall_ns(self._machine))
        return SimDescriptor(f"/#{file}", file, self._machine, self._volume, self._syncs)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory. A file may replace a file; a directory may replace an empty directory."""
        self._injector.pause(self._machine, "rename")
        if old in self._names.current.directories:
            self._rename_directory(old, new)
            return
        self._names.find_file(old)
        self._names.check_parent(new)
        names = self._names.current.names
        if names[old] == names.get(new):  # rename(2) has no effect if both names are links to one file
            return
        injector = self._injector
        injector.fail_by_chance(FaultKind.FAILED_RENAME, old)
        number = injector.begin_atomic(self._machine, "rename", old)
        self._names.rename(number, old, new)
        if injector.damage:  # record both names, because a crash may undo the rename
            injector.damage += [damage._replace(path=new) for damage in injector.damage if damage.path == old]
        injector.end_operation(self._machine, "rename", number)

    def _rename_directory(self, old: str, new: str) -> None:
        names = self._names
        if f"{new}/".startswith(f"{old}/"):
            if old == new:
                return
            raise os_error(errno.EINVAL, new)
        if new in names.current.names:
            raise os_error(errno.ENOTDIR, new)
        if new not in names.current.directories:
            names.check_parent(new)
        elif names.children(new):
            raise os_error(errno.ENOTEMPTY, new)
        self._injector.run_atomic_operation(self._machine, "rename", old, names.rename_directory, old, new)

    def exchange(self, one: str, other: str) -> None:
        names = self._names
        self._injector.pause(self._machine, "exchange")
        for path, away in ((one, other), (other, one)):
            if path not in names.current.names and path not in names.current.directories:
                raise names.missing_path_error(path)
            if away.startswith(f"{path}/"):
                raise os_error(errno.EINVAL, away)
        self._injector.run_atomic_operation(self._machine, "exchange", one, names.exchange, one, other)

    def link(self, path: str, new: str) -> None:
        """Add another name. FileExistsError: the name exists."""
        self._injector.pause(self._machine, "link")
        self._names.find_file(path)
        self._names.check_free(new)
        file = self._names.current.names[path]
        self._injector.run_atomic_operation(self._machine, "link", new, self._names.link, new, file)

    def symlink(self, path: str, text: str) -> None:
        """Create a symbolic link, which the simulated disk never follows."""
        injector = self._injector
        injector.pause(self._machine, "symlink")
        self._names.check_free(path)
        wall_ns = injector.wall_ns(self._machine)
        injector.run_atomic_operation(self._machine, "symlink", path, self._names.symlink, path, text, wall_ns)

    def unlink(self, path: str) -> None:
        """Remove a name. Maps of the file stay usable."""
        self._injector.pause(self._machine, "unlink")
        self._names.find_file(path)
        injector = self._injector
        injector.fail_by_chance(FaultKind.FAILED_REMOVAL, path)
        injector.run_atomic_operation(self._machine, "unlink", path, self._names.unlink, path)

    def remove_directory(self, path: str) -> None:
        self._injector.pause(self._machine, "remove directory")
        if self._names.children(path):
            raise os_error(errno.ENOTEMPTY, path)
        if path == "/":
            raise os_error(errno.EBUSY, path)
        self._injector.run_atomic_operation(self._machine, "remove directory", path, self._names.remove_directory, path)

    def lock(self, path: str) -> SimFileLock:
        """Lock the file, not the name, and create it if it is missing. BlockingIOError: a living machine holds the
        lock.
        """
        self._injector.pause(self._machine, "lock")
        self._open_or_create(path)
        return self._volume.lock(path, self._machine)

    def _open_or_create(self, path: str) -> Inode:
        self._injector.check_readable(path)
        inode = self._names.current.inode(path)
        if inode is None:
            self._names.check_parent(path)
            self._volume.check_creation(path)
            wall_ns = self._injector.wall_ns(self._machine)
            inode = self._injector.run_atomic_operation(
                self._machine, "create", path, self._names.create, path, wall_ns
            )
        return inode
