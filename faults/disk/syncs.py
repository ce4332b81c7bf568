"""Syncs: they take time, cover what was written before they were submitted, and may fail or lie."""

import errno
from typing import NoReturn

from ...sim.machine import Machine
from ...sim.task import Waiting
from .drive_cache import DriveCache
from .failing_syncs import FailingSyncs
from .fault_injector import DURING, FaultInjector
from .namespace import Namespace
from .page_cache import Inode
from .stray_writes import StrayWrites
from .timing import Timing

_NOTE_RANGE, _NOTE_FAILED, _NOTE_LIED = 4 << 56, 5 << 56, 6 << 56


class SyncWait(Waiting):
    """Waiting for a sync: msync, fdatasync, sync or sync directory of one path."""

    __slots__ = ("kind", "path")

    def __init__(self, kind: str, path: str) -> None:
        super().__init__(f"{kind} {path}")
        self.kind = kind
        self.path = path


class Syncs:
    """The syncs of one disk. The task that asked sleeps until its sync completes; the others run on.

    The caller has passed a scheduling point.
    """

    __slots__ = ("_drive", "_failing", "_injector", "_kernel", "_names", "_stray", "_timing")

    def __init__(self, injector: FaultInjector, names: Namespace, timing: Timing) -> None:
        self._kernel = injector.kernel
        self._injector = injector
        self._names = names
        self._timing = timing
        self._drive = DriveCache(names)
        self._failing = FailingSyncs(injector)
        self._stray = StrayWrites(injector, names)

    def file(self, machine: Machine, why: SyncWait, inode: Inode, start: int, end: int) -> None:
        """Make the pages of [start, end) and the size durable, or raise OSError(EIO) and drop those pages' data."""
        injector = self._injector
        number = self._pass_time(machine, why, inode, start, end)
        faults = injector.faults
        self._kernel.note((_NOTE_RANGE | start, end))
        failing, path = self._failing, why.path
        if failing.come_due(path, inode) or failing.strike(why.label, path, inode, number, start, end):
            self._fail(machine, why, number)
        if self._lies(why) and self._drive.hold_file(inode, number, start, end):
            self._note_lie(number)
        else:
            self._drive.flush()
            if faults.lost_write_chance > 0.0 or faults.misdirected_write_chance > 0.0:
                self._stray.make_durable(path, inode, number, start, end)
            else:
                inode.make_durable(number, start, end)
            self._names.sync_file(inode, number)
        injector.end(machine, why.kind, number)

    def directory(self, machine: Machine, why: SyncWait) -> None:
        """Make durable the names in the directory at why.path, or raise OSError(EIO) and leave them unsure."""
        number = self._pass_time(machine, why, None, 0, 0)
        if self._failing.strike_directory(why.label):
            self._fail(machine, why, number)
        if self._lies(why) and self._drive.hold_directory(why.path, number):
            self._note_lie(number)
        else:
            self._drive.flush()
            self._names.sync_directory(why.path, number)
        self._injector.end(machine, why.kind, number)

    def _fail(self, machine: Machine, why: SyncWait, number: int) -> NoReturn:
        """End a sync that has failed."""
        self._kernel.note((_NOTE_FAILED, number))
        self._failing.stop(why.label)
        self._injector.end(machine, why.kind, number)
        raise OSError(errno.EIO, "Input/output error", why.path)

    def _lies(self, why: SyncWait) -> bool:
        """Draw whether the drive answers a sync before it has done it."""
        chance = self._injector.faults.lying_sync_chance
        return chance > 0.0 and self._injector.stream.chance(chance, f"lying sync {why.label}")

    def _note_lie(self, number: int) -> None:
        self._kernel.note((_NOTE_LIED, number))
        self._injector.fired["lying sync"] += 1

    def _pass_time(self, machine: Machine, why: SyncWait, inode: Inode | None, start: int, end: int) -> int:
        """Submit a sync and sleep until it completes. Returns its number: it covers the operations before that."""
        injector = self._injector
        kernel = self._kernel
        number = injector.begin(machine, why.kind, why.path)
        latency_ns = self._timing.sync_ns(injector, why.label, inode, start, end)
        dying = number == injector.armed and injector.moment == DURING
        if dying:
            latency_ns //= 2
        if latency_ns:
            kernel.park(why, kernel.now_ns + latency_ns)
        if dying:
            injector.pull(machine, why.kind)
        return number
