"""Files that grow as they are written: what partitions are made of, and a store's `Files` do not offer."""

from collections.abc import Callable
from typing import Protocol

from ....faults.devices.timed_files import TimedFiles
from ....faults.disk.files import SimFiles


class GrowingFile(Protocol):
    """One opened file. Positions count from its first byte."""

    def write(self, at: int, data: bytes) -> int:
        """Write at a position, growing the file if need be; return how much was written; it may be short."""

    def read(self, at: int, size_bytes: int) -> bytes:
        """Return up to size_bytes; shorter only when the file ends first."""

    def sync(self) -> None:
        """Make everything written so far, and the size, durable. After an OSError none may be assumed to be."""

    def close(self) -> None:
        """Give the descriptor back."""


class GrowingFiles(Protocol):
    """Opens them."""

    def open(self, path: str) -> GrowingFile:
        """Open a file to read and write, created if there is none."""


class SimGrowingFiles:
    """Growing files of a simulated machine whose storage takes its time."""

    def __init__(self, files: SimFiles, timed: TimedFiles, touched: Callable[[str, int, int], None]) -> None:
        """touched: waits until bytes [start, end) of a file, named by its path, are in the page cache."""
        self.files = files
        self.timed = timed
        self.touched = touched

    def open(self, path: str) -> "SimGrowingFile":
        """Open a file."""
        return SimGrowingFile(path, self)


class SimGrowingFile:
    """One of them."""

    def __init__(self, path: str, owner: SimGrowingFiles) -> None:
        self._path = path
        self._owner = owner
        self._descriptor = owner.timed.open(path)

    def write(self, at: int, data: bytes) -> int:
        """Write at a position."""
        return self._descriptor.write(at, data)

    def read(self, at: int, size_bytes: int) -> bytes:
        """Return bytes, once the storage has brought them."""
        owner = self._owner
        end = min(at + size_bytes, self._descriptor.size_bytes)
        if end <= at:
            return b""
        owner.touched(self._path, at, end)
        return bytes(owner.files.map(self._path, end).view(at, end))

    def sync(self) -> None:
        """Make everything written so far durable."""
        self._descriptor.sync()

    def close(self) -> None:
        """Do nothing: a simulated descriptor costs nothing."""
