"""Overlay file system: reads the real files and keeps every change in memory.

With an overlay, recovery can run over a directory that must not change, for example of a running broker. The overlay
opens files read-only and maps them copy-on-write, so the cost of opening does not depend on the file size. A table
contains the names created, removed or renamed in the overlay. Syncs have no effect. A lock excludes only other users of
the same overlay.
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
    """Content of one file: copy-on-write pages of a real file, or plain memory.

    Invariant: bytes after size_bytes are zero.
    """

    __slots__ = ("locked", "mtime_ms", "pages", "size_bytes", "was_changed")

    def __init__(self, pages: memoryview, size_bytes: int, mtime_ms: int) -> None:
        self.pages = pages
        self.was_changed = False
        """Whether the content may differ from the real file."""
        self.size_bytes = size_bytes
        self.mtime_ms = mtime_ms
        self.locked = False

    def status(self) -> RealFileStatus:
        return RealFileStatus(self.size_bytes, self.mtime_ms, is_directory=False)

    def extend(self, size_bytes: int) -> None:
        if self.size_bytes >= size_bytes:
            return
        if len(self.pages) < size_bytes:
            longer = map_private(-1, 0, size_bytes)
            longer[: self.size_bytes] = self.pages[: self.size_bytes]
            self.pages = longer
        assert len(self.pages) >= size_bytes, (len(self.pages), size_bytes)
        self.was_changed = True
        self.size_bytes = size_bytes
        self.mtime_ms = _wall_clock_ms()

    def replace(self, data: bytes) -> None:
        """Existing maps see the new content."""
        self.pages = memoryview(bytearray(data))
        self.was_changed = True
        self.size_bytes = len(data)
        self.mtime_ms = _wall_clock_ms()

    def store(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """A write of the bytes already stored copies no page."""
        if self.pages[at : at + len(data)] == data:
            return
        self.was_changed = True
        self.pages[at : at + len(data)] = data
        self.mtime_ms = _wall_clock_ms()


class OverlayMappedFile:
    """A map of a file in the overlay. All maps of a file share its content."""

    __slots__ = ("_content", "path", "size_bytes")

    def __init__(self, path: str, size_bytes: int, content: OverlayContent) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self._content = content

    @property
    def readable(self) -> memoryview:
        """Return the pages from which the C core reads records. No caller may change them."""
        return self._content.pages

    def view(self, start: int, end: int) -> memoryview:
        """Later writes change the returned view."""
        assert 0 <= start <= end <= self.size_bytes, (start, end, self.size_bytes)
        return self._content.pages[start:end].toreadonly()

    def store(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """Raises ValueError, without a change, if data extends past the end."""
        assert at >= 0, at
        if at + len(data) > self.size_bytes:
            raise ValueError(f"{self.path}: {len(data)} bytes at {at} do not fit {self.size_bytes}")
        self._content.store(at, data)

    def pwrite(self, at: int, data: bytes | bytearray | memoryview) -> int:
        self.store(at, data)
        return len(data)

    def _do_nothing(self, *_: Any, **__: Any) -> None:
        """No-op: the overlay has no durable state, and content stays after a close."""

    msync = fdatasync = mlock = munlock = advise_will_need = close = _do_nothing

    def advise_dont_need(self, start: int, end: int) -> None:
        """Unload the pages of [start, end), unless the overlay has changed the file."""
        if not self._content.was_changed:
            dont_need_pages(self._content.pages, start, end, self.path)


class OverlayLock:
    """An exclusive lock among the users of one overlay."""

    __slots__ = ("_content",)

    def __init__(self, content: OverlayContent) -> None:
        self._content = content

    def release(self) -> None:
        self._content.locked = False


def open_content(path: str, size_bytes: int) -> OverlayContent:
    """Map a real file copy-on-write, with zeros after its end up to size_bytes."""
    # without O_NONBLOCK, opening a FIFO would wait for a writer
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        room_bytes = max(found.st_size, size_bytes)
        pages = map_private(descriptor, found.st_size, room_bytes) if room_bytes else _zero_buffer(0)
    finally:
        os.close(descriptor)
    return OverlayContent(pages, found.st_size, found.st_mtime_ns // 1_000_000)


def _zero_buffer(size_bytes: int) -> memoryview:
    return map_private(-1, 0, size_bytes) if size_bytes else memoryview(bytearray())


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class OverlayFiles:
    """The real file system, with changes visible only in this object."""

    __slots__ = ("_changed", "_changed_in", "_disk", "_guard")

    def __init__(self) -> None:
        self._disk = RealFiles()
        self._guard = threading.Lock()
        # Path -> state in the overlay: a file, a new directory, or None for a removed name. Other paths are as on
        # the disk. A removed directory was empty, so every name below it that is on the disk is None in this table.
        self._changed: dict[str, OverlayContent | RealFileStatus | None] = {}
        self._changed_in: dict[str, set[str]] = {}
        """Directory -> its names that are in the table."""

    def status(self, path: str) -> RealFileStatus | None:
        with self._guard:
            found = self._entry_at(os.path.normpath(path))
        return found.status() if isinstance(found, OverlayContent) else found

    def list_directory(self, path: str) -> list[str]:
        with self._locked_path(path) as path:
            return self._names_in(path)

    def make_directories(self, path: str) -> None:
        with self._locked_path(path) as path:
            missing = []
            while (found := self._entry_at(path)) is None:
                missing.append(path)
                path = os.path.dirname(path)
            if not _is_directory(found):
                raise _os_error(errno.ENOTDIR if missing else errno.EEXIST, path)
            for name in missing:
                self._set_changed_entry(name, RealFileStatus(0, _wall_clock_ms(), is_directory=True))

    def map(self, path: str, size_bytes: int) -> OverlayMappedFile:
        """Map a file copy-on-write. Missing bytes, or all bytes of a missing file, are zeros in memory."""
        with self._locked_path(path) as path:
            content = self._content(path, size_bytes, create=True)
            content.extend(size_bytes)
            return OverlayMappedFile(path, size_bytes, content)

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        with self._locked_path(path) as path:
            self._content(path, 0, create=False).mtime_ms = mtime_ms

    def space(self, path: str) -> RealDiskSpace:
        """Return the disk space of the nearest parent directory that exists on the disk."""
        path = os.path.normpath(path)
        while self._disk.status(path) is None:
            path = os.path.dirname(path)
        return self._disk.space(path)

    def buffer(self, size_bytes: int) -> memoryview:
        return buffer_pages(size_bytes)

    def read(self, path: str) -> bytes:
        with self._locked_path(path) as path:
            if path not in self._changed:
                return self._disk.read(path)
            content = self._content(path, 0, create=False)
            return bytes(content.pages[: content.size_bytes])

    def write(self, path: str, data: bytes) -> None:
        with self._locked_path(path) as path:
            self._content(path, 0, create=True).replace(data)

    def sync(self, path: str) -> None:
        if self.status(path) is None:
            raise _os_error(errno.ENOENT, path)

    def sync_directory(self, path: str) -> None:
        with self._locked_path(path) as path:
            self._require_directory(path)

    def rename(self, old: str, new: str) -> None:
        """Replace an existing file `new`. Raises OSError(EISDIR) for a directory."""
        with self._locked_path(old) as old:
            new = os.path.normpath(new)
            content = self._content(old, 0, create=False)
            self._require_directory(os.path.dirname(new))
            if _is_directory(self._entry_at(new)):
                raise _os_error(errno.EISDIR, new)
            self._set_changed_entry(old, None)
            self._set_changed_entry(new, content)

    def unlink(self, path: str) -> None:
        """Existing maps of the file stay usable."""
        with self._locked_path(path) as path:
            found = self._entry_at(path)
            if found is None:
                raise _os_error(errno.ENOENT, path)
            if _is_directory(found):
                raise _os_error(errno.EISDIR, path)
            self._set_changed_entry(path, None)

    def remove_directory(self, path: str) -> None:
        with self._locked_path(path) as path:
            if self._names_in(path):
                raise _os_error(errno.ENOTEMPTY, path)
            self._set_changed_entry(path, None)

    def lock(self, path: str) -> OverlayLock:
        """Raises BlockingIOError if the file is locked in this overlay; locks on the disk are ignored."""
        with self._locked_path(path) as path:
            content = self._content(path, 0, create=True)
            if content.locked:
                raise _os_error(errno.EAGAIN, path)
            content.locked = True
            return OverlayLock(content)

    @contextmanager
    def _locked_path(self, path: str) -> Iterator[str]:
        """Yield the normalised path while the lock is held."""
        with self._guard:
            yield os.path.normpath(path)

    def _set_changed_entry(self, path: str, now: OverlayContent | RealFileStatus | None) -> None:
        self._changed[path] = now
        above, name = os.path.split(path)
        if name:
            self._changed_in.setdefault(above, set()).add(name)

    def _entry_at(self, path: str) -> OverlayContent | RealFileStatus | None:
        return self._changed[path] if path in self._changed else self._disk.status(path)

    def _require_directory(self, path: str) -> None:
        found = self._entry_at(path)
        if found is None:
            raise _os_error(errno.ENOENT, path)
        if not _is_directory(found):
            raise _os_error(errno.ENOTDIR, path)

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
        """New content has space for size_bytes."""
        found = self._entry_at(path)
        if isinstance(found, OverlayContent):
            return found
        if found is not None:
            if found.is_directory:
                raise _os_error(errno.EISDIR, path)
            content = open_content(path, size_bytes)
        else:
            if not create:
                raise _os_error(errno.ENOENT, path)
            self._require_directory(os.path.dirname(path))
            content = OverlayContent(_zero_buffer(size_bytes), 0, _wall_clock_ms())
        self._set_changed_entry(path, content)
        return content


def _is_directory(found: OverlayContent | RealFileStatus | None) -> bool:
    return isinstance(found, RealFileStatus) and found.is_directory


def _os_error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
