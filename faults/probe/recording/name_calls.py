"""What stands for the functions of `os` that open, make, name and remove."""

import os
from collections.abc import Callable
from threading import get_ident
from typing import Any

from .recorder import ProgramRecorder

_open, _mkdir, _rmdir, _unlink = os.open, os.mkdir, os.rmdir, os.unlink
_rename, _replace, _link = os.rename, os.replace, os.link


class NameCalls:
    """Each calls the real function first, so that what fails fails as ever and is not recorded."""

    def __init__(self, recorder: ProgramRecorder) -> None:
        self._recorder = recorder
        self._disk_path = recorder.disk_path
        self._file_of = recorder.file_of
        self._lock = recorder.lock

    def _call(self, real: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call a real function, known to the audit hook as one that is being recorded."""
        before, self._recorder.busy = self._recorder.busy, get_ident()
        try:
            return real(*arguments, **named)
        finally:
            self._recorder.busy = before

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """Stand for os.open. A file without any name, O_TMPFILE, is left alone: no crash shows it."""
        where = self._disk_path(path, dir_fd)
        if where is None:
            return _open(path, flags, mode, dir_fd=dir_fd)
        with self._lock:
            descriptor: int = self._call(_open, path, flags, mode, dir_fd=dir_fd)
            if flags & os.O_TMPFILE == os.O_TMPFILE:
                return descriptor
            self._recorder.opened(descriptor, where, flags)
            return descriptor

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        """Stand for os.mkdir."""
        where = self._disk_path(path, dir_fd)
        with self._lock:
            self._call(_mkdir, path, mode, dir_fd=dir_fd)
            if where is not None:
                self._recorder.made_directory(where)

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        """Stand for os.rmdir."""
        where = self._disk_path(path, dir_fd)
        with self._lock:
            self._call(_rmdir, path, dir_fd=dir_fd)
            if where is not None:
                self._recorder.removed_directory(where)

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        """Stand for os.unlink and os.remove."""
        where = self._disk_path(path, dir_fd)
        with self._lock:
            self._call(_unlink, path, dir_fd=dir_fd)
            if where is not None:
                self._recorder.unlinked(where)

    def rename(
        self, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        """Stand for os.rename."""
        self._move(_rename, src, dst, src_dir_fd, dst_dir_fd)

    def replace(
        self, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        """Stand for os.replace."""
        self._move(_replace, src, dst, src_dir_fd, dst_dir_fd)

    def _move(
        self, real: Callable[..., None], src: Any, dst: Any, src_dir_fd: int | None, dst_dir_fd: int | None
    ) -> None:
        old, new = self._disk_path(src, src_dir_fd), self._disk_path(dst, dst_dir_fd)
        with self._lock:
            self._call(real, src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            if old is None and new is None:
                return
            if old is None or new is None:
                self._recorder.unseen("os.rename", f"{src} -> {dst}: only one of them is on the disk")
            elif self._recorder.is_directory(old):
                self._recorder.unseen("os.rename", f"{old} -> {new}: a directory")
            else:
                self._recorder.renamed(old, new)

    def link(
        self,
        src: Any,
        dst: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        """Stand for os.link."""
        old, new = self._disk_path(src, src_dir_fd), self._disk_path(dst, dst_dir_fd)
        with self._lock:
            follow = {} if follow_symlinks else {"follow_symlinks": False}
            self._call(_link, src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, **follow)
            if old is not None and new is not None:
                self._recorder.linked(old, new)
            elif new is not None or old is not None:
                self._recorder.unseen("os.link", f"{src} -> {dst}: only one of them is on the disk")
