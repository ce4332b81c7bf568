"""Watched world: wraps a store's environment to record calls, locks and cells.

The wrappers change neither arguments nor results and add no scheduling points, so the run stays the same.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ....faults.disk.mapped_file import MapPages
from ....store.world import Cell, Files, MappedFile, Tasks

_NAMES_OF_CALLS = {"list_directory": "list", "set_mtime_ms": "set mtime"}
_NOT_WATCHED = ("buffer",)


class Watcher(Protocol):
    """The observer of calls. Arguments are lock and cell objects, because their names are not unique."""

    def operation_recorded(self, kind: str, path: str, start: int = -1, stop: int = -1) -> AbstractContextManager[None]:
        """Return a `with` block for a file operation."""

    def before_write(self, path: str, at: int, data: bytes) -> None:
        """Record data that is about to be written to a file."""

    def after_write(self, path: str, at: int, data: bytes) -> None:
        """Record data that was written to a file."""

    def on_lock_acquired(self, lock: "WatchedLock") -> None:
        """Record that the current task acquired a lock."""

    def on_lock_released(self, lock: "WatchedLock") -> None:
        """Record that the current task released a lock."""

    def on_cell_written(self, cell: "WatchedCell") -> None:
        """Record that a cell was assigned."""


class WatchedLock:
    """A mutex that reports when it is acquired and released."""

    def __init__(self, lock: AbstractContextManager[None], name: str, number: int, watcher: Watcher) -> None:
        self.name = name
        self.number = number
        self._lock = lock
        self._watcher = watcher

    def __enter__(self) -> None:
        self._lock.__enter__()
        self._watcher.on_lock_acquired(self)

    def __exit__(self, *raised: Any) -> None:
        self._lock.__exit__(*raised)
        self._watcher.on_lock_released(self)


class WatchedCell:
    """A shared integer that reports assignments. Reading `value` is no scheduling point."""

    def __init__(self, cell: Cell, value: int, watcher: Watcher) -> None:
        self.value = value
        self._cell = cell
        self._watcher = watcher
        self.get = cell.get

    def set(self, value: int) -> None:
        self._cell.set(value)
        self._read_value(value)

    def add(self, delta: int) -> int:
        value = self._cell.add(delta)
        self._read_value(value)
        return value

    def compare_and_set(self, expected: int, value: int) -> bool:
        replaced = self._cell.compare_and_set(expected, value)
        if replaced:
            self._read_value(value)
        return replaced

    def _read_value(self, value: int) -> None:
        self.value = value
        self._watcher.on_cell_written(self)


class WatchedTasks:
    """The tasks of a machine, with watched locks and cells."""

    def __init__(self, tasks: Tasks, watcher: Watcher) -> None:
        self.spawn = tasks.spawn
        self.sleep = tasks.sleep
        self.signal = tasks.signal
        self._tasks = tasks
        self._watcher = watcher
        self._locks = 0

    def lock(self, name: str) -> WatchedLock:
        self._locks += 1
        return WatchedLock(self._tasks.lock(name), name, self._locks, self._watcher)

    def cell(self, name: str, value: int = 0) -> WatchedCell:
        return WatchedCell(self._tasks.cell(name, value), value, self._watcher)


class WatchedFiles:
    """A file system that reports all calls except those for buffers."""

    def __init__(self, files: Files, watcher: Watcher) -> None:
        self._files = files
        self._watcher = watcher

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._files, name)
        if name in _NOT_WATCHED:
            return method
        kind = _NAMES_OF_CALLS.get(name, name.replace("_", " "))

        def call(path: str, *arguments: Any) -> Any:
            with self._watcher.operation_recorded(kind, path):
                return method(path, *arguments)

        return call

    def write(self, path: str, data: bytes) -> None:
        with self._watcher.operation_recorded("write", path, 0, len(data)):
            self._files.write(path, data)

    def map(self, path: str, size_bytes: int) -> "WatchedMappedFile":
        with self._watcher.operation_recorded("map", path, 0, size_bytes):
            file = self._files.map(path, size_bytes)
        return WatchedMappedFile(file, self._watcher)


class WatchedMappedFile:
    """A mapped file that reports all calls except `view`."""

    def __init__(self, file: MappedFile, watcher: Watcher) -> None:
        self.path = file.path
        self.size_bytes = file.size_bytes
        self.view = file.view
        self.fdatasync = self._watch_call("fdatasync", file.fdatasync)
        self.mlock = self._watch_call("mlock", file.mlock)
        self.munlock = self._watch_call("munlock", file.munlock)
        self.advise_will_need = self._watch_call("madvise", file.advise_will_need)
        self.close = self._watch_call("close", file.close)
        self._file = file
        self._watcher = watcher
        self.pages = MapPages(self)

    def _watch_call(self, kind: str, method: Callable[[], None]) -> Callable[[], None]:
        def call() -> None:
            with self._watcher.operation_recorded(kind, self.path):
                method()

        return call

    def store(self, at: int, data: bytes | bytearray | memoryview) -> None:
        self._watcher.before_write(self.path, at, bytes(data))
        with self._watcher.operation_recorded("store", self.path, at, at + len(data)):
            self._file.store(at, data)
        self._watcher.after_write(self.path, at, bytes(data))

    def pwrite(self, at: int, data: bytes | bytearray | memoryview) -> int:
        self._watcher.before_write(self.path, at, bytes(data))
        with self._watcher.operation_recorded("pwrite", self.path, at, at + len(data)):
            written = self._file.pwrite(at, data)
        self._watcher.after_write(self.path, at, bytes(data[:written]))
        return written

    def msync(self, start: int, end: int) -> None:
        with self._watcher.operation_recorded("msync", self.path, start, end):
            self._file.msync(start, end)

    def advise_dont_need(self, start: int, end: int) -> None:
        with self._watcher.operation_recorded("madvise", self.path, start, end):
            self._file.advise_dont_need(start, end)
