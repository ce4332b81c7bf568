"""Faults at calls: make one call fail, write less than requested, or lie.

To fail a call, the recorder skips it and sets the error as its result. For a short write, it halves the amount of data.
Each kind of fault applies to these calls:

    failed write           EIO     writes to files: write, pwrite, writev, sendfile, copy_file_range, io_submit, ...
    disk full              ENOSPC  the same; the next call succeeds
    short write            -       the same, if they have at least two bytes or two buffers
    interrupted call       EINTR   the same, truncations, allocations, fsync and fdatasync, without any effect
    failed creation        ENOSPC  calls that create a name: open of a new file, mknod, mkdir, link, symlink
    failed extend          ENOSPC  fallocate
    failed sync            EIO     fsync, fdatasync and msync of a file: its pages are clean, and not durable; syncfs:
                                   those of all; write, pwrite, writev, pwritev that sync their data (O_DSYNC)
    failed directory sync  EIO     fsync and fdatasync of a directory: a crash can still lose its names
    lying sync             0       as failed sync, without syncfs, and syncs of directories: no data is durable yet

sync(2) cannot report an error. If the sync of a write fails, the data is written, the call returns the error, and the
position is unchanged, as in Linux. sync and syncfs never lie. After a failed sync readers see the new bytes, as on ext4
and xfs.

An asynchronous write (io_submit) is submitted with an invalid buffer. The kernel completes it with EFAULT, and the
recorder replaces EFAULT by the fault's error before the program reads it. If another thread reads the result earlier,
it gets EFAULT, and the text of the step says so. Only the first write of such a call can fail, but not its sync.
"""

import errno
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec import structs

from ...kinds import FaultKind
from ..record import FAILED_SYNC, FAULT, LYING_SYNC, WRITE
from . import asynchronous
from .asynchronous import EventRing, Request
from .control import CALL_FAULTS, CallFault
from .files import KnownFiles
from .names import NameCalls
from .notes import ProgramNotes
from .ptrace import EnteredCall
from .threads import CallInjector, Finish, TracedThread

_HERE = 2**32 - 100  # AT_FDCWD as an unsigned 32-bit number
_SUCCESS = 0


class _Submitted(NamedTuple):
    """An asynchronous write. before: number of earlier requests in the same call; file: its number in the record."""

    ring: EventRing
    request: Request
    before: int
    file: int


class _WriteArguments(NamedTuple):
    """Indexes of a write's arguments: the descriptor, and the amount in bytes or buffers."""

    descriptor: int
    amount: int


_WRITES = {
    **dict.fromkeys(("write", "writev", "pwrite64", "pwritev", "pwritev2"), _WriteArguments(0, 2)),
    "sendfile": _WriteArguments(0, 3),
    **dict.fromkeys(("splice", "copy_file_range"), _WriteArguments(2, 4)),
}
_SYNCS = ("fsync", "fdatasync")
_MAY_LIE = (*_SYNCS, "msync")
_MAY_SYNC = ("write", "writev", "pwrite64", "pwritev", "pwritev2")
_RWF_SYNCS = 2 | 4  # RWF_DSYNC, RWF_SYNC
_SEEK_SET = 0
_NOWHERE = 0
_INTERRUPTED = ("ftruncate", "truncate", "fallocate", *_SYNCS)
_NAMED_BY = {"open": 0, "creat": 0, "openat": 1, "openat2": 1}  # index of the path argument in calls that open a file
_MAKES = ("mknod", "mknodat", "mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat")
_ERRORS = {
    FaultKind.FAILED_WRITE: errno.EIO,
    FaultKind.DISK_FULL: errno.ENOSPC,
    FaultKind.INTERRUPTED_CALL: errno.EINTR,
    FaultKind.FAILED_CREATION: errno.ENOSPC,
    FaultKind.FAILED_EXTEND: errno.ENOSPC,
    FaultKind.FAILED_SYNC: errno.EIO,
    FaultKind.FAILED_DIRECTORY_SYNC: errno.EIO,
    FaultKind.LYING_SYNC: _SUCCESS,
}


class CallFaults:
    """Injects one fault into a program. Called for each recorded call, in order."""

    def __init__(
        self, fault: CallFault, files: KnownFiles, names: NameCalls, notes: ProgramNotes, injector: CallInjector
    ) -> None:
        self._fault = fault
        self._files = files
        self._names = names
        self._notes = notes
        self._injector = injector
        self._matching_calls = 0  # number of calls so far to which the fault applies
        self._can_strike: Mapping[FaultKind, Callable[[TracedThread, EnteredCall, str], bool]] = {
            FaultKind.FAILED_WRITE: lambda *it: self._is_write(*it) or self._submitted(*it) is not None,
            FaultKind.DISK_FULL: lambda *it: self._is_write(*it) or self._submitted(*it) is not None,
            FaultKind.SHORT_WRITE: lambda *it: self._is_write(*it) and it[1].arguments[_WRITES[it[2]].amount] >= 2,
            FaultKind.INTERRUPTED_CALL: lambda *it: it[2] in _INTERRUPTED or self._is_write(*it),
            FaultKind.FAILED_CREATION: self._makes_name,
            FaultKind.FAILED_EXTEND: lambda thread, call, name: name == "fallocate",
            FaultKind.FAILED_SYNC: self._can_fail_to_sync,
            FaultKind.FAILED_DIRECTORY_SYNC: lambda *it: it[2] in _SYNCS and not self._is_file_sync(*it),
            FaultKind.LYING_SYNC: lambda *it: it[2] in _MAY_LIE or self._is_synced_write(*it),
        }
        assert self._can_strike.keys() == set(CALL_FAULTS)

    def finish_of(self, thread: TracedThread, call: EnteredCall, name: str, finish: Finish) -> Finish:
        """Return the finish function for a call before it runs. If the fault is due, inject it.

        finish: the function that records the call without a fault. The thread must then run to the end of the call.
        """
        if not self._can_strike[self._fault.kind](thread, call, name):
            return finish
        self._matching_calls += 1
        if self._matching_calls != self._fault.nth:
            return finish
        if self._fault.kind is FaultKind.SHORT_WRITE:
            return self._halve_write(thread, call, name, finish)
        if (submitted := self._submitted(thread, call, name)) is not None:
            return self._fail_on_completion(thread, submitted, finish)
        if self._fault.kind in (FaultKind.FAILED_SYNC, FaultKind.LYING_SYNC) and name in _WRITES:
            return self._run_without_sync(thread, call, finish)
        return self._skip_call(thread, call, name, finish)

    # -- which calls ---------------------------------------------------------------------------------

    def _is_write(self, thread: TracedThread, call: EnteredCall, name: str) -> bool:
        return name in _WRITES and self._number(thread, call, name) >= 0  # if -1, the descriptor is standard output

    def _submitted(self, thread: TracedThread, call: EnteredCall, name: str) -> _Submitted | None:
        if name != "io_submit":
            return None
        ring = EventRing(thread.id, call.arguments[0])
        requests = ring.requests(call.arguments[1], call.arguments[2])
        for before, request in enumerate(requests):
            file = self._files.state(thread.id, request.descriptor).file
            if request.opcode == asynchronous.WRITE and file is not None:
                return _Submitted(ring, request, before, file.number)
        return None

    def _is_file_sync(self, thread: TracedThread, call: EnteredCall, name: str) -> bool:
        return name == "msync" or (name in _SYNCS and self._number(thread, call, name) >= 0)

    def _can_fail_to_sync(self, thread: TracedThread, call: EnteredCall, name: str) -> bool:
        return name == "syncfs" or self._is_file_sync(thread, call, name) or self._is_synced_write(thread, call, name)

    def _is_synced_write(self, thread: TracedThread, call: EnteredCall, name: str) -> bool:
        if name not in _MAY_SYNC or not self._is_write(thread, call, name):
            return False
        asks = name == "pwritev2" and call.arguments[5] & _RWF_SYNCS
        return bool(asks or self._files.state(thread.id, call.arguments[0]).flags & os.O_DSYNC)

    def _makes_name(self, thread: TracedThread, call: EnteredCall, name: str) -> bool:
        if name not in _NAMED_BY:
            return name in _MAKES
        address = call.arguments[_NAMED_BY[name]]
        place = self._names.place(thread, call.arguments[0] if _NAMED_BY[name] else _HERE, address)
        return place is not None and place.path is not None and not os.path.lexists(place.real)

    def _number(self, thread: TracedThread, call: EnteredCall, name: str) -> int:
        """Return the number of the file to which a call's descriptor belongs, or -1."""
        by_descriptor = name in _WRITES or name in _SYNCS or name in ("ftruncate", "fallocate")
        if not by_descriptor:
            return -1
        descriptor = call.arguments[_WRITES[name].descriptor if name in _WRITES else 0]
        file = self._files.state(thread.id, descriptor).file
        return -1 if file is None else file.number

    # -- what becomes of them ------------------------------------------------------------------------

    def _skip_call(self, thread: TracedThread, call: EnteredCall, name: str, finish: Finish) -> Finish:
        """Skip a call and set its result to that of the fault."""
        error, file = _ERRORS[self._fault.kind], self._number(thread, call, name)
        self._injector.cancel_call(thread)

        def answer(_result: int) -> None:
            self._injector.set_register(thread, self._injector.machine.result, -error)
            if self._fault.kind in (FaultKind.FAILED_SYNC, FaultKind.LYING_SYNC):
                self._note_sync(finish, _SUCCESS)
            else:
                self._notes.add(FAULT, str(self._fault.kind), errno.errorcode[error], file=file)

        return answer

    def _note_sync(self, finish: Finish, result: int) -> None:
        """Record the syncs of a call as failed or as lies."""
        kind = FAILED_SYNC if self._fault.kind is FaultKind.FAILED_SYNC else LYING_SYNC
        noted = self._notes.steps
        since = len(noted)
        finish(result)
        noted[since:] = [step if step.kind == WRITE else structs.replace(step, kind=kind) for step in noted[since:]]

    def _run_without_sync(self, thread: TracedThread, call: EnteredCall, finish: Finish) -> Finish:
        """Run a write without its sync."""
        descriptor = call.arguments[0]
        position = self._files.state(thread.id, descriptor).position

        def finish_unsynced(count: int) -> None:
            self._note_sync(finish, count)
            if self._fault.kind is FaultKind.FAILED_SYNC and count > 0:
                self._injector.call(thread, "lseek", descriptor, position, _SEEK_SET)
                self._injector.set_register(thread, self._injector.machine.result, -errno.EIO)

        return finish_unsynced

    def _fail_on_completion(self, thread: TracedThread, submitted: _Submitted, finish: Finish) -> Finish:
        """Change an asynchronous write so that it fails when it completes."""
        ring, request, before, file = submitted
        error = _ERRORS[self._fault.kind]
        request.set_buffer(thread.id, _NOWHERE)

        def finish_failed(accepted: int) -> None:
            request.set_buffer(thread.id, request.buffer)
            finish(accepted)
            if accepted > before:
                met = error if ring.set_result(request.address, -error) else errno.EFAULT
                self._notes.add(FAULT, str(self._fault.kind), errno.errorcode[met], file=file)

        return finish_failed

    def _halve_write(self, thread: TracedThread, call: EnteredCall, name: str, finish: Finish) -> Finish:
        """Halve the number of bytes or buffers that a call writes."""
        amount, file = _WRITES[name].amount, self._number(thread, call, name)
        register, wanted = self._injector.machine.arguments[amount], call.arguments[amount]
        self._injector.set_register(thread, register, wanted // 2)

        def finish_short(count: int) -> None:
            # restored, because the program may rely on unchanged argument registers
            self._injector.set_register(thread, register, wanted)
            unit = "buffers" if name in ("writev", "pwritev", "pwritev2") else "bytes"
            detail = f"{wanted // 2} of {wanted} {unit}"
            self._notes.add(FAULT, str(self._fault.kind), detail, file=file)
            finish(count)

        return finish_short
