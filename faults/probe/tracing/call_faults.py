"""Faults at system calls: make calls fail, write less, or report a false success.

To fail a call, the recorder skips it and sets the error as its result. A short write writes half of the data, or the
fraction in the rule. A torn write (write, pwrite, writev, pwritev or pwritev2) writes this fraction and then returns
EIO. If the rule has a disk capacity, the write that exceeds it is short, as on a file system, and later calls that
write, extend or create files fail. docs/probe-faults.md has the calls of each kind of fault.

sync(2) cannot report an error. If the sync of an O_DSYNC write fails, the data is written, but the call returns the
error and does not move the file position, as in Linux. After a failed sync readers see the new bytes, as on ext4 and
xfs.

To fail an asynchronous write (io_submit), the recorder gives it an invalid buffer. The kernel completes the write with
EFAULT, which the recorder replaces by the fault's error. If another thread reads the result earlier, it gets EFAULT,
and the record says so. Only the first write of an io_submit call can fail, but not its sync.
"""

import errno
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import NamedTuple, Protocol

from msgspec import structs

from ...kinds import FaultKind
from ..record import FAILED_SYNC, FAULT, LYING_SYNC, WRITE
from . import ptrace
from .call_paths import MAKES, OPENS, SYNCS, VECTORS, WRITES, CallPaths, FileCall, SubmittedWrite
from .control import ALL_CALLS, CALL_FAULTS, CallFault, MatchedCall, RunControl, glob_matches
from .files import KnownFiles
from .names import NameCalls
from .notes import ProgramNotes
from .threads import CallInjector, Finish, TracedThread

_SUCCESS = 0
_buffer = struct.Struct("<8xQ")
_BUFFER_SIZE_AT = 8
_MAY_LIE = (*SYNCS, "msync")
_MAY_SYNC = ("write", "writev", "pwrite64", "pwritev", "pwritev2")
_RWF_SYNCS = 2 | 4  # RWF_DSYNC, RWF_SYNC
_NOWHERE = 0
_INTERRUPTED = ("ftruncate", "truncate", "fallocate", *SYNCS)
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


class CallChange(Protocol):
    """Changes the arguments or the result of one system call."""

    def skip_call(self) -> None:
        """Make the call return without executing it."""

    def set_argument(self, index: int, value: int, /) -> None: ...

    def set_result(self, result: int, /) -> None: ...

    def set_position(self, fd: int, position: int, /) -> None:
        """Set the file position of a descriptor."""


class RegisterChange(NamedTuple):
    """Changes a system call through the registers of its thread."""

    injector: CallInjector
    thread: TracedThread

    def skip_call(self) -> None:
        self.injector.cancel_call(self.thread)

    def set_argument(self, index: int, value: int) -> None:
        self.injector.set_register(self.thread, self.injector.machine.arguments[index], value)

    def set_result(self, result: int) -> None:
        self.injector.set_register(self.thread, self.injector.machine.result, result)

    def set_position(self, fd: int, position: int) -> None:
        self.injector.call(self.thread, "lseek", fd, position, os.SEEK_SET)


@dataclass(slots=True)
class _ActiveFault:
    """A fault to inject. calls: the number of matching calls so far."""

    fault: CallFault
    calls: int = 0
    injections: int = 0

    def meets_call(self) -> bool:
        """Count a matching call. Return whether to inject the fault at this call."""
        self.calls += 1
        return self.fault.nth in (ALL_CALLS, self.calls)


class CallFaults:
    """Injects faults into a program, or lists the calls to which faults apply.

    The recorder calls it once for each recorded call. matched: the listed calls, or the calls at which the control's
    fault was injected. If several faults apply to one call, the first one is injected.
    """

    def __init__(
        self, control: RunControl, files: KnownFiles, names: NameCalls, notes: ProgramNotes, injector: CallInjector
    ) -> None:
        self._fault = control.fault
        self._active = [] if control.fault is None else [_ActiveFault(control.fault)]
        self._listed = control.listed
        self._files = files
        self._paths = CallPaths(files, names)
        self._notes = notes
        self._injector = injector
        self.matched: list[MatchedCall] = []
        self._can_strike: Mapping[FaultKind, Callable[[FileCall], bool]] = {
            FaultKind.FAILED_WRITE: lambda call: self._is_write(call) or self._paths.submitted(call) is not None,
            FaultKind.DISK_FULL: lambda call: self._is_write(call) or self._paths.submitted(call) is not None,
            FaultKind.SHORT_WRITE: lambda call: self._is_write(call) and call.amount >= 2,
            FaultKind.INTERRUPTED_CALL: lambda call: call.name in _INTERRUPTED or self._is_write(call),
            FaultKind.FAILED_CREATION: self._makes_name,
            FaultKind.FAILED_EXTEND: lambda call: call.name == "fallocate",
            FaultKind.FAILED_SYNC: self._can_fail_to_sync,
            FaultKind.FAILED_DIRECTORY_SYNC: lambda call: call.name in SYNCS and not self._is_file_sync(call),
            FaultKind.LYING_SYNC: lambda call: call.name in _MAY_LIE or self._is_synced_write(call),
        }
        assert self._can_strike.keys() == set(CALL_FAULTS)

    def finish_for_call(self, call: FileCall, finish: Finish, change: CallChange | None = None) -> Finish:
        """Before a system call, inject a matching fault. Return the function to call after the system call.

        finish: the function that records the call without a fault. The thread must then run to the end of the call.
        change: changes an io_uring request; None: the call is a system call.
        """
        for kind in self._listed:
            if self._can_strike[kind](call):
                self._note_match(kind, call)
        applying = [one for one in self._active if self._fault_applies(one.fault, call)]
        due = [one for one in applying if one.meets_call()]
        if not due:
            return finish
        change = change or RegisterChange(self._injector, call.thread)
        if self._bytes_left(due[0].fault) > 0:
            return self._cut_at_limit(due[0], call, finish, change)
        self._note_injection(due[0], call)
        return self._inject(due[0].fault, call, finish, change)

    def add(self, fault: CallFault) -> None:
        """Start to inject a fault that the program has requested."""
        self._active.append(_ActiveFault(fault))

    @property
    def asked_by_program(self) -> list[tuple[str, int]]:
        """Return the rules that the program requested, each with its number of injections."""
        return [(str(one.fault), one.injections) for one in self._active if one.fault is not self._fault]

    def _note_injection(self, active: _ActiveFault, call: FileCall) -> None:
        active.injections += 1
        if active.fault is self._fault:
            self._note_match(active.fault.kind, call)

    def _note_match(self, kind: FaultKind, call: FileCall) -> None:
        self.matched.append(MatchedCall(kind, self._paths.path(call), call.name, call.thread.stack))

    def _inject(self, fault: CallFault, call: FileCall, finish: Finish, change: CallChange) -> Finish:
        kind = fault.kind
        if kind is FaultKind.SHORT_WRITE or fault.part is not None:
            return self._cut_write(fault, call, finish, change)
        if (submitted := self._paths.submitted(call)) is not None:
            return self._fail_on_completion(kind, call.thread, submitted, finish)
        if kind in (FaultKind.FAILED_SYNC, FaultKind.LYING_SYNC) and call.name in WRITES:
            return self._run_without_sync(kind, call, finish, change)
        return self._skip_call(kind, call, finish, change)

    # -- matching of calls ---------------------------------------------------------------------------

    def _fault_applies(self, fault: CallFault, call: FileCall) -> bool:
        if fault.after_bytes is not None:
            left = self._bytes_left(fault)
            crosses = left > 0 and self._wanted_bytes(call) > left
            applies = crosses or (left <= 0 and self._needs_space(call))
        elif fault.part is not None:
            names = WRITES if fault.kind is FaultKind.SHORT_WRITE else _MAY_SYNC
            applies = call.name in names and self._is_write(call) and _kept_amount(fault, call) > 0
        else:
            applies = self._can_strike[fault.kind](call)
        return applies and (fault.glob == "*" or glob_matches(fault.glob, self._paths.path(call)))

    def _needs_space(self, call: FileCall) -> bool:
        kinds = (FaultKind.DISK_FULL, FaultKind.FAILED_CREATION, FaultKind.FAILED_EXTEND)
        return any(self._can_strike[kind](call) for kind in kinds)

    def _bytes_left(self, fault: CallFault) -> int:
        """Return the number of bytes until the disk of a disk-full fault is full; 0 for other faults."""
        return 0 if fault.after_bytes is None else fault.after_bytes - self._notes.data_bytes

    def _wanted_bytes(self, call: FileCall) -> int:
        """Return the number of bytes that a call would write to a file."""
        if (submitted := self._paths.submitted(call)) is not None:
            return submitted.request.size_bytes
        if not self._is_write(call):
            return 0
        return sum(_buffer_sizes(call)) if call.name in VECTORS else call.amount

    def _is_write(self, call: FileCall) -> bool:
        # -1 if the descriptor is standard output
        return call.name in WRITES and self._paths.file_number(call) >= 0

    def _is_file_sync(self, call: FileCall) -> bool:
        return call.name == "msync" or (call.name in SYNCS and self._paths.file_number(call) >= 0)

    def _can_fail_to_sync(self, call: FileCall) -> bool:
        return call.name == "syncfs" or self._is_file_sync(call) or self._is_synced_write(call)

    def _is_synced_write(self, call: FileCall) -> bool:
        if call.name not in _MAY_SYNC or not self._is_write(call):
            return False
        asks = call.name == "pwritev2" and call.arguments[5] & _RWF_SYNCS
        return bool(asks or self._files.descriptor_state(call.thread.id, call.arguments[0]).flags & os.O_DSYNC)

    def _makes_name(self, call: FileCall) -> bool:
        if call.name not in OPENS:
            return call.name in MAKES
        place = self._paths.place(call)
        return place is not None and place.path is not None and not os.path.lexists(place.real)

    # -- injection -----------------------------------------------------------------------------------

    def _skip_call(self, kind: FaultKind, call: FileCall, finish: Finish, change: CallChange) -> Finish:
        """Skip a call and return the fault's error."""
        error, file = _ERRORS[kind], self._paths.file_number(call)
        change.skip_call()

        def answer(_result: int) -> None:
            change.set_result(-error)
            if kind in (FaultKind.FAILED_SYNC, FaultKind.LYING_SYNC):
                self._note_sync(kind, finish, _SUCCESS)
            else:
                self._notes.add(FAULT, str(kind), errno.errorcode[error], file=file)

        return answer

    def _note_sync(self, kind: FaultKind, finish: Finish, result: int) -> None:
        """Record the syncs of a call as failed or as falsely successful."""
        noted_as = FAILED_SYNC if kind is FaultKind.FAILED_SYNC else LYING_SYNC
        noted = self._notes.steps
        since = len(noted)
        finish(result)
        noted[since:] = [step if step.kind == WRITE else structs.replace(step, kind=noted_as) for step in noted[since:]]

    def _run_without_sync(self, kind: FaultKind, call: FileCall, finish: Finish, change: CallChange) -> Finish:
        position = self._files.descriptor_state(call.thread.id, call.arguments[0]).position

        def finish_unsynced(count: int) -> None:
            self._note_sync(kind, finish, count)
            if kind is FaultKind.FAILED_SYNC and count > 0:
                _fail_after_write(call, position, change)

        return finish_unsynced

    def _fail_on_completion(
        self, kind: FaultKind, thread: TracedThread, submitted: SubmittedWrite, finish: Finish
    ) -> Finish:
        """Change an asynchronous write so that it completes with an error."""
        ring, request, before, file = submitted
        error = _ERRORS[kind]
        request.set_buffer(thread.id, _NOWHERE)

        def finish_failed(accepted: int) -> None:
            request.set_buffer(thread.id, request.buffer)
            finish(accepted)
            if accepted > before:
                met = error if ring.set_result(request.address, -error) else errno.EFAULT
                self._notes.add(FAULT, str(kind), errno.errorcode[met], file=file)

        return finish_failed

    def _cut_write(self, fault: CallFault, call: FileCall, finish: Finish, change: CallChange) -> Finish:
        """Make a call write only a part of its bytes or buffers. A failed write then returns EIO."""
        amount, file = WRITES[call.name].amount, self._paths.file_number(call)
        wanted = call.amount
        kept, fails = _kept_amount(fault, call), fault.kind is FaultKind.FAILED_WRITE
        position = self._files.descriptor_state(call.thread.id, call.arguments[0]).position if fails else 0
        change.set_argument(amount, kept)

        def finish_short(count: int) -> None:
            # programs may rely on unchanged argument registers
            change.set_argument(amount, wanted)
            unit = "buffers" if call.name in VECTORS else "bytes"
            detail = f"{'EIO after ' if fails else ''}{kept} of {wanted} {unit}"
            self._notes.add(FAULT, str(fault.kind), detail, file=file)
            finish(count)
            if fails and count > 0:
                _fail_after_write(call, position, change)

        return finish_short

    def _cut_at_limit(self, active: _ActiveFault, call: FileCall, finish: Finish, change: CallChange) -> Finish:
        """Make a call write only the bytes that fit on the disk."""
        left = self._bytes_left(active.fault)
        wanted = self._wanted_bytes(call)
        submitted = self._paths.submitted(call)
        file = self._paths.file_number(call) if submitted is None else submitted.file
        if submitted is not None:
            submitted.request.set_size(call.thread.id, left)
            restore: Callable[[], None] = partial(submitted.request.set_size, call.thread.id, wanted)
        elif call.name in VECTORS:
            restore = _cut_buffers(left, call, change)
        else:
            restore = _set_amount(left, call, change)

        def finish_cut(result: int) -> None:
            restore()  # programs may rely on unchanged arguments
            if result == left or (submitted is not None and result > submitted.before):
                self._note_injection(active, call)
                self._notes.add(FAULT, str(FaultKind.DISK_FULL), f"{left} of {wanted} bytes", file=file)
            finish(result)

        return finish_cut


def _set_amount(amount: int, call: FileCall, change: CallChange) -> Callable[[], None]:
    """Change the size argument of a call. Return a function that restores the argument."""
    index = WRITES[call.name].amount
    change.set_argument(index, amount)
    return partial(change.set_argument, index, call.amount)


def _cut_buffers(left: int, call: FileCall, change: CallChange) -> Callable[[], None]:
    """Shorten the buffers of a call to this total size. Return a function that restores the buffers."""
    sizes = _buffer_sizes(call)
    ends = list(accumulate(sizes))
    last = next(number for number, end in enumerate(ends) if end >= left)
    place = call.arguments[1] + last * _buffer.size + _BUFFER_SIZE_AT
    kept = left - (ends[last] - sizes[last])
    ptrace.write_memory(call.thread.id, place, kept.to_bytes(8, "little"))
    restore_amount = _set_amount(last + 1, call, change)

    def restore() -> None:
        ptrace.write_memory(call.thread.id, place, sizes[last].to_bytes(8, "little"))
        restore_amount()

    return restore


def _buffer_sizes(call: FileCall) -> list[int]:
    """Return the sizes of a call's buffers (struct iovec), or an empty list for invalid arguments."""
    try:
        raw = ptrace.read_memory(call.thread.id, call.arguments[1], call.arguments[2] * _buffer.size)
    except OSError:
        return []
    return [size for (size,) in _buffer.iter_unpack(raw)]


def _fail_after_write(call: FileCall, position: int, change: CallChange) -> None:
    """Replace the result of a completed write by EIO, and restore the file position before the write."""
    change.set_position(call.arguments[0], position)
    change.set_result(-errno.EIO)


def _kept_amount(fault: CallFault, call: FileCall) -> int:
    kept, whole = fault.part or (1, 2)
    return call.amount * kept // whole
