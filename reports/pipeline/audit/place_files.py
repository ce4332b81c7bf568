"""Parts of a store in Spark tasks, with files on any file system of pyarrow.fs, opened read-only.

A small read is one request to the file system. Before a large read, such as of a log segment, the whole file is copied
to a temporary file on the local disk.

A Spark task has more overhead than the check of one queue file takes. The duration of earlier tasks determines how many
parts the next task gets.
"""

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from tempfile import NamedTemporaryFile
from time import perf_counter
from typing import Any, Generic, NoReturn

from pyarrow import fs

from ....store.real.files import RealFileStatus
from ....store.real.native import load_core
from ....store.real.overlay import OverlayFiles
from ....store.tools.spread import Item, Judgement, Result
from ....store.world import Files, MappedFile
from ..place import open_place
from ..spark.engine import BundleSize, Engine

_FEW_BYTES = 4 << 20
_PIECE_BYTES = 16 << 20


def files_at(place: str) -> Files:
    """Return access to files below a path or URI. Local files are mapped into memory."""
    system, _ = open_place(place)
    return OverlayFiles() if isinstance(system, fs.LocalFileSystem) else PlaceFiles(system)


@contextmanager
def _errors_with_path(path: str) -> Iterator[None]:
    """Add the path, and a missing error number, to each OSError that the block raises."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), error.filename or path) from error


class PlaceFiles:
    """Read-only files of one file system."""

    def __init__(self, system: fs.FileSystem) -> None:
        self._system = system

    def status(self, path: str) -> RealFileStatus | None:
        with _errors_with_path(path):
            found = self._system.get_file_info(path)
        if found.type == fs.FileType.NotFound:
            return None
        is_directory = found.type == fs.FileType.Directory
        return RealFileStatus(found.size or 0, (found.mtime_ns or 0) // 1_000_000, is_directory)

    def list_directory(self, path: str) -> list[str]:
        with _errors_with_path(path):
            return sorted(found.base_name for found in self._system.get_file_info(fs.FileSelector(path)))

    def map(self, path: str, size_bytes: int) -> MappedFile:
        return PlaceFile(self._system, path, size_bytes)

    def read(self, path: str) -> bytes:
        with _errors_with_path(path), self._system.open_input_file(path) as stream:
            content: bytes = stream.read()
        return content

    def _raise_read_only(self, *_: Any) -> NoReturn:
        raise OSError(errno.EROFS, "only read")

    make_directories = set_mtime_ms = space = buffer = write = sync = sync_directory = _raise_read_only
    rename = unlink = remove_directory = lock = _raise_read_only


class PlaceFile:
    """A read-only file on a remote file system."""

    def __init__(self, system: fs.FileSystem, path: str, size_bytes: int) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self._system = system
        self._copy: MappedFile | None = None

    def view(self, start: int, end: int) -> memoryview:
        """Return the bytes [start, end). Bytes after the end of a shortened file are zeros."""
        assert 0 <= start <= end <= self.size_bytes, (start, end, self.size_bytes)
        if self._copy is None and end - start > _FEW_BYTES:
            self._copy = self._copy_to_memory()
        if self._copy is not None:
            return self._copy.view(start, end)
        if start == end:
            return memoryview(b"")
        with _errors_with_path(self.path), self._system.open_input_file(self.path) as stream:
            raw: bytes = stream.read_at(end - start, start)
        return memoryview(raw.ljust(end - start, b"\0"))

    def _copy_to_memory(self) -> MappedFile:
        with NamedTemporaryFile(prefix="tornlog-") as copy:
            with _errors_with_path(self.path), self._system.open_input_stream(self.path) as stream:
                while piece := stream.read(_PIECE_BYTES):
                    copy.write(piece)
            copy.flush()
            return OverlayFiles().map(copy.name, self.size_bytes)  # the mapping stays valid after the file is removed

    def advise_dont_need(self, start: int, end: int) -> None:
        if self._copy is not None:
            self._copy.advise_dont_need(start, end)

    def _raise_read_only(self, *_: Any) -> NoReturn:
        raise OSError(errno.EROFS, "only read", self.path)

    store = pwrite = msync = fdatasync = mlock = munlock = _raise_read_only

    def advise_will_need(self) -> None:
        """No-op: bytes are read on demand."""

    def close(self) -> None:
        """No-op: the last view of the file frees the temporary copy."""


@dataclass(frozen=True, slots=True)
class JudgementAt(Generic[Item, Result]):
    """A check that a task calls with parts of the store at a path or URI."""

    judgement: Judgement[Item, Result]
    place: str

    def __call__(self, bundle: Sequence[tuple[int, Item]]) -> tuple[list[tuple[int, Result | OSError]], float]:
        """Return each part's number with its result or read error, and the duration of all checks in seconds."""
        began = perf_counter()
        found = [(number, self._judge_item(item)) for number, item in bundle]
        return found, perf_counter() - began

    def _judge_item(self, item: Item) -> Result | OSError:
        try:
            return self.judgement(files_at(self.place), load_core(), item)
        except OSError as error:
            return error


def _bundles(items: Iterable[Item], size: BundleSize) -> Iterator[list[tuple[int, Item]]]:
    numbered = enumerate(items)
    while bundle := list(islice(numbered, size.items)):
        yield bundle


@dataclass(frozen=True, slots=True)
class EngineSpread:
    """Runs checks of the store at a path or URI in parallel tasks."""

    engine: Engine
    place: str

    def __call__(self, judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
        early: dict[int, Result | OSError] = {}
        wanted = 0
        size = BundleSize()
        for judged, seconds in self.engine.results(JudgementAt(judgement, self.place), _bundles(items, size)):
            size.adapt(len(judged), seconds)
            early.update(judged)
            while wanted in early:
                found = early.pop(wanted)
                if isinstance(found, OSError):
                    raise found
                yield found
                wanted += 1
        assert wanted == len(items), f"{wanted} results for {len(items)} items; waiting: {sorted(early)}"
