"""The file system of one simulated machine: names, small files, maps, locks."""

import errno
from typing import NamedTuple

from ..sim.machine import Machine
from .capacity import Capacity, DiskSpace
from .changes import parent_of
from .mapped_file import SimMappedFile
from .namespace import Namespace, not_a_directory
from .page_cache import Inode
from .plug import DURING, Plug
from .syncs import Syncs, SyncWait


class FileStatus(NamedTuple):
    """What a directory knows of a name. Directories have size and time 0."""

    size_bytes: int
    mtime_ms: int
    is_directory: bool


class SimFileLock:
    """A lock that one machine holds until it releases it or dies."""

    __slots__ = ("_files", "_path")

    def __init__(self, files: "SimFiles", path: str) -> None:
        self._files = files
        self._path = path

    def release(self) -> None:
        """Let the next one in."""
        self._files.unlock(self._path)


class SimFiles:
    """A disk as one machine has mounted it. Every call is a scheduling point and raises MachineDied after its death.

    Failures are the OSErrors a POSIX system would raise, before the operation is counted.
    """

    __slots__ = ("_capacity", "_locks", "_machine", "_names", "_plug", "_syncs")

    def __init__(
        self,
        machine: Machine,
        names: Namespace,
        plug: Plug,
        syncs: Syncs,
        locks: dict[str, Machine],
        capacity: Capacity,
    ) -> None:
        self._machine = machine
        self._names = names
        self._plug = plug
        self._syncs = syncs
        self._locks = locks
        self._capacity = capacity

    def status(self, path: str) -> FileStatus | None:
        """Return what is at path, None if nothing is."""
        self._plug.pause(self._machine, "status")
        inode = self._names.current.inode(path)
        if inode is not None:
            return FileStatus(inode.size_bytes, inode.mtime_ms(self._plug.kernel.wall_start_ms), False)
        return FileStatus(0, 0, True) if path in self._names.current.directories else None

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        self._plug.pause(self._machine, "list")
        return self._names.children(path)

    def make_directories(self, path: str) -> None:
        """Create a directory and those above it, each an operation; nothing happens if it exists."""
        self._plug.pause(self._machine, "make directory")
        missing: list[str] = []
        while path not in self._names.current.directories:
            if path in self._names.current.names:
                raise not_a_directory(path) if missing else FileExistsError(errno.EEXIST, "File exists", path)
            missing.append(path)
            path = parent_of(path)
        for directory in reversed(missing):
            self._plug.pause(self._machine, "make directory")
            if directory in self._names.current.directories:
                continue
            self._names.check_parent(directory)
            number = self._begin("make directory", directory)
            self._names.make_directory(number, directory)
            self._end("make directory", number)

    def map(self, path: str, size_bytes: int) -> SimMappedFile:
        """Map a file's first size_bytes, created if need be and extended with zeros if it is shorter."""
        self._plug.pause(self._machine, "map")
        inode = self._open(path)
        if inode.size_bytes < size_bytes:
            self._plug.pause(self._machine, "extend")
        if inode.size_bytes < size_bytes:
            self._capacity.check_growth(path, size_bytes - inode.size_bytes)
            number = self._begin("extend", path)
            inode.thaw(size_bytes)
            self._names.extend(number, path, inode, size_bytes, by_write=False)
            self._end("extend", number)
        inode.thaw(0)
        return SimMappedFile(path, size_bytes, inode, self._machine, self._plug, self._syncs)

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Say when a file was last changed. It is as durable as any time of change here: at once."""
        self._plug.pause(self._machine, "set mtime")
        self._names.find(path).mtime_ns = (mtime_ms - self._plug.kernel.wall_start_ms) * 1_000_000

    def space(self, path: str) -> DiskSpace:
        """Return how full the disk is: what its files take, and what its capacity leaves."""
        self._plug.pause(self._machine, "space")
        return self._capacity.space()

    def buffer(self, size_bytes: int) -> memoryview:
        """Return zeroed memory of the machine, which dies with it."""
        return memoryview(bytearray(size_bytes))

    def read(self, path: str) -> bytes:
        """Return a small file's whole content."""
        self._plug.pause(self._machine, "read")
        return self._names.find(path).content()

    def write(self, path: str, data: bytes) -> None:
        """Create or empty a small file, then write data to it: two operations, one if data is empty.

        A crash during the second leaves a drawn number of the first bytes in the page cache; a disk that is full by
        then takes as many of them as it has room for, and raises OSError(ENOSPC).
        """
        self._plug.pause(self._machine, "write")
        if self._open(path).size_bytes:
            number = self._begin("empty", path)
            self._names.empty(number, path, self._plug.wall_ns(self._machine))
            self._end("empty", number)
        file = self._names.current.names[path]
        if data:
            self._plug.pause(self._machine, "write")
            fitting = data[: self._capacity.space().usable_bytes]
            self._fill(path, self._names.current.files[file], fitting)
            if len(fitting) < len(data):
                raise self._capacity.full(path)

    def sync(self, path: str) -> None:
        """Make a file's content and size durable, but not its name."""
        self._plug.pause(self._machine, "sync")
        inode = self._names.find(path)
        self._syncs.file(self._machine, SyncWait("sync", path), inode, 0, inode.size_bytes)

    def sync_directory(self, path: str) -> None:
        """Make the names in one directory durable, but not those below it."""
        self._plug.pause(self._machine, "sync directory")
        self._names.check_directory(path)
        self._syncs.directory(self._machine, SyncWait("sync directory", path))

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, replacing what had it. Directories are not renamed: IsADirectoryError."""
        self._plug.pause(self._machine, "rename")
        self._names.find(old)
        self._names.check_parent(new)
        if old == new:
            return
        number = self._begin("rename", old)
        self._names.rename(number, old, new)
        self._end("rename", number)

    def unlink(self, path: str) -> None:
        """Remove a name; maps of the file stay usable."""
        self._plug.pause(self._machine, "unlink")
        self._names.find(path)
        number = self._begin("unlink", path)
        self._names.unlink(number, path)
        self._end("unlink", number)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        self._plug.pause(self._machine, "remove directory")
        if self._names.children(path):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        if path == "/":
            raise OSError(errno.EBUSY, "Device or resource busy", path)
        number = self._begin("remove directory", path)
        self._names.remove_directory(number, path)
        self._end("remove directory", number)

    def lock(self, path: str) -> SimFileLock:
        """Create path if needed and lock it; BlockingIOError if a living machine, this one included, holds it."""
        self._plug.pause(self._machine, "lock")
        self._open(path)
        holder = self._locks.get(path)
        if holder is not None and holder.alive:
            raise BlockingIOError(errno.EWOULDBLOCK, "Resource temporarily unavailable", path)
        self._locks[path] = self._machine
        return SimFileLock(self, path)

    def unlock(self, path: str) -> None:
        """Release this machine's lock on path; nothing happens if it holds none."""
        self._plug.pause(self._machine, "unlock")
        if self._locks.get(path) is self._machine:
            del self._locks[path]

    def _open(self, path: str) -> Inode:
        """Return the file at path, created if there is none."""
        inode = self._names.current.inode(path)
        if inode is None:
            self._names.check_parent(path)
            self._find_space(path)
            number = self._begin("create", path)
            inode = self._names.create(number, path, self._plug.wall_ns(self._machine))
            self._end("create", number)
        return inode

    def _find_space(self, path: str) -> None:
        """Raise OSError(ENOSPC) if the disk is full, or with the chance that it has been given for it."""
        self._capacity.check_creation(path)
        plug = self._plug
        if plug.strikes(plug.faults.failed_creation_chance, "failed creation", path):
            raise OSError(errno.ENOSPC, "No space left on device", path)

    def _fill(self, path: str, inode: Inode, data: bytes) -> None:
        plug = self._plug
        number = plug.begin(self._machine, "write", path)
        if number == plug.armed and plug.moment == DURING:
            data = data[: plug.stream.below(len(data) + 1, f"bytes written {path}")]
        if data:
            inode.write(number, 0, bytes(data), plug.wall_ns(self._machine))
            self._names.extend(number, path, inode, inode.size_bytes, by_write=True)
        self._end("write", number)

    def _begin(self, kind: str, path: str) -> int:
        return self._plug.begin_atomic(self._machine, kind, path)

    def _end(self, kind: str, number: int) -> None:
        self._plug.end(self._machine, kind, number)
