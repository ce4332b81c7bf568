"""A file of the operating system, opened by its descriptor: reads and writes anywhere, cuts, allocation, syncs."""

import errno
import os

_CLOSED = -1


class RealFile:
    """One open file. Every use after close() is an OSError(EBADF)."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @property
    def size_bytes(self) -> int:
        """Return the size as readers see it."""
        return os.fstat(self._descriptor).st_size

    def read(self, at: int, size_bytes: int) -> bytes:
        """Return up to size_bytes from a position on; fewer only where the file ends first."""
        found = b""
        while len(found) < size_bytes:
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
        found_bytes = self.size_bytes
        if found_bytes < size_bytes:
            extend(self._descriptor, found_bytes, size_bytes)

    def truncate(self, size_bytes: int) -> None:
        """Let the file be exactly that long: cut, or with zeros behind its old end."""
        os.ftruncate(self._descriptor, size_bytes)

    def sync(self) -> None:
        """Make everything written so far, and the size, durable."""
        if self._descriptor == _CLOSED:  # of a negative number Python says something else than the kernel
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Give the descriptor back. A second call does nothing."""
        if self._descriptor != _CLOSED:
            descriptor, self._descriptor = self._descriptor, _CLOSED
            os.close(descriptor)

    def __del__(self) -> None:
        """Give the descriptor back of a file that nobody has closed."""
        self.close()


def extend(descriptor: int, found_bytes: int, size_bytes: int) -> None:
    """Allocate zeros behind a file's end. On an error, as on a full disk, it has the length it had."""
    try:
        os.posix_fallocate(descriptor, found_bytes, size_bytes - found_bytes)
    except OSError as failure:
        if failure.errno in (errno.EOPNOTSUPP, errno.EINVAL):  # this file system cannot allocate ahead
            os.ftruncate(descriptor, size_bytes)
        else:
            os.ftruncate(descriptor, found_bytes)  # give back what was had before the disk was full
            raise
