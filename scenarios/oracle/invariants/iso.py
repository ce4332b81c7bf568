"""ISO: the store refuses a second instance on an open directory, and the attempt changes no file.

The file system wrapper of the second instance does not count changes by the first.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from ....store.errors import StoreLockedError
from ....store.message_store import MessageStore
from ....store.world import Files
from ..evidence import Violation, record_tried

_CHANGES_FILES = ("write", "rename", "unlink", "remove_directory", "set_mtime_ms")
_CHANGES_BYTES = ("store", "pwrite")


def check_second_instance(store: MessageStore) -> Iterator[Violation]:
    """Load a second instance on an open store's directory, and yield each error in the result."""
    record_tried("ISO")
    root = store.config.store_path_root_dir
    files = RecordingFiles(store.world.files)
    second = MessageStore(replace(store.world, files=cast(Files, files)), store.config)
    outcome = "opened"
    try:
        second.load()
    except StoreLockedError:
        outcome = "refused"
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
    if files.changes:
        changes = ", ".join(files.changes)
        yield Violation("ISO", "a second instance changed files", root, 0, "changes", "none", changes)
    if outcome != "refused":
        yield Violation("ISO", "a second instance was not refused", root, 0, "second start", "refused", outcome)


class RecordingProxy:
    """Wraps an object and records calls of some methods."""

    def __init__(self, inner: Any, noted: tuple[str, ...], changes: list[str]) -> None:
        self._inner = inner
        self._noted = noted
        self.changes = changes

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        return self._record_calls(name, method) if name in self._noted else method

    def _record_calls(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            where = getattr(self._inner, "path", arguments[0])
            self.changes.append(f"{name} {where}")
            return method(*arguments)

        return call


class RecordingFiles(RecordingProxy):
    """Records every change of the file system, including writes to memory-mapped files."""

    def __init__(self, files: Files) -> None:
        super().__init__(files, _CHANGES_FILES, [])

    def make_directories(self, path: str) -> None:
        if self._inner.status(path) is None:
            self.changes.append(f"make_directories {path}")
        self._inner.make_directories(path)

    def map(self, path: str, size_bytes: int) -> Any:
        status = self._inner.status(path)
        if status is None or status.size_bytes < size_bytes:
            self.changes.append(f"map {path}")
        return RecordingProxy(self._inner.map(path, size_bytes), _CHANGES_BYTES, self.changes)
