"""OS calls: replacements for the functions of `os` that change files.

Modules may have imported functions from `os` earlier, so `install` replaces them in all loaded modules, under every
name, and in the sets of `os` (such as `os.supports_fd`).
"""

import os
import sys
from collections.abc import Callable, Sequence
from fcntl import F_GETFL, fcntl
from functools import partial
from stat import S_ISDIR
from threading import get_ident
from types import ModuleType
from typing import Any

from ..record import ALLOCATE, DATA, SYNC, SYNC_ALL, SYNC_DIRECTORY, TRUNCATE
from .recorder import ProgramRecorder

_CHUNK_BYTES = 1 << 20
_sendfile, _copy_file_range, _splice = os.sendfile, os.copy_file_range, os.splice
_ftruncate, _posix_fallocate, _lseek = os.ftruncate, os.posix_fallocate, os.lseek
_close, _closerange, _dup2 = os.close, os.closerange, os.dup2
_fsync, _fdatasync = os.fsync, os.fdatasync
_open, _link = os.open, os.link


class OsCalls:
    """All replacements. Each calls the real function first, so a failed call raises its usual error and is not
    recorded.

    Syncs have no real effect; the simulated disk executes them.
    """

    def __init__(self, recorder: ProgramRecorder) -> None:
        self._recorder = recorder
        self._disk_path = recorder.disk_path
        self._file_of = recorder.file_of
        self._lock = recorder.lock

    def _call_real(self, real: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call a real function, and mark the thread so that the audit hook ignores the call."""
        before, self._recorder.busy = self._recorder.busy, get_ident()
        try:
            return real(*arguments, **named)
        finally:
            self._recorder.busy = before

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """Replace os.open. A file without a name (O_TMPFILE) is not recorded, because it does not survive a crash."""
        where = self._disk_path(path, dir_fd)
        if where is None:
            return _open(path, flags, mode, dir_fd=dir_fd)
        with self._lock:
            descriptor: int = self._call_real(_open, path, flags, mode, dir_fd=dir_fd)
            if flags & os.O_TMPFILE == os.O_TMPFILE:
                return descriptor
            self._recorder.record_open(descriptor, where, flags)
            return descriptor

    def _replacement_of_change(self, real: Callable[..., Any], note: Callable[[str], None]) -> Callable[..., None]:
        """Return a replacement for a function with one path. note: records the change."""

        def change(path: Any, *more: Any, dir_fd: int | None = None, **named: Any) -> None:
            # Resolved before the call, because the path may be missing afterwards.
            where = self._disk_path(path, dir_fd)
            with self._lock:
                self._call_real(real, path, *more, dir_fd=dir_fd, **named)
                if where is not None:
                    note(where)

        return change

    def _replacement_of_rename(self, real: Callable[..., None]) -> Callable[..., None]:
        def move(src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
            old, new = self._disk_path(src, src_dir_fd), self._disk_path(dst, dst_dir_fd)
            with self._lock:
                self._call_real(real, src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
                if old is None and new is None:
                    return
                if old is None or new is None:
                    self._recorder.report_unseen("os.rename", f"{src} -> {dst}: only one path is on the program's disk")
                elif self._recorder.is_directory(old):
                    self._recorder.record_directory_rename(old, new)
                else:
                    self._recorder.record_rename(old, new)

        return move

    def link(
        self,
        src: Any,
        dst: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        old, new = self._disk_path(src, src_dir_fd), self._disk_path(dst, dst_dir_fd)
        with self._lock:
            follow = {} if follow_symlinks else {"follow_symlinks": False}
            self._call_real(_link, src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, **follow)
            if old is not None and new is not None:
                self._recorder.record_link(old, new)
            elif new is not None or old is not None:
                self._recorder.report_unseen("os.link", f"{src} -> {dst}: only one path is on the program's disk")

    # -- contents ------------------------------------------------------------------------------------

    def _replacement_of_write(self, real: Callable[..., int], *, takes_buffers: bool = False) -> Callable[..., int]:
        """Return a replacement for a function that writes. Its arguments may end with an offset and flags.

        With O_APPEND, pwrite appends and ignores the offset.
        """

        def write(fd: int, data: Any, offset: int | None = None, flags: int = 0, /) -> int:
            arguments = (fd, data) if offset is None else (fd, data, offset, *((flags,) if flags else ()))
            return self._write_and_record(
                fd, data if takes_buffers else [data], partial(real, *arguments), offset, flags
            )

        return write

    def _write_and_record(
        self, fd: int, buffers: Sequence[Any], real: Callable[[], int], offset: int | None = None, flags: int = 0
    ) -> int:
        """Call a real function that writes buffers, and record the written bytes at their file offset."""
        file = self._file_of(fd)
        if file is None:
            return real()
        with self._lock:
            written = real()
            # Without an offset, only the kernel knows it: other processes may share it, and O_APPEND changes it.
            if offset is None:
                at = _lseek(fd, 0, os.SEEK_CUR) - written
            elif flags & getattr(os, "RWF_APPEND", 0) or fcntl(fd, F_GETFL) & os.O_APPEND:
                at = os.fstat(fd).st_size - written
            else:
                at = offset
            data = b"".join(bytes(memoryview(buffer).cast("B")) for buffer in buffers)
            self._recorder.record_write(fd, file, at, data[:written])
            if flags & (os.RWF_SYNC | os.RWF_DSYNC):
                self._recorder.add(SYNC, target="" if flags & os.RWF_SYNC else DATA, file=file)
            return written

    def sendfile(self, out_fd: int, in_fd: int, offset: int | None, count: int, *others: Any, **named: Any) -> int:
        file = self._file_of(out_fd)
        if file is None:
            return _sendfile(out_fd, in_fd, offset, count, *others, **named)
        with self._lock:
            start = _lseek(in_fd, 0, os.SEEK_CUR) if offset is None else offset
            sent = _sendfile(out_fd, in_fd, offset, count, *others, **named)
            at = _lseek(out_fd, 0, os.SEEK_CUR) - sent
            self._record_copy(out_fd, file, at, in_fd, start, sent)
            return sent

    def copy_file_range(
        self, src: int, dst: int, count: int, offset_src: int | None = None, offset_dst: int | None = None
    ) -> int:
        file = self._file_of(dst)
        if file is None:
            return _copy_file_range(src, dst, count, offset_src, offset_dst)
        with self._lock:
            start = _lseek(src, 0, os.SEEK_CUR) if offset_src is None else offset_src
            at = _lseek(dst, 0, os.SEEK_CUR) if offset_dst is None else offset_dst
            copied = _copy_file_range(src, dst, count, offset_src, offset_dst)
            self._record_copy(dst, file, at, src, start, copied)
            return copied

    def splice(self, src: int, dst: int, *others: Any, **named: Any) -> int:
        """Replace os.splice. Report it as unsupported, because the data of a pipe can be read only once."""
        if self._file_of(dst) is not None:
            self._recorder.report_unseen("os.splice", "into a file")
        return _splice(src, dst, *others, **named)

    def _record_copy(self, fd: int, file: int, at: int, source: int, start: int, size_bytes: int) -> None:
        """Record, in pieces, bytes that the kernel has copied from another file."""
        for done in range(0, size_bytes, _CHUNK_BYTES):
            data = os.pread(source, min(_CHUNK_BYTES, size_bytes - done), start + done)
            self._recorder.record_write(fd, file, at + done, data)

    def truncate(self, path: Any, length: int) -> None:
        """Replace os.truncate, with a path or a descriptor."""
        if isinstance(path, int):
            return self.ftruncate(path, length)
        descriptor = self.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            self.ftruncate(descriptor, length)
        finally:
            os.close(descriptor)
        return None

    def ftruncate(self, fd: int, length: int, /) -> None:
        file = self._file_of(fd)
        with self._lock:
            self._call_real(_ftruncate, fd, length)
            if file is not None:
                self._recorder.add(TRUNCATE, file=file, at=length)

    def posix_fallocate(self, fd: int, offset: int, length: int, /) -> None:
        file = self._file_of(fd)
        with self._lock:
            _posix_fallocate(fd, offset, length)
            if file is not None:
                self._recorder.add(ALLOCATE, file=file, at=offset, size=length)

    # -- descriptors ---------------------------------------------------------------------------------

    def close(self, fd: int) -> None:
        """Replace os.close. Another file may reuse the descriptor."""
        self._recorder.generation += 1
        _close(fd)

    def closerange(self, fd_low: int, fd_high: int, /) -> None:
        self._recorder.generation += 1
        _closerange(fd_low, fd_high)

    def dup2(self, fd: int, fd2: int, inheritable: bool = True) -> int:
        """Replace os.dup2. An open descriptor may now refer to another file."""
        with self._lock:
            self._recorder.generation += 1
            return _dup2(fd, fd2, inheritable)

    # -- syncs ---------------------------------------------------------------------------------------

    def fsync(self, fd: Any) -> None:
        """Replace os.fsync, of a file or a directory."""
        self._record_sync(_fsync, fd, "")

    def fdatasync(self, fd: Any) -> None:
        self._record_sync(_fdatasync, fd, DATA)

    def _record_sync(self, real: Callable[[Any], None], fd: Any, target: str) -> None:
        """Record a sync without executing it, because the real directory is temporary."""
        descriptor = fd if isinstance(fd, int) else fd.fileno()
        file = self._file_of(descriptor)
        with self._lock:
            is_directory = file is None and S_ISDIR(os.fstat(descriptor).st_mode)
            where = self._disk_path(".", descriptor) if is_directory else None
            if file is not None:
                self._recorder.add(SYNC, target=target, file=file)
            elif where is not None:
                self._recorder.add(SYNC_DIRECTORY, where)
            else:
                real(descriptor)

    def sync(self) -> None:
        """Replace os.sync without executing it: it would sync all disks of the machine."""
        with self._lock:
            self._recorder.add(SYNC_ALL)

    @property
    def replaced_calls(self) -> dict[Callable[..., Any], Callable[..., Any]]:
        recorder = self._recorder
        names = (
            *("open", "link", "sendfile", "copy_file_range", "splice", "truncate", "ftruncate", "posix_fallocate"),
            *("close", "closerange", "dup2", "fsync", "fdatasync", "sync"),
        )
        return {
            **{getattr(os, name): getattr(self, name) for name in names},
            **{real: self._replacement_of_change(real, recorder.record_unlink) for real in (os.unlink, os.remove)},
            os.mkdir: self._replacement_of_change(os.mkdir, recorder.record_new_directory),
            os.rmdir: self._replacement_of_change(os.rmdir, recorder.record_directory_removal),
            **{real: self._replacement_of_rename(real) for real in (os.rename, os.replace)},
            **{real: self._replacement_of_write(real) for real in (os.write, os.pwrite)},
            **{real: self._replacement_of_write(real, takes_buffers=True) for real in (os.writev, os.pwritev)},
        }


def install(replaced_calls: dict[Any, Any]) -> None:
    by_identity = {id(real): (real, twin) for real, twin in replaced_calls.items()}
    for module in list(sys.modules.values()):
        if not isinstance(module, ModuleType) or module.__name__.startswith(__package__):
            continue
        for name, value in list(vars(module).items()):
            real, twin = by_identity.get(id(value), (None, None))
            if real is value and twin is not None:
                setattr(module, name, twin)
    for name in ("supports_dir_fd", "supports_fd", "supports_follow_symlinks"):
        able = getattr(os, name)
        able.update(twin for real, twin in replaced_calls.items() if real in able)
