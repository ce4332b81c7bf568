"""Store directory: lists and reads store files, local or remote.

A large read of a local file maps the file. A small one copies its bytes and asks the kernel for no read-ahead, which
can be megabytes per page fault of a map, and would evict other pages.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from mmap import mmap

import pyarrow as pa
from pyarrow import fs

from ....store.formats.index import parse_index_file_name
from ..place import open_place

WINDOW_BYTES = 16 << 20
"""Maximum bytes of a remote file that are in memory at once. A longer record exceeds this limit."""
_ALIGNMENT_BYTES = 4096
"""A window starts at a multiple of this number, so that sectors of the window are sectors of the file."""

_MAPPED_BYTES_MIN = 1 << 20
"""Smaller reads of a local file are copies."""
_MAPPED_SHARE_MIN = 0.25
"""If ranges are less than this share of the bytes that they span, a local file is not mapped for them."""
NEAR_BYTES = 64 << 10
"""If the gap between two byte ranges is smaller, one read is faster than two."""
_QUEUE_DEPTH = 3
"""Path depth of queue files: topic, queue id, file."""
_NAME_DIGITS = 20
_QUEUE_ID_MAX, _OFFSET_MAX = (1 << 31) - 1, (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class StoreFile:
    """A file of the store, with its path in the file system."""

    path: str
    size_bytes: int
    base_offset: int = 0
    """Offset of the file's first byte in the log or queue."""


@dataclass(frozen=True, slots=True)
class QueueFile:
    """A file of a consume queue."""

    topic: str
    queue_id: int
    file: StoreFile


class StoreDirectory:
    """A store directory, opened read-only. Each call lists the files again, because a store may create files."""

    def __init__(self, place: str, log_places: str = "") -> None:
        """log_places: storePathCommitLog, if it is not `commitlog`; commas separate several paths."""
        self._system, self.root = open_place(place)
        self.root = self.root.rstrip("/")
        found = [open_place(one.strip())[1] for one in log_places.split(",") if one.strip()]
        self.log_directories = found or [f"{self.root}/commitlog"]
        self.is_local = isinstance(self._system, fs.LocalFileSystem)

    def segments(self) -> list[StoreFile]:
        found = [
            file for directory in self.log_directories for file in _files_with_number_names(self._list_files(directory))
        ]
        return sorted(found, key=lambda file: file.base_offset)

    def queue_files(self) -> list[QueueFile]:
        root = f"{self.root}/consumequeue"
        depth = len(root.strip("/").split("/"))  # some file systems omit the first slash
        found = []
        for one in self._list_files(root, recursive=True):
            place = one.path.strip("/").split("/")[depth:]
            if one.type == fs.FileType.File and len(place) == _QUEUE_DEPTH and _is_number(place[1], _QUEUE_ID_MAX):
                found += [QueueFile(place[0], int(place[1]), file) for file in _files_with_number_names([one])]
        return sorted(found, key=lambda one: (one.topic, one.queue_id, one.file.base_offset))

    @property
    def has_queues(self) -> bool:
        return bool(self._list_files(f"{self.root}/consumequeue"))

    def files_of_queue(self, topic: str, queue_id: int) -> list[StoreFile]:
        """Return the files in order of offset. The list is empty if the topic is not a valid directory name."""
        if "/" in topic or "\0" in topic or topic in ("", ".", ".."):
            return []
        found = _files_with_number_names(self._list_files(f"{self.root}/consumequeue/{topic}/{queue_id}"))
        return sorted(found, key=lambda file: file.base_offset)

    def index_files(self) -> list[StoreFile]:
        found = [
            StoreFile(file.path, file.size)
            for file in self._list_files(f"{self.root}/index")
            if file.type == fs.FileType.File and parse_index_file_name(file.base_name) is not None
        ]
        return sorted(found, key=lambda file: file.path)

    @property
    def exists(self) -> bool:
        return bool(self._system.get_file_info(self.root or "/").type == fs.FileType.Directory)

    @property
    def is_store(self) -> bool:
        """Return whether the directory contains a queue or log directory, possibly an empty one."""
        infos = self._system.get_file_info(self.log_directories)
        return any(info.type == fs.FileType.Directory for info in infos) or self.has_queues

    def file(self, name: str) -> StoreFile | None:
        found = self._system.get_file_info(f"{self.root}/{name}")
        return StoreFile(found.path, found.size) if found.type == fs.FileType.File else None

    def content(self, file: StoreFile) -> memoryview:
        return self._read_file(file, 0, file.size_bytes)

    def read_window(self, file: StoreFile, at: int, size_bytes: int = WINDOW_BYTES) -> tuple[memoryview, int]:
        """Return a window of a file, and the position of the window's first byte. The window includes the byte at `at`.

        A large window of a local file is the whole file. Other windows extend `size_bytes` past `at`, or to the end of
        the file.
        """
        if self.is_local and size_bytes >= _MAPPED_BYTES_MIN:
            return self._read_file(file, 0, file.size_bytes), 0
        origin = at // _ALIGNMENT_BYTES * _ALIGNMENT_BYTES
        return self._read_file(file, origin, min(at + size_bytes, file.size_bytes)), origin

    def read_ranges(self, file: StoreFile, begins: Sequence[int], ends: Sequence[int]) -> tuple[memoryview, int]:
        """Return ranges of a file in one buffer at their original distances, and the buffer's position in the file.

        begins, ends: the ascending ranges. Bytes between two ranges are undefined.
        """
        runs = _runs_of(begins, ends)
        if self.is_local and sum(end - begin for begin, end in runs) >= _MAPPED_SHARE_MIN * (ends[-1] - begins[0]):
            return self._read_file(file, 0, file.size_bytes), 0
        origin = begins[0] // _ALIGNMENT_BYTES * _ALIGNMENT_BYTES
        room = mmap(-1, ends[-1] - origin)  # pages of the buffer that are never written take no memory
        with self._open_file(file) as read:
            for begin, end in runs:
                some = read(begin, end)
                room[begin - origin : begin - origin + len(some)] = some
        return memoryview(room), origin

    def window_from(
        self, file: StoreFile, at: int, size_bytes: int, last: tuple[memoryview, int]
    ) -> tuple[memoryview, int]:
        """Like `read_window`, but reads only bytes that the last window of a remote file does not have."""
        view, origin = last
        if self.is_local or not origin <= at < origin + len(view):
            return self.read_window(file, at, size_bytes)
        start, end = at // _ALIGNMENT_BYTES * _ALIGNMENT_BYTES, min(at + size_bytes, file.size_bytes)
        kept = view[start - origin :]
        if start + len(kept) >= end:
            return kept, start
        return memoryview(b"".join((kept, self._read_file(file, start + len(kept), end)))), start

    def _read_file(self, file: StoreFile, start: int, end: int) -> memoryview:
        if file.size_bytes == 0:
            return memoryview(b"")
        if self.is_local and end - start >= min(_MAPPED_BYTES_MIN, file.size_bytes):
            mapped = memoryview(pa.memory_map(file.path).read_buffer())
            return mapped.cast("B")[start:end]  # Arrow's bytes are signed
        with self._open_file(file) as read:
            return memoryview(read(start, end))

    @contextmanager
    def _open_file(self, file: StoreFile) -> Iterator[Callable[[int, int], bytes]]:
        """Yield a function that reads the bytes between two positions, and no others."""
        if not self.is_local:
            with self._system.open_input_file(file.path) as stream:
                yield partial(self._read_at, stream)
            return
        descriptor = os.open(file.path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
            yield lambda start, end: os.pread(descriptor, end - start, start)
        finally:
            os.close(descriptor)

    def _read_at(self, stream: pa.NativeFile, start: int, end: int) -> bytes:
        read: bytes = stream.read_at(end - start, start)
        return read

    def _list_files(self, directory: str, *, recursive: bool = False) -> list[fs.FileInfo]:
        return list(self._system.get_file_info(fs.FileSelector(directory, allow_not_found=True, recursive=recursive)))


def _runs_of(begins: Sequence[int], ends: Sequence[int]) -> list[tuple[int, int]]:
    """Join ascending ranges if the gap between them is cheaper to read than to skip."""
    cuts = [0, *(at for at in range(1, len(begins)) if begins[at] - ends[at - 1] >= NEAR_BYTES), len(begins)]
    return [(begins[first], ends[after - 1]) for first, after in pairwise(cuts)]


def _files_with_number_names(files: Iterable[fs.FileInfo]) -> Iterator[StoreFile]:
    for file in files:
        name = file.base_name
        if file.type == fs.FileType.File and len(name) == _NAME_DIGITS and _is_number(name, _OFFSET_MAX):
            yield StoreFile(file.path, file.size, int(name))


def _is_number(name: str, most: int) -> bool:
    return name.isascii() and name.isdecimal() and int(name) <= most
