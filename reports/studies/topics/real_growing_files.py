"""Growing files of the operating system."""

import os

_CREATED_MODE = 0o666  # less what the umask takes away


class RealGrowingFiles:
    """Opens files by their paths."""

    def open(self, path: str) -> "RealGrowingFile":
        """Open a file, created if there is none."""
        return RealGrowingFile(os.open(path, os.O_RDWR | os.O_CREAT, _CREATED_MODE))


class RealGrowingFile:
    """One opened file."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def write(self, at: int, data: bytes) -> int:
        """Write at a position; return how much."""
        return os.pwrite(self.descriptor, data, at)

    def read(self, at: int, size_bytes: int) -> bytes:
        """Return up to size_bytes."""
        return os.pread(self.descriptor, size_bytes, at)

    def sync(self) -> None:
        """Make everything written so far, and the size, durable. Other threads run meanwhile."""
        os.fdatasync(self.descriptor)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.descriptor)
