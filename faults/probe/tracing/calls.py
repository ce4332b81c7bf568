"""Content calls: records system calls that write, resize or sync files.

Before a call runs, the recorder checks whether the call affects a recorded file. Afterwards it reads the result, and
the written bytes from the file. Only one recorded call runs at a time, so this call wrote these bytes.
"""

import errno
import os
import struct
from collections.abc import Callable
from stat import S_ISDIR

from ..record import ALLOCATE, DATA, SYNC, SYNC_ALL, SYNC_DIRECTORY, TRUNCATE, ZERO_RANGE
from . import asynchronous, ptrace
from .asynchronous import EventRing, Request
from .files import KnownFile, KnownFiles, path_below
from .maps import MapCalls
from .notes import ProgramNotes
from .threads import Finish, TracedThread

PRINTED, PROMISED, ASKED = "printed", "promised", "asked"
"""The kinds of output of a program: printed lines, promises, and rules of requested faults."""
_HERE = 2**64 - 1  # offset argument for the current file position
_RWF_DSYNC, _RWF_SYNC, _RWF_APPEND, _RWF_NOAPPEND = 2, 4, 16, 32
_KEEP_SIZE, _PUNCH_HOLE, _COLLAPSE, _ZERO, _INSERT = 1, 2, 8, 16, 32
_AIO_WRITES = (asynchronous.WRITE, asynchronous.WRITE_VECTOR)
_AIO_SYNCS = (asynchronous.FSYNC, asynchronous.FDATASYNC)


class ContentCalls:
    """Records calls that change or sync file contents. Each `on_NAME` gets the thread and the call's arguments."""

    def __init__(self, files: KnownFiles, notes: ProgramNotes, maps: MapCalls, on_rule: Callable[[str], None]) -> None:
        self._on_rule = on_rule  # called with each rule that the program writes
        self._begun_rule = b""
        self._files = files
        self._notes = notes
        self._maps = maps

    # -- writes --------------------------------------------------------------------------------------

    def on_write(self, thread: TracedThread, fd: int, buffer: int, *_: int) -> Finish | None:
        """Record a write to a file, standard output, the promise pipe or the rule FIFO."""
        state = self._files.descriptor_state(thread.id, fd)
        if state.output:
            return self._finish_output(state.output, lambda count: ptrace.read_memory(thread.id, buffer, count))
        return self._finish_write(thread, fd, _HERE)

    def on_writev(self, thread: TracedThread, fd: int, vector: int, count: int, *_: int) -> Finish | None:
        return self.on_pwritev2(thread, fd, vector, count, _HERE, 0, 0)

    def on_pwrite64(self, thread: TracedThread, fd: int, _buffer: int, _size: int, at: int, *_: int) -> Finish | None:
        """Also records pwritev(2)."""
        return self._finish_write(thread, fd, at)

    on_pwritev = on_pwrite64

    def on_pwritev2(
        self, thread: TracedThread, fd: int, vector: int, count: int, at: int, _high: int, flags: int
    ) -> Finish | None:
        """Record a write whose flags may request an append or a sync."""
        state = self._files.descriptor_state(thread.id, fd)
        if state.output:
            return self._finish_output(state.output, lambda size: _read_vector(thread.id, vector, count)[:size])
        return self._finish_write(thread, fd, at, flags)

    def on_sendfile(self, thread: TracedThread, fd: int, *_: int) -> Finish | None:
        return self._finish_write(thread, fd, _HERE)

    def on_splice(self, thread: TracedThread, _fd: int, _at: int, fd: int, at: int, *_: int) -> Finish | None:
        """Also records copy_file_range(2). The kernel updates the offset to which the argument `at` points."""
        start = int.from_bytes(ptrace.read_memory(thread.id, at, 8), "little") if at else _HERE
        return self._finish_write(thread, fd, start)

    on_copy_file_range = on_splice

    def _finish_write(self, thread: TracedThread, fd: int, at: int, how: int = 0) -> Finish | None:
        """Record a call that returns the number of written bytes. how: the flags of the call."""
        state = self._files.descriptor_state(thread.id, fd)
        file = state.file
        if file is None:
            return None
        flags = state.flags

        def finish(count: int) -> None:
            if count <= 0:
                return
            appends = how & _RWF_APPEND or (flags & os.O_APPEND and not how & _RWF_NOAPPEND)
            if at == _HERE:
                start = self._files.descriptor_state(thread.id, fd).position - count
            elif appends:
                start = file.size_bytes - count  # O_APPEND: pwrite(2) appends too on Linux
            else:
                start = at
            self._record_write(file, start, count)
            self.record_sync_of_write(file, start, count, flags, how)

        return finish

    def record_sync_of_write(self, file: KnownFile, at: int, size: int, flags: int, how: int = 0) -> None:
        """Record the sync that is part of a write. flags: of the descriptor; how: of the call."""
        if how & (_RWF_DSYNC | _RWF_SYNC) or flags & os.O_DSYNC:
            target = "" if how & _RWF_SYNC or flags & os.O_SYNC == os.O_SYNC else DATA
            self._notes.add(SYNC, target=target, file=file.number, at=at, size=size)

    def _record_write(self, file: KnownFile, at: int, count: int) -> None:
        self._notes.record_written(file.number, at, file.read(at, count))
        self._maps.mark_known(file, at, count)

    def _finish_output(self, output: str, data: Callable[[int], bytes]) -> Finish:
        if output == ASKED:
            return lambda count: self._read_rules(data(count)) if count > 0 else None
        return lambda count: self.record_output(output, data(count)) if count > 0 else None

    def record_output(self, output: str, data: bytes) -> None:
        """Record the lines that the program has completed on standard output or in the promise pipe."""
        printed, begun = output == PRINTED, self._notes.begun
        *lines, begun[printed] = (begun[printed] + data).split(b"\n")
        for line in lines:
            self._notes.acknowledged(line.decode(errors="replace").rstrip("\r"), printed=printed)

    def _read_rules(self, data: bytes) -> None:
        *lines, self._begun_rule = (self._begun_rule + data).split(b"\n")
        for line in lines:
            self._on_rule(line.decode(errors="replace"))

    # -- asynchronous writes -------------------------------------------------------------------------

    def on_io_submit(self, thread: TracedThread, context: int, count: int, list_at: int, *_: int) -> Finish | None:
        """Record asynchronous writes. The thread continues only after their completion, so the record has the real
        order."""
        wanted: list[tuple[Request, KnownFile]] = []
        try:
            ring = EventRing(thread.id, context)
            submitted = ring.requests(count, list_at)
            for one in submitted:
                if one.opcode == asynchronous.READ and thread.memory.maps_in(one.buffer, one.size_bytes):
                    self._notes.report_unseen("io_submit", "an asynchronous read into a map")
                file = self._files.descriptor_state(thread.id, one.descriptor).file
                if file is not None and one.opcode in (*_AIO_WRITES, *_AIO_SYNCS):
                    wanted.append((one, file))
        except (OSError, struct.error):
            return None  # the call will fail
        if not wanted:
            return None

        def finish(accepted: int) -> None:
            known = submitted[: max(accepted, 0)]
            due = [one for one in wanted if one[0] in known]
            results = ring.completed({request.address for request, _ in due})
            for request, file in due:
                result = results.get(request.address)
                if result is None:
                    late = f"a write has not ended within {asynchronous.SECONDS_MAX:g} s"
                    self._notes.report_unseen("io_submit", late)
                elif request.opcode in _AIO_SYNCS:
                    if result == 0:
                        target = DATA if request.opcode == asynchronous.FDATASYNC else ""
                        self._notes.add(SYNC, target=target, file=file.number)
                elif result > 0:
                    self._record_write(file, request.at, result)

        return finish

    # -- sizes ---------------------------------------------------------------------------------------

    def on_ftruncate(self, thread: TracedThread, fd: int, size: int, *_: int) -> Finish | None:
        return self._finish_truncation(self._files.descriptor_state(thread.id, fd).file, size)

    def truncated(self, status: os.stat_result, size: int) -> Finish | None:
        """Record truncate(2). status: the file's status before the call."""
        return self._finish_truncation(self._files.of(status), size)

    def _finish_truncation(self, file: KnownFile | None, size: int) -> Finish | None:
        if file is None:
            return None

        def finish(result: int) -> None:
            if result == 0:
                self._notes.add(TRUNCATE, file=file.number, at=size)
                self._maps.mark_known(file)

        return finish

    def on_fallocate(self, thread: TracedThread, fd: int, mode: int, at: int, size: int, *_: int) -> Finish | None:
        """Record changes of the file's size or content. Reserved space after the end of the file is not recorded."""
        file = self._files.descriptor_state(thread.id, fd).file
        if file is None:
            return None

        def finish(result: int) -> None:
            if result:
                return
            if mode & (_COLLAPSE | _INSERT):
                self._notes.report_unseen("fallocate", f"mode {mode:#x}: removes a range from a file, or inserts one")
                return
            if not mode & _KEEP_SIZE:
                self._notes.add(ALLOCATE, file=file.number, at=at, size=size)
            if mode & (_PUNCH_HOLE | _ZERO):
                self._notes.add(ZERO_RANGE, file=file.number, at=at, size=size)
            self._maps.mark_known(file)

        return finish

    # -- syncs ---------------------------------------------------------------------------------------

    def on_fsync(self, thread: TracedThread, fd: int, *_: int) -> Finish | None:
        return self.finish_sync(thread, fd, "")

    def on_fdatasync(self, thread: TracedThread, fd: int, *_: int) -> Finish | None:
        return self.finish_sync(thread, fd, DATA)

    def finish_sync(self, thread: TracedThread, fd: int, target: str, at: int = 0, size: int = 0) -> Finish | None:
        """Record a sync of a file or directory. size: the size of the synced range; 0: the whole file."""
        file = self._files.descriptor_state(thread.id, fd).file
        if file is not None:
            return self._finish_if_successful(
                lambda: self._notes.add(SYNC, target=target, file=file.number, at=at, size=size)
            )
        path = self.directory_path(thread.id, fd)
        return None if path is None else self._finish_if_successful(lambda: self._notes.add(SYNC_DIRECTORY, path))

    def directory_path(self, thread: int, fd: int) -> str | None:
        """Return the path of a recorded directory, or None if the descriptor refers to anything else."""
        name = f"/proc/{thread}/fd/{fd & 0xFFFF_FFFF}"
        try:
            return path_below(self._files.root, os.readlink(name)) if S_ISDIR(os.stat(name).st_mode) else None
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            registered = self._files.registered.get(fd)  # else the descriptor is invalid and the call will fail
            return registered.directory or None if registered else None

    def on_sync(self, _thread: TracedThread, *_: int) -> Finish:
        return self._finish_if_successful(lambda: self._notes.add(SYNC_ALL))

    def on_syncfs(self, thread: TracedThread, fd: int, *_: int) -> Finish | None:
        try:
            device = os.stat(f"/proc/{thread.id}/fd/{fd & 0xFFFF_FFFF}").st_dev
        except OSError:
            return None
        return self.on_sync(thread) if device == self._files.device else None

    @staticmethod
    def _finish_if_successful(note: Callable[[], None]) -> Finish:
        return lambda result: note() if result == 0 else None


def _read_vector(thread: int, vector: int, count: int) -> bytes:
    parts = struct.iter_unpack("<QQ", ptrace.read_memory(thread, vector, 16 * count))
    return b"".join(ptrace.read_memory(thread, start, size) for start, size in parts)
