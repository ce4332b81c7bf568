"""Audit hook: reports file changes that the recorder does not record.

A report has the source line, and the user can declare the event harmless. Changes by a C library that opens a file
itself have no audit event; a comparison of files and record after the run finds them.
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
    """Python calls this object for every audit event of the process."""

    def __init__(self, recorder: ProgramRecorder) -> None:
        self._recorder = recorder
        self._handlers: dict[str, Callable[[str, tuple[Any, ...]], None]] = {
            "open": self._on_open,
            "mmap.__new__": self._on_map,
            "sqlite3.connect": self._on_database_connection,
            "ctypes.dlopen": self._on_library_load,
            "ctypes.dlsym": self._on_function_look_up,
            "fcntl.ioctl": self._on_ioctl,
            **dict.fromkeys(_NAMED, self._on_name_change),
            **dict.fromkeys(_PROCESSES, self._on_process_start),
        }

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Report an event outside of recorded calls."""
        handler = self._handlers.get(event)
        if handler is not None and not self._recorder.is_ours:
            handler(event, arguments)

    def _path_on_disk(self, path: object) -> str | None:
        """Return the path of an event on the program's disk, or None if the path is elsewhere."""
        if not isinstance(path, str | bytes | os.PathLike):
            return None
        return self._recorder.disk_path(path)

    def _on_open(self, event: str, arguments: tuple[Any, ...]) -> None:
        path, _, flags = arguments
        if isinstance(flags, int) and flags & _WRITES:
            where = self._path_on_disk(path)
            if where is not None:
                self._recorder.report_unseen(event, f"{where}: opened for writing without the recorder")

    def _on_name_change(self, event: str, arguments: tuple[Any, ...]) -> None:
        found = [where for where in map(self._path_on_disk, arguments[:2]) if where is not None]
        if found:
            self._recorder.report_unseen(event, " -> ".join(found))

    def _on_map(self, event: str, arguments: tuple[Any, ...]) -> None:
        descriptor, _, access, _ = arguments
        if descriptor < 0 or access in (_MAP_READ, _MAP_COPY):
            return
        if self._recorder.file_of(descriptor) is not None:
            self._recorder.report_unseen(event, "a writable map of a file")

    def _on_database_connection(self, event: str, arguments: tuple[Any, ...]) -> None:
        database = arguments[0]
        if database not in (":memory:", b":memory:", ""):
            self._recorder.report_unseen(event, f"{os.fsdecode(database)}: SQLite writes past Python")

    def _on_library_load(self, event: str, arguments: tuple[Any, ...]) -> None:
        if arguments[0] is not None:
            self._recorder.report_unseen(event, f"{arguments[0]}: a library, whose calls are not recorded")

    def _on_function_look_up(self, event: str, arguments: tuple[Any, ...]) -> None:
        self._recorder.report_unseen(event, f"{arguments[1]}: a library function, whose calls are not recorded")

    def _on_ioctl(self, event: str, arguments: tuple[Any, ...]) -> None:
        descriptor = arguments[0] if isinstance(arguments[0], int) else arguments[0].fileno()
        if self._recorder.file_of(descriptor) is not None:
            self._recorder.report_unseen(event, f"request {arguments[1]:#x} on a file, as for sharing blocks")

    def _on_process_start(self, event: str, arguments: tuple[Any, ...]) -> None:
        what = arguments[0] if arguments else ""
        self._recorder.report_unseen(event, f"{what}: another process".removeprefix(": "))
