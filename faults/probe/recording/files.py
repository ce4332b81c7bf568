"""File objects that record the writes of Python programs below the buffers.

The recorder sees bytes when Python passes them to the kernel.
"""

import io
import os
from threading import get_ident
from typing import Any, ClassVar

from .os_calls import OsCalls
from .recorder import ProgramRecorder

_MODES = frozenset("rwaxbt+")
_CREATING = frozenset("wax+")
_BUFFER_BYTES_MAX = 8 << 20
_real_open, _real_write, _real_truncate = io.open, io.FileIO.write, io.FileIO.truncate
_lseek = os.lseek


class RecordedFile(io.FileIO):
    """A file that records its writes if it is on the program's disk."""

    recorder: ClassVar[ProgramRecorder]
    calls: ClassVar[OsCalls]
    _file: int | None = None
    _as_of = -1  # the recorder's `generation` when `_file` was read

    def __init__(self, file: Any, mode: str = "r", closefd: bool = True, opener: Any = None) -> None:
        if isinstance(file, int):
            super().__init__(file, mode, closefd)
            return
        recorder = self.recorder

        def open_recorded(path: Any, flags: int) -> int:
            recorder.busy = before
            return self.calls.open(path, flags, 0o666) if opener is None else int(opener(path, flags))

        with recorder.lock:
            # Python raises the open event before it calls the opener.
            before, recorder.busy = recorder.busy, get_ident()
            try:
                super().__init__(file, mode, closefd, open_recorded)
            finally:
                recorder.busy = before

    def write(self, data: Any, /) -> int:
        """Write, and record the file offset, which only the kernel knows for O_APPEND and shared descriptors."""
        descriptor = self.fileno()
        recorder = self.recorder
        if self._as_of != recorder.generation:
            self._as_of, self._file = recorder.generation, recorder.file_of(descriptor)
        file = self._file
        if file is None:
            return _real_write(self, data)
        with recorder.lock:
            written = _real_write(self, data)
            if written:
                end = _lseek(descriptor, 0, 1)
                kept = bytes(data) if type(data) is not memoryview else data.tobytes()
                recorder.record_write(descriptor, file, end - written, kept[:written])
            return written

    def truncate(self, size: int | None = None, /) -> int:
        """Truncate as FileIO does, by default at the current position."""
        size = self.tell() if size is None else size
        if not self.writable():
            return _real_truncate(self, size)  # the real function raises the right error
        self.calls.ftruncate(self.fileno(), size)
        return size


def recorded_open(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    """Replace `open`. The real function handles read-only and invalid calls."""
    if not _is_recordable(mode, buffering, encoding, errors, newline):
        return _real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    raw = RecordedFile(file, mode.replace("b", "").replace("t", ""), closefd, opener)
    try:
        is_binary = "b" in mode
        by_line = buffering == 1 and not is_binary
        if buffering < 0 and raw.isatty():
            by_line = True
        size_bytes = buffering if buffering > 1 else _buffer_bytes(raw)
        if buffering == 0:
            return raw
        kind = io.BufferedRandom if "+" in mode else io.BufferedWriter
        buffered = kind(raw, size_bytes)
        if is_binary:
            return buffered
        text = io.TextIOWrapper(buffered, io.text_encoding(encoding), errors, newline, by_line)
        text.mode = mode  # type: ignore[misc]  # as `open` itself does
    except BaseException:
        raw.close()
        raise
    return text


def _is_recordable(mode: str, buffering: int, *text_only: object) -> bool:
    """Return whether `open` would accept these arguments and the file is writable."""
    if not isinstance(mode, str) or not isinstance(buffering, int):
        return False
    letters = set(mode)
    if len(letters) != len(mode) or letters - _MODES or len(letters & set("rwax")) != 1:
        return False
    is_binary = "b" in letters
    if is_binary and ("t" in letters or any(one is not None for one in text_only)):
        return False
    return bool(letters & _CREATING) and buffering >= -1 and (is_binary or buffering != 0)


def _buffer_bytes(raw: io.FileIO) -> int:
    """Return Python's buffer size, which determines when bytes reach the kernel."""
    block_bytes: int = raw._blksize  # type: ignore[attr-defined]
    if io.DEFAULT_BUFFER_SIZE > 8192:  # since Python 3.14
        return max(min(block_bytes, _BUFFER_BYTES_MAX), io.DEFAULT_BUFFER_SIZE)
    return block_bytes if block_bytes > 1 else io.DEFAULT_BUFFER_SIZE
