"""Real files: shared maps, syncs, descriptors, and a lock that also excludes RocketMQ."""

import errno
import fcntl
import os
import stat
import struct
from contextlib import suppress
from typing import NamedTuple

from .pages import buffer_pages, dont_need_pages, lock_pages, map_shared, sync_pages, unlock_pages, will_need_pages

_CREATED_MODE = 0o644
_CLOSED = -1
_FLOCK = struct.Struct("hhqqi4x")  # struct flock: l_type, l_whence, l_start, l_len, l_pid
_EXCLUSIVE_FIRST_BYTE = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)


class RealFileStatus(NamedTuple):
    """A FileStatus of `store.world`."""

    size_bytes: int
    mtime_ms: int
    is_directory: bool


class RealDiskSpace(NamedTuple):
    """The usage of a file system."""

    used_bytes: int
    usable_bytes: int


class _Descriptor:
    """Owner of a descriptor. The release of the object closes an open descriptor."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        """Later calls have no effect."""
        if self._descriptor != _CLOSED:
            descriptor, self._descriptor = self._descriptor, _CLOSED
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class RealFile(_Descriptor):
    """One open file. Every use after close() raises OSError(EBADF)."""

    __slots__ = ("path",)

    def __init__(self, path: str, descriptor: int) -> None:
        super().__init__(descriptor)
        self.path = path

    @property
    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, at: int, size_bytes: int) -> bytes:
        found = b""
        while len(found) < size_bytes:  # Linux reads at most 0x7ffff000 bytes in one call
            more = os.pread(self._descriptor, size_bytes - len(found), at + len(found))
            if not more:
                break
            found += more
        return found

    def write(self, at: int, data: bytes) -> int:
        return os.pwrite(self._descriptor, data, at)

    def allocate(self, size_bytes: int) -> None:
        """Extend the file with zeros. After an error the file has its old size."""
        _extend_file(self._descriptor, size_bytes)

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)

    def sync(self) -> None:
        if self._descriptor == _CLOSED:  # Python and the kernel raise different errors for a negative descriptor
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        os.fsync(self._descriptor)


def _extend_file(descriptor: int, size_bytes: int) -> None:
    found_bytes = os.fstat(descriptor).st_size
    if found_bytes >= size_bytes:
        return
    try:
        os.posix_fallocate(descriptor, found_bytes, size_bytes - found_bytes)
    except OSError as failure:
        if failure.errno in (errno.EOPNOTSUPP, errno.EINVAL):  # this file system does not support fallocate
            os.ftruncate(descriptor, size_bytes)
        else:
            os.ftruncate(descriptor, found_bytes)  # fallocate may have extended the file before the disk was full
            raise


class RealMappedFile(_Descriptor):
    """A shared map of a whole file, with its descriptor. Every use after close() raises an error.

    close() must not run while another thread uses the descriptor, because another file may get the same number.
    """

    __slots__ = ("pages", "path", "readable", "size_bytes")

    def __init__(self, path: str, descriptor: int, pages: memoryview) -> None:
        super().__init__(descriptor)
        self.path = path
        self.size_bytes = len(pages)
        self.pages = pages
        self.readable = pages.toreadonly()
        """The C core reads records from these pages."""

    def view(self, start: int, end: int) -> memoryview:
        """Later writes change the returned view."""
        assert 0 <= start <= end <= self.size_bytes, (start, end, self.size_bytes)
        return self.readable[start:end]

    def store(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """Raises ValueError, without a change, if data extends past the end."""
        assert at >= 0, at
        self.pages[at : at + len(data)] = data

    def pwrite(self, at: int, data: bytes | bytearray | memoryview) -> int:
        assert at >= 0, at
        assert at + len(data) <= self.size_bytes, (at, len(data), self.size_bytes)
        return os.pwrite(self._descriptor, data, at)

    def msync(self, start: int, end: int) -> None:
        """Make the pages of [start, end) and the file size durable. Other threads continue during the call."""
        assert 0 <= start <= end <= self.size_bytes, (start, end, self.size_bytes)
        sync_pages(self.pages, start, end, self.path)

    def fdatasync(self) -> None:
        """Make earlier writes and the size durable. Other threads continue during the call."""
        os.fdatasync(self._descriptor)

    def mlock(self) -> None:
        lock_pages(self.pages, self.path)

    def munlock(self) -> None:
        unlock_pages(self.pages, self.path)

    def advise_will_need(self) -> None:
        will_need_pages(self.pages, self.path)

    def advise_dont_need(self, start: int, end: int) -> None:
        """Release the pages in [start, end) from the memory of this process; the page cache keeps them."""
        dont_need_pages(self.pages, start, end, self.path)

    def close(self) -> None:
        """The pages stay mapped until the last view is released."""
        if self._descriptor != _CLOSED:
            self.readable.release()
            self.pages.release()
            super().close()


class RealFileLock(_Descriptor):
    """An exclusive lock, owned by one descriptor."""

    __slots__ = ()

    def release(self) -> None:
        self.close()


class RealFiles:
    """The file system of the operating system. All paths are absolute."""

    __slots__ = ()

    def status(self, path: str) -> RealFileStatus | None:
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return RealFileStatus(found.st_size, found.st_mtime_ns // 1_000_000, stat.S_ISDIR(found.st_mode))

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directories(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def map(self, path: str, size_bytes: int) -> RealMappedFile:
        """Map a file. Create a missing file, and extend a shorter file with zeros to size_bytes.

        The call allocates the new blocks, so that a full disk raises OSError here and not SIGBUS at a later store.
        After an OSError the file has its old size, 0 for a new file.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, _CREATED_MODE)
        try:
            _extend_file(descriptor, size_bytes)
            return RealMappedFile(path, descriptor, map_shared(descriptor, size_bytes))
        except BaseException as failure:
            os.close(descriptor)
            if isinstance(failure, OSError):
                failure.filename = path
            raise

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Change the modification time only."""
        os.utime(path, ns=(os.stat(path).st_atime_ns, mtime_ms * 1_000_000))

    def space(self, path: str) -> RealDiskSpace:
        found = os.statvfs(path)
        used = found.f_blocks - found.f_bfree  # like df, count blocks reserved for root as neither used nor free
        return RealDiskSpace(used * found.f_frsize, found.f_bavail * found.f_frsize)

    def buffer(self, size_bytes: int) -> memoryview:
        """Return zeroed memory, locked in RAM if the process's limit of locked memory allows that."""
        pages = buffer_pages(size_bytes)
        with suppress(OSError):  # the lock only improves latency; RocketMQ ignores the error too
            lock_pages(pages, None)
        return pages

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write(self, path: str, data: bytes) -> None:
        with open(path, "wb") as file:
            file.write(data)

    def sync(self, path: str) -> None:
        _open_and_sync(path, os.O_RDONLY)

    def sync_directory(self, path: str) -> None:
        _open_and_sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def open(self, path: str) -> RealFile:
        return RealFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _CREATED_MODE))

    def link(self, path: str, new: str) -> None:
        os.link(path, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def lock(self, path: str) -> RealFileLock:
        """Lock a file, and create it if it is missing.

        Raises BlockingIOError if another process or instance has the lock.

        The lock covers bytes [0, 1), like RocketMQ's Java FileLock, so that only one of the two programs runs. Unlike
        Java's lock, this lock belongs to its descriptor (F_OFD_SETLK). So the lock also excludes a second instance in
        this process, and survives when write() or read() opens and closes the file.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, _CREATED_MODE)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _EXCLUSIVE_FIRST_BYTE)
        except OSError as failure:
            os.close(descriptor)
            failure.filename = path
            raise
        return RealFileLock(descriptor)


def _open_and_sync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
