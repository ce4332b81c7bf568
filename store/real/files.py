"""Real files: mapped shared, synced by the kernel, locked against Java too; and descriptors of files."""

import errno
import fcntl
import os
import stat
import struct
from contextlib import suppress
from typing import NamedTuple

from .pages import (
    buffer_pages,
    dont_need_pages,
    lock_pages,
    map_shared,
    sync_pages,
    unlock_pages,
    will_need_pages,
)

_CREATED_MODE = 0o644
_CLOSED = -1
_FLOCK = struct.Struct("hhqqi4x")  # struct flock: l_type, l_whence, l_start, l_len, l_pid
_EXCLUSIVE_FIRST_BYTE = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)


class RealFileStatus(NamedTuple):
    """Fits world.FileStatus."""

    size_bytes: int
    mtime_ms: int
    is_directory: bool


class RealDiskSpace(NamedTuple):
    """How full a file system is."""

    used_bytes: int
    usable_bytes: int


class _Descriptor:
    """What is given back at the latest when nobody knows it any more."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        """Give the descriptor back. A second call does nothing."""
        if self._descriptor != _CLOSED:
            descriptor, self._descriptor = self._descriptor, _CLOSED
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class RealFile(_Descriptor):
    """One open file. Every use after close() is an OSError(EBADF)."""

    __slots__ = ("path",)

    def __init__(self, path: str, descriptor: int) -> None:
        super().__init__(descriptor)
        self.path = path

    @property
    def size_bytes(self) -> int:
        """Return the size as readers see it."""
        return os.fstat(self._descriptor).st_size

    def read(self, at: int, size_bytes: int) -> bytes:
        """Return up to size_bytes from a position on; fewer only where the file ends first."""
        found = b""
        while len(found) < size_bytes:  # Linux reads 0x7ffff000 bytes at most in one call
            more = os.pread(self._descriptor, size_bytes - len(found), at + len(found))
            if not more:
                break
            found += more
        return found

    def write(self, at: int, data: bytes) -> int:
        """Write at a position, growing the file if need be, and return how much was written; it may be short."""
        return os.pwrite(self._descriptor, data, at)

    def allocate(self, size_bytes: int) -> None:
        """Let the file be at least that long, with zeros. On an error it keeps the length it had."""
        _extend(self._descriptor, size_bytes)

    def truncate(self, size_bytes: int) -> None:
        """Let the file be exactly that long: cut, or with zeros behind its old end."""
        os.ftruncate(self._descriptor, size_bytes)

    def sync(self) -> None:
        """Make everything written so far, and the size, durable."""
        if self._descriptor == _CLOSED:  # of a negative number Python says something else than the kernel
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        os.fsync(self._descriptor)


def _extend(descriptor: int, size_bytes: int) -> None:
    """Allocate zeros behind the end of a shorter file. On an error, as on a full disk, it has the length it had."""
    found_bytes = os.fstat(descriptor).st_size
    if found_bytes >= size_bytes:
        return
    try:
        os.posix_fallocate(descriptor, found_bytes, size_bytes - found_bytes)
    except OSError as failure:
        if failure.errno in (errno.EOPNOTSUPP, errno.EINVAL):  # this file system cannot allocate ahead
            os.ftruncate(descriptor, size_bytes)
        else:
            os.ftruncate(descriptor, found_bytes)  # give back what was had before the disk was full
            raise


class RealMappedFile(_Descriptor):
    """A file mapped whole and shared, with the descriptor it was mapped from.

    It must not be closed while another thread syncs or writes it through the descriptor, whose number may be
    another file's by then. Every use after close() raises.
    """

    __slots__ = ("_pages", "_readable", "path", "size_bytes")

    def __init__(self, path: str, descriptor: int, pages: memoryview) -> None:
        super().__init__(descriptor)
        self.path = path
        self.size_bytes = len(pages)
        self._pages = pages
        self._readable = pages.toreadonly()

    def view(self, start: int, end: int) -> memoryview:
        """Return the bytes [start, end) as readers see them now: read-only, not copied."""
        assert 0 <= start <= end <= self.size_bytes, (start, end, self.size_bytes)
        return self._readable[start:end]

    def store(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """Write through the map. ValueError, and no change, if data reaches past the end."""
        assert at >= 0, at
        self._pages[at : at + len(data)] = data

    def pwrite(self, at: int, data: bytes | bytearray | memoryview) -> int:
        """Write through the descriptor and return how much was written; it may be short."""
        assert at >= 0, at
        assert at + len(data) <= self.size_bytes, (at, len(data), self.size_bytes)
        return os.pwrite(self._descriptor, data, at)

    def msync(self, start: int, end: int) -> None:
        """Make the pages of [start, end) and the size durable. Other threads run meanwhile."""
        assert 0 <= start <= end <= self.size_bytes, (start, end, self.size_bytes)
        sync_pages(self._pages, start, end, self.path)

    def fdatasync(self) -> None:
        """Make everything written so far, and the size, durable. Other threads run meanwhile."""
        os.fdatasync(self._descriptor)

    def mlock(self) -> None:
        """Keep the map's pages in memory. OSError(ENOMEM, EPERM) if the system will not."""
        lock_pages(self._pages, self.path)

    def munlock(self) -> None:
        """Let them be reclaimed again."""
        unlock_pages(self._pages, self.path)

    def advise_will_need(self) -> None:
        """Advise the system that the whole map will be read soon."""
        will_need_pages(self._pages, self.path)

    def advise_dont_need(self, start: int, end: int) -> None:
        """Let the pages in [start, end) go from this process's memory; the page cache still has them."""
        dont_need_pages(self._pages, start, end, self.path)

    def close(self) -> None:
        """Give the descriptor back, and the map once the last view of it is gone."""
        if self._descriptor != _CLOSED:
            self._readable.release()
            self._pages.release()
            super().close()


class RealFileLock(_Descriptor):
    """An exclusive lock, held by one open descriptor."""

    __slots__ = ()

    def release(self) -> None:
        """Let the next one in. A second call does nothing."""
        self.close()


class RealFiles:
    """The file system of the operating system, by absolute paths."""

    __slots__ = ()

    def status(self, path: str) -> RealFileStatus | None:
        """Return what is at path, None if nothing is."""
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return RealFileStatus(found.st_size, found.st_mtime_ns // 1_000_000, stat.S_ISDIR(found.st_mode))

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(path))

    def make_directories(self, path: str) -> None:
        """Create a directory and those above it; nothing happens if it exists."""
        os.makedirs(path, exist_ok=True)

    def map(self, path: str, size_bytes: int) -> RealMappedFile:
        """Map a file: open or create it, then extend it with zeros to size_bytes if it is shorter.

        The extension is allocated, so a full disk is an OSError here and not a SIGBUS at some later store; on
        such an error the file keeps the length it had, 0 if it is new.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, _CREATED_MODE)
        try:
            _extend(descriptor, size_bytes)
            return RealMappedFile(path, descriptor, map_shared(descriptor, size_bytes))
        except BaseException as failure:
            os.close(descriptor)
            if isinstance(failure, OSError):
                failure.filename = path
            raise

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Say when a file was last changed; its time of access stays."""
        os.utime(path, ns=(os.stat(path).st_atime_ns, mtime_ms * 1_000_000))

    def space(self, path: str) -> RealDiskSpace:
        """Return how full the file system is that holds path."""
        found = os.statvfs(path)
        used = found.f_blocks - found.f_bfree  # as in df: blocks reserved for root are neither used nor usable
        return RealDiskSpace(used * found.f_frsize, found.f_bavail * found.f_frsize)

    def buffer(self, size_bytes: int) -> memoryview:
        """Return zeroed memory of this process; kept out of the swap if the limit of locked memory allows it."""
        pages = buffer_pages(size_bytes)
        with suppress(OSError):  # RocketMQ goes on without, too: it is for latency only
            lock_pages(pages, None)
        return pages

    def read(self, path: str) -> bytes:
        """Return a small file's whole content."""
        with open(path, "rb") as file:
            return file.read()

    def write(self, path: str, data: bytes) -> None:
        """Create or empty a small file and write data to it."""
        with open(path, "wb") as file:
            file.write(data)

    def sync(self, path: str) -> None:
        """Make a file's content and size durable, but not its name."""
        _sync_opened(path, os.O_RDONLY)

    def sync_directory(self, path: str) -> None:
        """Make the names in one directory (not below it) durable: creations, renames, removals."""
        _sync_opened(path, os.O_RDONLY | os.O_DIRECTORY)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, replacing what had it."""
        os.rename(old, new)

    def open(self, path: str) -> RealFile:
        """Open a file, created if there is none, to read and write anywhere in it, to cut and to sync it."""
        return RealFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _CREATED_MODE))

    def link(self, path: str, new: str) -> None:
        """Give a file one more name, which nothing has yet: FileExistsError."""
        os.link(path, new)

    def unlink(self, path: str) -> None:
        """Remove a name; maps of the file stay usable."""
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def lock(self, path: str) -> RealFileLock:
        """Create path if needed and lock it; BlockingIOError if another holder is alive.

        Locks bytes [0, 1), as RocketMQ does through Java's FileLock, so either keeps the other out. Unlike
        Java's, this lock belongs to its descriptor (F_OFD_SETLK): it excludes a second holder in this process
        too, and does not fall when the process opens and closes the file again, as write() and read() do.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, _CREATED_MODE)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _EXCLUSIVE_FIRST_BYTE)
        except OSError as failure:
            os.close(descriptor)
            failure.filename = path
            raise
        return RealFileLock(descriptor)


def _sync_opened(path: str, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
