"""Audit hook: reports file changes that the recorder does not record.

Each event is reported with its source line, and the user can declare it harmless. Some changes have no audit event,
such as those of a C library that opens a file itself. Comparing the files with the record after the run finds them.
"""

import os
from collections.abc import Callable
from typing import Any

from .recorder import ProgramRecorder

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_MAP_READ, _MAP_COPY = 1, 3  # values of mmap.ACCESS_READ and ACCESS_COPY; such maps do not change a file
_NAMED = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate")
_PROCESSES = (*("os.system", "os.posix_spawn", "os.exec", "os.fork", "os.forkpty", "os.spawn", "pty.spawn"),)


class AuditHook:
    """Python calls this object for every audit event of the process. Most events are ignored."""

    def __init__(self, recorder: ProgramRecorder) -> None:
        self._recorder = recorder
        self._handlers: dict[str, Callable[[str, tuple[Any, ...]], None]] = {
            "open": self._opened,
            "mmap.__new__": self._mapped,
            "sqlite3.connect": self._connected,
            "ctypes.dlopen": self._loaded,
            "ctypes.dlsym": self._looked_up,
            "fcntl.ioctl": self._controlled,
            **dict.fromkeys(_NAMED, self._named),
            **dict.fromkeys(_PROCESSES, self._started),
        }

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Report an event that is not part of a recorded call."""
        handler = self._handlers.get(event)
        if handler is not None and not self._recorder.is_ours:
            handler(event, arguments)

    def _where(self, path: object) -> str | None:
        """Return the path of an event as a path on the program's disk, or None if it is elsewhere."""
        if not isinstance(path, str | bytes | os.PathLike):
            return None
        return self._recorder.disk_path(path)

    def _opened(self, event: str, arguments: tuple[Any, ...]) -> None:
        path, _, flags = arguments
        if isinstance(flags, int) and flags & _WRITES:
            where = self._where(path)
            if where is not None:
                self._recorder.unseen(event, f"{where}: opened to be written, past the recorder")

    def _named(self, event: str, arguments: tuple[Any, ...]) -> None:
        found = [where for where in map(self._where, arguments[:2]) if where is not None]
        if found:
            self._recorder.unseen(event, " -> ".join(found))

    def _mapped(self, event: str, arguments: tuple[Any, ...]) -> None:
        descriptor, _, access, _ = arguments
        if descriptor < 0 or access in (_MAP_READ, _MAP_COPY):
            return
        if self._recorder.file_of(descriptor) is not None:
            self._recorder.unseen(event, "a map of a file that can be written through it")

    def _connected(self, event: str, arguments: tuple[Any, ...]) -> None:
        database = arguments[0]
        if database not in (":memory:", b":memory:", ""):
            self._recorder.unseen(event, f"{os.fsdecode(database)}: SQLite writes by itself")

    def _loaded(self, event: str, arguments: tuple[Any, ...]) -> None:
        if arguments[0] is not None:
            self._recorder.unseen(event, f"{arguments[0]}: a library called without Python")

    def _looked_up(self, event: str, arguments: tuple[Any, ...]) -> None:
        self._recorder.unseen(event, f"{arguments[1]}: a function called without Python")

    def _controlled(self, event: str, arguments: tuple[Any, ...]) -> None:
        descriptor = arguments[0] if isinstance(arguments[0], int) else arguments[0].fileno()
        if self._recorder.file_of(descriptor) is not None:
            self._recorder.unseen(event, f"request {arguments[1]:#x} on a file, as for sharing blocks")

    def _started(self, event: str, arguments: tuple[Any, ...]) -> None:
        what = arguments[0] if arguments else ""
        self._recorder.unseen(event, f"{what}: another process".removeprefix(": "))
