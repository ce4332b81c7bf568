"""A file of the overlay: what its maps and locks share, in memory.

Pages of a real file are copied when first written, so opening a file of any size costs nothing up front.
"""

import errno
import os
import stat
import time

from .pages import dont_need_pages, map_private
from .status import RealFileStatus


class OverlayContent:
    """One file's bytes, whatever its names: copy-on-write pages of a real file, or memory alone.

    Invariant: what lies past size_bytes in pages is zero.
    """

    __slots__ = ("locked", "mtime_ms", "pages", "size_bytes", "was_changed")

    def __init__(self, pages: memoryview, size_bytes: int, mtime_ms: int) -> None:
        self.pages = pages
        self.was_changed = False
        """Whether pages may hold what is nowhere else."""
        self.size_bytes = size_bytes
        self.mtime_ms = mtime_ms
        self.locked = False

    def status(self) -> RealFileStatus:
        """Return what a directory would know of it."""
        return RealFileStatus(self.size_bytes, self.mtime_ms, is_directory=False)

    def extend(self, size_bytes: int) -> None:
        """Append zeros up to size_bytes, if it is shorter."""
        if self.size_bytes >= size_bytes:
            return
        if len(self.pages) < size_bytes:
            longer = map_private(-1, 0, size_bytes)
            longer[: self.size_bytes] = self.pages[: self.size_bytes]
            self.pages = longer
        self.was_changed = True
        self.size_bytes = size_bytes
        self.mtime_ms = _now_ms()

    def replace(self, data: bytes) -> None:
        """Make data the whole content. Maps follow."""
        self.pages = memoryview(bytearray(data))
        self.was_changed = True
        self.size_bytes = len(data)
        self.mtime_ms = _now_ms()

    def store(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """Write data over the bytes from at. What is there already takes no memory."""
        if self.pages[at : at + len(data)] == data:
            return
        self.was_changed = True
        self.pages[at : at + len(data)] = data
        self.mtime_ms = _now_ms()


class OverlayMappedFile:
    """A map of a file in the overlay. All maps of one file share its content."""

    __slots__ = ("_content", "path", "size_bytes")

    def __init__(self, path: str, size_bytes: int, content: OverlayContent) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self._content = content

    def view(self, start: int, end: int) -> memoryview:
        """Return the bytes [start, end) as readers see them now: read-only, not copied."""
        assert 0 <= start <= end <= self.size_bytes, (start, end, self.size_bytes)
        return self._content.pages[start:end].toreadonly()

    def store(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """Write to memory. ValueError, and no change, if data reaches past the end."""
        assert at >= 0, at
        if at + len(data) > self.size_bytes:
            raise ValueError(f"{self.path}: {len(data)} bytes at {at} do not fit {self.size_bytes}")
        self._content.store(at, data)

    def pwrite(self, at: int, data: bytes | bytearray | memoryview) -> int:
        """Write all of data to memory."""
        self.store(at, data)
        return len(data)

    def msync(self, start: int, end: int) -> None:
        """Do nothing: nothing here is to last."""

    def fdatasync(self) -> None:
        """Do nothing: nothing here is to last."""

    def mlock(self) -> None:
        """Do nothing."""

    def munlock(self) -> None:
        """Do nothing."""

    def advise_will_need(self) -> None:
        """Do nothing."""

    def advise_dont_need(self, start: int, end: int) -> None:
        """Let the pages in [start, end) go from this process's memory, if the file has not changed here."""
        if not self._content.was_changed:
            dont_need_pages(self._content.pages, start, end, self.path)

    def close(self) -> None:
        """Do nothing: the overlay keeps what the file has become."""


class OverlayLock:
    """An exclusive lock among the users of one overlay."""

    __slots__ = ("_content",)

    def __init__(self, content: OverlayContent) -> None:
        self._content = content

    def release(self) -> None:
        """Let the next one in."""
        self._content.locked = False


def open_content(path: str, size_bytes: int) -> OverlayContent:
    """Take a real file into memory, with room to extend it to size_bytes. It is only ever read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # the open of a FIFO would wait for its writer
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        room_bytes = max(found.st_size, size_bytes)
        pages = map_private(descriptor, found.st_size, room_bytes) if room_bytes else _zeros(0)
    finally:
        os.close(descriptor)
    return OverlayContent(pages, found.st_size, found.st_mtime_ns // 1_000_000)


def empty_content(size_bytes: int) -> OverlayContent:
    """Make a new, empty file with room to extend it to size_bytes."""
    return OverlayContent(_zeros(size_bytes), 0, _now_ms())


def _zeros(size_bytes: int) -> memoryview:
    return map_private(-1, 0, size_bytes) if size_bytes else memoryview(bytearray())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
