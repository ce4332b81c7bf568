"""Overlay file system: starts out as the real one and keeps every change in memory.

Real recovery may run over it on a directory that must not change, even one a live broker holds. Files are
opened read-only and mapped copy-on-write; names that were created, removed or renamed live in a table over
the real directories. Syncs reach nothing, and a lock excludes only other users of the same overlay. Pages of a real
file are copied when first written, so opening a file of any size costs nothing up front.
"""

import errno
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .files import RealDiskSpace, RealFiles, RealFileStatus
from .pages import buffer_pages, dont_need_pages, map_private


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
        assert len(self.pages) >= size_bytes, (len(self.pages), size_bytes)
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

    def _do_nothing(self, *_: Any, **__: Any) -> None:
        """Nothing here is to last, and the overlay keeps what the file has become."""

    msync = fdatasync = mlock = munlock = advise_will_need = close = _do_nothing

    def advise_dont_need(self, start: int, end: int) -> None:
        """Let the pages in [start, end) go from this process's memory, if the file has not changed here."""
        if not self._content.was_changed:
            dont_need_pages(self._content.pages, start, end, self.path)


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


def _zeros(size_bytes: int) -> memoryview:
    return map_private(-1, 0, size_bytes) if size_bytes else memoryview(bytearray())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class OverlayFiles:
    """The real file system, with changes that end with this object."""

    __slots__ = ("_changed", "_changed_in", "_disk", "_guard")

    def __init__(self) -> None:
        self._disk = RealFiles()
        self._guard = threading.Lock()
        # Path -> what the overlay has there: a file, a directory it made, or None for a removed name. Other
        # paths are as on the disk. A removed directory needs no more than this: it had to be empty, so each
        # name the disk has below it is in here as None.
        self._changed: dict[str, OverlayContent | RealFileStatus | None] = {}
        self._changed_in: dict[str, set[str]] = {}
        """Directory -> the names in it that are in the table."""

    def status(self, path: str) -> RealFileStatus | None:
        """Return what is at path, None if nothing is."""
        with self._guard:
            found = self._at(os.path.normpath(path))
        return found.status() if isinstance(found, OverlayContent) else found

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        with self._located(path) as path:
            return self._names_in(path)

    def make_directories(self, path: str) -> None:
        """Create a directory in memory, and those above it; nothing happens if it exists."""
        with self._located(path) as path:
            missing = []
            while (found := self._at(path)) is None:
                missing.append(path)
                path = os.path.dirname(path)
            if not _is_directory(found):
                raise _error(errno.ENOTDIR if missing else errno.EEXIST, path)
            for name in missing:
                self._change(name, RealFileStatus(0, _now_ms(), is_directory=True))

    def map(self, path: str, size_bytes: int) -> OverlayMappedFile:
        """Map a file copy-on-write: what is missing, be it bytes or the file, is zeros in memory."""
        with self._located(path) as path:
            content = self._content(path, size_bytes, create=True)
            content.extend(size_bytes)
            return OverlayMappedFile(path, size_bytes, content)

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Say when a file was last changed, in memory."""
        with self._located(path) as path:
            self._content(path, 0, create=False).mtime_ms = mtime_ms

    def space(self, path: str) -> RealDiskSpace:
        """Return how full the real file system is that holds path, or the nearest directory above it there."""
        path = os.path.normpath(path)
        while self._disk.status(path) is None:
            path = os.path.dirname(path)
        return self._disk.space(path)

    def buffer(self, size_bytes: int) -> memoryview:
        """Return zeroed memory of this process."""
        return buffer_pages(size_bytes)

    def read(self, path: str) -> bytes:
        """Return a small file's whole content."""
        with self._located(path) as path:
            if path not in self._changed:
                return self._disk.read(path)
            content = self._content(path, 0, create=False)
            return bytes(content.pages[: content.size_bytes])

    def write(self, path: str, data: bytes) -> None:
        """Replace a small file's content in memory."""
        with self._located(path) as path:
            self._content(path, 0, create=True).replace(data)

    def sync(self, path: str) -> None:
        """Do nothing, if there is such a file."""
        if self.status(path) is None:
            raise _error(errno.ENOENT, path)

    def sync_directory(self, path: str) -> None:
        """Do nothing, if there is such a directory."""
        with self._located(path) as path:
            self._require_directory(path)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name in memory, replacing what had it. Not for directories: EISDIR."""
        with self._located(old) as old:
            new = os.path.normpath(new)
            content = self._content(old, 0, create=False)
            self._require_directory(os.path.dirname(new))
            if _is_directory(self._at(new)):
                raise _error(errno.EISDIR, new)
            self._change(old, None)
            self._change(new, content)

    def unlink(self, path: str) -> None:
        """Remove a name in memory; maps of the file stay usable."""
        with self._located(path) as path:
            found = self._at(path)
            if found is None:
                raise _error(errno.ENOENT, path)
            if _is_directory(found):
                raise _error(errno.EISDIR, path)
            self._change(path, None)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory in memory."""
        with self._located(path) as path:
            if self._names_in(path):
                raise _error(errno.ENOTEMPTY, path)
            self._change(path, None)

    def lock(self, path: str) -> OverlayLock:
        """Lock a file within this overlay, whoever holds it on the disk; BlockingIOError if one here does."""
        with self._located(path) as path:
            content = self._content(path, 0, create=True)
            if content.locked:
                raise _error(errno.EAGAIN, path)
            content.locked = True
            return OverlayLock(content)

    @contextmanager
    def _located(self, path: str) -> Iterator[str]:
        """Hold the table still and yield path as the table spells it."""
        with self._guard:
            yield os.path.normpath(path)

    def _change(self, path: str, now: OverlayContent | RealFileStatus | None) -> None:
        """Note what is at a path from now on."""
        self._changed[path] = now
        above, name = os.path.split(path)
        if name:
            self._changed_in.setdefault(above, set()).add(name)

    def _at(self, path: str) -> OverlayContent | RealFileStatus | None:
        return self._changed[path] if path in self._changed else self._disk.status(path)

    def _require_directory(self, path: str) -> None:
        found = self._at(path)
        if found is None:
            raise _error(errno.ENOENT, path)
        if not _is_directory(found):
            raise _error(errno.ENOTDIR, path)

    def _names_in(self, path: str) -> list[str]:
        self._require_directory(path)
        on_disk = self._disk.status(path)
        names = set(self._disk.list_directory(path)) if on_disk and on_disk.is_directory else set()
        for name in self._changed_in.get(path, ()):
            if self._changed[os.path.join(path, name)] is None:
                names.discard(name)
            else:
                names.add(name)
        return sorted(names)

    def _content(self, path: str, size_bytes: int, *, create: bool) -> OverlayContent:
        """Return the file at path; on its way in from the disk, or new, it gets room for size_bytes."""
        found = self._at(path)
        if isinstance(found, OverlayContent):
            return found
        if found is not None:
            if found.is_directory:
                raise _error(errno.EISDIR, path)
            content = open_content(path, size_bytes)
        else:
            if not create:
                raise _error(errno.ENOENT, path)
            self._require_directory(os.path.dirname(path))
            content = OverlayContent(_zeros(size_bytes), 0, _now_ms())
        self._change(path, content)
        return content


def _is_directory(found: OverlayContent | RealFileStatus | None) -> bool:
    return isinstance(found, RealFileStatus) and found.is_directory


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
