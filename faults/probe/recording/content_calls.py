"""What stands for the functions of `os` that write through descriptors, and sync what was written."""

import os
from collections.abc import Callable, Sequence
from fcntl import F_GETFL, fcntl
from stat import S_ISDIR
from typing import Any

from ..record import ALLOCATE, SYNC, SYNC_ALL, SYNC_DIRECTORY, TRUNCATE
from .name_calls import NameCalls

_CHUNK_BYTES = 1 << 20
_write, _pwrite, _writev, _pwritev = os.write, os.pwrite, os.writev, os.pwritev
_sendfile, _copy_file_range, _splice = os.sendfile, os.copy_file_range, os.splice
_ftruncate, _posix_fallocate, _lseek = os.ftruncate, os.posix_fallocate, os.lseek
_close, _closerange, _dup2 = os.close, os.closerange, os.dup2
_fsync, _fdatasync = os.fsync, os.fdatasync


class ContentCalls(NameCalls):
    """As for names, but for syncs: on the program's disk they are noted, not carried out."""

    def write(self, fd: int, data: Any, /) -> int:
        """Stand for os.write."""
        file = self._file_of(fd)
        if file is None:
            return _write(fd, data)
        with self._lock:
            written = _write(fd, data)
            self._recorder.wrote(
                fd, file, _lseek(fd, 0, os.SEEK_CUR) - written, bytes(memoryview(data).cast("B")[:written])
            )
            return written

    def pwrite(self, fd: int, data: Any, offset: int, /) -> int:
        """Stand for os.pwrite, which appends to what was opened for that, whatever the offset."""
        file = self._file_of(fd)
        if file is None:
            return _pwrite(fd, data, offset)
        with self._lock:
            written = _pwrite(fd, data, offset)
            at = self._at(fd, offset, written)
            self._recorder.wrote(fd, file, at, bytes(memoryview(data).cast("B")[:written]))
            return written

    def writev(self, fd: int, buffers: Sequence[Any], /) -> int:
        """Stand for os.writev."""
        file = self._file_of(fd)
        if file is None:
            return _writev(fd, buffers)
        with self._lock:
            written = _writev(fd, buffers)
            at = _lseek(fd, 0, os.SEEK_CUR) - written
            self._recorder.wrote(fd, file, at, _joined(buffers)[:written])
            return written

    def pwritev(self, fd: int, buffers: Sequence[Any], offset: int, flags: int = 0, /) -> int:
        """Stand for os.pwritev, with its flags to append and to sync."""
        file = self._file_of(fd)
        if file is None:
            return _pwritev(fd, buffers, offset, flags)
        with self._lock:
            written = _pwritev(fd, buffers, offset, flags)
            appends = bool(flags & getattr(os, "RWF_APPEND", 0))
            at = self._at(fd, offset, written, appends=appends)
            self._recorder.wrote(fd, file, at, _joined(buffers)[:written])
            if flags & (os.RWF_SYNC | os.RWF_DSYNC):
                self._recorder.add(SYNC, file=file)
            return written

    def sendfile(
        self, out_fd: int, in_fd: int, offset: int | None, count: int, *others: Any, **named: Any
    ) -> int:
        """Stand for os.sendfile."""
        file = self._file_of(out_fd)
        if file is None:
            return _sendfile(out_fd, in_fd, offset, count, *others, **named)
        with self._lock:
            start = _lseek(in_fd, 0, os.SEEK_CUR) if offset is None else offset
            sent = _sendfile(out_fd, in_fd, offset, count, *others, **named)
            at = _lseek(out_fd, 0, os.SEEK_CUR) - sent
            self._copied(out_fd, file, at, in_fd, start, sent)
            return sent

    def copy_file_range(
        self,
        src: int,
        dst: int,
        count: int,
        offset_src: int | None = None,
        offset_dst: int | None = None,
    ) -> int:
        """Stand for os.copy_file_range."""
        file = self._file_of(dst)
        if file is None:
            return _copy_file_range(src, dst, count, offset_src, offset_dst)
        with self._lock:
            start = _lseek(src, 0, os.SEEK_CUR) if offset_src is None else offset_src
            at = _lseek(dst, 0, os.SEEK_CUR) if offset_dst is None else offset_dst
            copied = _copy_file_range(src, dst, count, offset_src, offset_dst)
            self._copied(dst, file, at, src, start, copied)
            return copied

    def splice(self, src: int, dst: int, *others: Any, **named: Any) -> int:
        """Stand for os.splice, of which nothing can be read back from a pipe: it is reported."""
        if self._file_of(dst) is not None:
            self._recorder.unseen("os.splice", "into a file")
        return _splice(src, dst, *others, **named)

    def _copied(self, fd: int, file: int, at: int, source: int, start: int, size_bytes: int) -> None:
        """Note what the kernel has copied from one file to another, in pieces."""
        for done in range(0, size_bytes, _CHUNK_BYTES):
            data = os.pread(source, min(_CHUNK_BYTES, size_bytes - done), start + done)
            self._recorder.wrote(fd, file, at + done, data)

    @staticmethod
    def _at(fd: int, offset: int, written: int, *, appends: bool = False) -> int:
        """Return where a write with an offset has really gone."""
        if appends or fcntl(fd, F_GETFL) & os.O_APPEND:
            return os.fstat(fd).st_size - written
        return offset

    def truncate(self, path: Any, length: int) -> None:
        """Stand for os.truncate, of a path or a descriptor."""
        if isinstance(path, int):
            return self.ftruncate(path, length)
        descriptor = self.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            self.ftruncate(descriptor, length)
        finally:
            os.close(descriptor)
        return None

    def ftruncate(self, fd: int, length: int, /) -> None:
        """Stand for os.ftruncate."""
        file = self._file_of(fd)
        with self._lock:
            self._call(_ftruncate, fd, length)
            if file is not None:
                self._recorder.add(TRUNCATE, file=file, at=length)

    def posix_fallocate(self, fd: int, offset: int, length: int, /) -> None:
        """Stand for os.posix_fallocate."""
        file = self._file_of(fd)
        with self._lock:
            _posix_fallocate(fd, offset, length)
            if file is not None:
                self._recorder.add(ALLOCATE, file=file, at=offset + length)

    # -- descriptors ---------------------------------------------------------------------------------

    def close(self, fd: int) -> None:
        """Stand for os.close: the number is free for another file, whoever has it."""
        self._recorder.generation += 1
        _close(fd)

    def closerange(self, fd_low: int, fd_high: int, /) -> None:
        """Stand for os.closerange."""
        self._recorder.generation += 1
        _closerange(fd_low, fd_high)

    def dup2(self, fd: int, fd2: int, inheritable: bool = True) -> int:
        """Stand for os.dup2, by which an open descriptor comes to mean another file."""
        with self._lock:
            self._recorder.generation += 1
            return _dup2(fd, fd2, inheritable)

    # -- syncs ---------------------------------------------------------------------------------------

    def fsync(self, fd: Any) -> None:
        """Stand for os.fsync, of a file or a directory."""
        self._sync(_fsync, fd)

    def fdatasync(self, fd: Any) -> None:
        """Stand for os.fdatasync."""
        self._sync(_fdatasync, fd)

    def _sync(self, real: Callable[[Any], None], fd: Any) -> None:
        """Note a sync. On the program's disk it is not carried out: a directory that is thrown away needs none."""
        descriptor = fd if isinstance(fd, int) else fd.fileno()
        file = self._file_of(descriptor)
        with self._lock:
            where = None if file is not None else self._directory(descriptor)
            if file is not None:
                self._recorder.add(SYNC, file=file)
            elif where is not None:
                self._recorder.add(SYNC_DIRECTORY, where)
            else:
                real(descriptor)

    def _directory(self, descriptor: int) -> str | None:
        """Return which directory of the disk a descriptor is open on, None if it is none."""
        return self._disk_path(".", descriptor) if S_ISDIR(os.fstat(descriptor).st_mode) else None

    def sync(self) -> None:
        """Stand for os.sync, which is not carried out either: it would be one of every disk of the machine."""
        with self._lock:
            self._recorder.add(SYNC_ALL)


def _joined(buffers: Sequence[Any]) -> bytes:
    return b"".join(bytes(memoryview(buffer).cast("B")) for buffer in buffers)
