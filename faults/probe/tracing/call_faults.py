"""Faults at calls: one call of a program fails, does less than it was asked for, or claims what it has not done.

A call that is to fail is never made: the thread that is in front of it is sent past it, and finds the error as its
result. A short write is made, of half of what it was to write. Each kind strikes the calls that are known to fail so:

    failed write           EIO     writes to files, of any kind: write, pwrite, writev, sendfile, copy_file_range, ...
    disk full              ENOSPC  the same; there is room again for the next one
    short write            -       the same, if they have two bytes or two buffers to write
    interrupted call       EINTR   the same, truncations, allocations, fsync and fdatasync; nothing is done
    failed creation        ENOSPC  what makes a name: open of a new file, mknod, mkdir, link, symlink
    failed extend          ENOSPC  fallocate
    failed sync            EIO     fsync, fdatasync and msync of a file: its pages are clean, and not durable
    failed directory sync  EIO     fsync and fdatasync of a directory: its names are as unsure as before
    lying sync             0       fsync, fdatasync and msync, of files and directories: nothing is durable yet

Asynchronous writes (io_submit), sync, syncfs, and the syncs that a write with O_DSYNC makes, are never struck. After a
failed sync readers see the new bytes, as under ext4 and xfs.
"""

import errno
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec import structs

from ...kinds import FaultKind
from ..record import FAILED_SYNC, FAULT, LYING_SYNC, Step
from .control import CallFault
from .files import KnownFiles
from .names import NameCalls
from .notes import ProgramNotes
from .ptrace import EnteredCall
from .threads import CallInjector, Finish, TracedThread

_HERE = 2**32 - 100  # AT_FDCWD, as 32 bits
_SUCCESS = 0


class _WriteArguments(NamedTuple):
    """Which arguments of a write are the descriptor and how much to write, in bytes or buffers."""

    descriptor: int
    amount: int


_WRITES = {
    **dict.fromkeys(("write", "writev", "pwrite64", "pwritev", "pwritev2"), _WriteArguments(0, 2)),
    "sendfile": _WriteArguments(0, 3),
    **dict.fromkeys(("splice", "copy_file_range"), _WriteArguments(2, 4)),
}
_SYNCS = ("fsync", "fdatasync")
_INTERRUPTED = ("ftruncate", "truncate", "fallocate", *_SYNCS)
_NAMED_BY = {"open": 0, "creat": 0, "openat": 1, "openat2": 1}
"""Which argument of a call that opens is the path."""
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
CALL_FAULTS = (*_ERRORS, FaultKind.SHORT_WRITE)
"""The kinds that calls can be made to meet."""


class CallFaults:
    """Strikes one call of a program. Asked about each that is recorded, in their order."""

    def __init__(
        self, fault: CallFault, files: KnownFiles, names: NameCalls, notes: ProgramNotes, injector: CallInjector
    ) -> None:
        self._fault = fault
        self._files = files
        self._names = names
        self._notes = notes
        self._injector = injector
        self._met = 0
        """How many calls there were that it could have struck."""
        self._can_strike: Mapping[FaultKind, Callable[[TracedThread, EnteredCall, str], bool]] = {
            FaultKind.FAILED_WRITE: self._is_write,
            FaultKind.DISK_FULL: self._is_write,
            FaultKind.SHORT_WRITE: self._is_write_of_several,
            FaultKind.INTERRUPTED_CALL: self._is_interruptible,
            FaultKind.FAILED_CREATION: self._makes_name,
            FaultKind.FAILED_EXTEND: lambda thread, call, name: name == "fallocate",
            FaultKind.FAILED_SYNC: self._is_file_sync,
            FaultKind.FAILED_DIRECTORY_SYNC: lambda *it: it[2] in _SYNCS and not self._is_file_sync(*it),
            FaultKind.LYING_SYNC: lambda thread, call, name: name in (*_SYNCS, "msync"),
        }
        assert self._can_strike.keys() == set(CALL_FAULTS)

    def finish_of(self, thread: TracedThread, call: EnteredCall, name: str, finish: Finish) -> Finish:
        """Return what notes a call that a thread is in front of: as it would be, or as this one is struck.

        finish: what would note it. The thread then has to go on to the end of the call.
        """
        if not self._can_strike[self._fault.kind](thread, call, name):
            return finish
        self._met += 1
        if self._met != self._fault.nth:
            return finish
        if self._fault.kind is FaultKind.SHORT_WRITE:
            return self._shortened(thread, call, name, finish)
        return self._answered(thread, call, name, finish)

    # -- which calls ---------------------------------------------------------------------------------

    def _is_write(self, thread: TracedThread, call: EnteredCall, name: str) -> bool:
        return name in _WRITES and self._number(thread, call, name) >= 0  # what is printed is no file

    def _is_write_of_several(self, thread: TracedThread, call: EnteredCall, name: str) -> bool:
        return self._is_write(thread, call, name) and call.arguments[_WRITES[name].amount] >= 2

    def _is_interruptible(self, thread: TracedThread, call: EnteredCall, name: str) -> bool:
        return name in _INTERRUPTED or self._is_write(thread, call, name)

    def _is_file_sync(self, thread: TracedThread, call: EnteredCall, name: str) -> bool:
        return name == "msync" or (name in _SYNCS and self._number(thread, call, name) >= 0)

    def _makes_name(self, thread: TracedThread, call: EnteredCall, name: str) -> bool:
        if name not in _NAMED_BY:
            return name in _MAKES
        address = call.arguments[_NAMED_BY[name]]
        place = self._names.place(thread, call.arguments[0] if _NAMED_BY[name] else _HERE, address)
        return place is not None and place.path is not None and not os.path.lexists(place.real)

    def _number(self, thread: TracedThread, call: EnteredCall, name: str) -> int:
        """Return the number of the file that a call is about, by its descriptor; -1 if there is none."""
        by_descriptor = name in _WRITES or name in _SYNCS or name in ("ftruncate", "fallocate")
        if not by_descriptor:
            return -1
        descriptor = call.arguments[_WRITES[name].descriptor if name in _WRITES else 0]
        file = self._files.state(thread.id, descriptor).file
        return -1 if file is None else file.number

    # -- what becomes of them ------------------------------------------------------------------------

    def _answered(self, thread: TracedThread, call: EnteredCall, name: str, finish: Finish) -> Finish:
        """Have a call not made, and answer for it."""
        error, file = _ERRORS[self._fault.kind], self._number(thread, call, name)
        self._injector.cancel_call(thread)

        def answer(_result: int) -> None:
            self._injector.set_register(thread, self._injector.machine.result, -error)
            if self._fault.kind in (FaultKind.FAILED_SYNC, FaultKind.LYING_SYNC):
                self._note_sync(finish)
            else:
                self._notes.add(FAULT, str(self._fault.kind), errno.errorcode[error], file=file)

        return answer

    def _note_sync(self, finish: Finish) -> None:
        """Note the syncs that a call would have made as what they are."""
        kind = FAILED_SYNC if self._fault.kind is FaultKind.FAILED_SYNC else LYING_SYNC
        noted = self._notes.steps
        since = len(noted)
        finish(_SUCCESS)
        noted[since:] = [_as(kind, step) for step in noted[since:]]

    def _shortened(self, thread: TracedThread, call: EnteredCall, name: str, finish: Finish) -> Finish:
        """Have a write do half of what it was to do."""
        amount, file = _WRITES[name].amount, self._number(thread, call, name)
        register, wanted = self._injector.machine.arguments[amount], call.arguments[amount]
        self._injector.set_register(thread, register, wanted // 2)

        def finish_short(count: int) -> None:
            self._injector.set_register(thread, register, wanted)  # its program may rely on that it is kept
            unit = "buffers" if name in ("writev", "pwritev", "pwritev2") else "bytes"
            detail = f"{wanted // 2} of {wanted} {unit}"
            self._notes.add(FAULT, str(self._fault.kind), detail, file=file)
            finish(count)

        return finish_short


def _as(kind: str, step: Step) -> Step:
    return structs.replace(step, kind=kind)
