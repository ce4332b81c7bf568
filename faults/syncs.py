"""Syncs: they take time, cover what was written before they were submitted, and may fail."""

import errno

from ..sim.machine import Machine
from ..sim.task import Waiting
from .namespace import Namespace
from .page_cache import Inode
from .plug import DURING, Plug
from .timing import SyncTiming

_NOTE_RANGE, _NOTE_FAILED = 4 << 56, 5 << 56


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

    __slots__ = ("_kernel", "_names", "_plug", "_timing")

    def __init__(self, plug: Plug, names: Namespace, timing: SyncTiming) -> None:
        self._kernel = plug.kernel
        self._plug = plug
        self._names = names
        self._timing = timing

    def file(self, machine: Machine, why: SyncWait, inode: Inode, start: int, end: int) -> None:
        """Make the pages of [start, end) and the size durable, or raise OSError(EIO) and drop those pages' data."""
        plug = self._plug
        number = self._pass_time(machine, why)
        self._kernel.note(_NOTE_RANGE | start, end)
        if plug.strikes(plug.faults.failed_sync_chance, "failed sync", why.label):
            inode.drop(number, start, end)
            self._kernel.note(_NOTE_FAILED, number)
            plug.end(machine, why.kind, number)
            raise OSError(errno.EIO, "Input/output error", why.path)
        inode.make_durable(number, start, end)
        self._names.sync_file(inode, number)
        plug.end(machine, why.kind, number)

    def directory(self, machine: Machine, why: SyncWait) -> None:
        """Make durable the names in the directory at why.path."""
        number = self._pass_time(machine, why)
        self._names.sync_directory(why.path, number)
        self._plug.end(machine, why.kind, number)

    def _pass_time(self, machine: Machine, why: SyncWait) -> int:
        """Submit a sync and sleep until it completes. Returns its number: it covers the operations before that."""
        plug = self._plug
        kernel = self._kernel
        number = plug.begin(machine, why.kind, why.path)
        latency_ns = self._timing.draw(plug, why.label)
        dying = number == plug.armed and plug.moment == DURING
        if dying:
            latency_ns //= 2
        if latency_ns:
            kernel.park(why, kernel.now_ns + latency_ns)
        if dying:
            plug.pull(machine, why.kind)
        return number
