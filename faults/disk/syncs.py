"""Syncs: they take time, cover what was written before they were submitted, and may fail or lie."""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, Protocol

from ...sim.machine import Machine
from ...sim.tails import draw_tail
from ...sim.task import Waiting
from ..kinds import FaultKind
from .fault_injector import DURING, FaultInjector
from .image import DamagedRange
from .page_cache import Inode
from .volume import Namespace

_NOTE_RANGE, _NOTE_FAILED, _NOTE_LIED = 4 << 56, 5 << 56, 6 << 56


_TAIL = 8


_STOPPED_WITH = {
    "ext4-ordered": errno.EROFS,
    "ext4-data": errno.EROFS,
    "xfs": errno.EIO,
    "btrfs": errno.EROFS,
}


_BEFORE_ALL = -1
"""Number of an operation that was before any other."""


class SyncWait(Waiting):
    """Waiting for a sync: msync, fdatasync, sync or sync directory of one path."""

    __slots__ = ("kind", "path")

    def __init__(self, kind: str, path: str) -> None:
        super().__init__(f"{kind} {path}")
        self.kind = kind
        self.path = path


class Timing(Protocol):
    """What a disk asks how long its syncs take."""

    def sync_ns(self, injector: FaultInjector, label: str, inode: Inode | None, start: int, end: int) -> int:
        """Return the latency, in ns, of a sync of a file's bytes [start, end) that begins now; None: a directory's."""


@dataclass(frozen=True, slots=True)
class SyncTiming:
    """A sync takes base_ns_min to base_ns_max; a slow one, as when a drive collects garbage, much longer.

    Slow ones have a heavy tail: they begin at an eighth of what the fault says they take at most.
    """

    base_ns_min: int = 100_000
    base_ns_max: int = 2_000_000

    def __post_init__(self) -> None:
        assert 0 <= self.base_ns_min <= self.base_ns_max, self

    def sync_ns(self, injector: FaultInjector, label: str, inode: Inode | None, start: int, end: int) -> int:
        """Return one sync's latency in ns, whatever it covers."""
        return self.draw(injector, label)

    def draw(self, injector: FaultInjector, label: str) -> int:
        """Return one sync's latency in ns, the rest of a stall included. What cannot vary is not drawn."""
        stream, faults = injector.stream, injector.faults
        stalled_ns = injector.device.stalled_ns(faults, label) if faults.stall_chance > 0.0 else 0
        if injector.inject_if(faults.slow_sync_chance, FaultKind.SLOW_SYNC, label):
            most_ns = max(faults.slow_sync_ms_max * 1_000_000, self.base_ns_max, 1)
            least_ns = max(most_ns // _TAIL, self.base_ns_max, 1)
            return stalled_ns + draw_tail(stream, least_ns, most_ns, f"slow {label} ns")
        if self.base_ns_min == self.base_ns_max:
            return stalled_ns + self.base_ns_min
        return stalled_ns + stream.between(self.base_ns_min, self.base_ns_max, f"{label} ns")


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
        self._injector.fired[FaultKind.LYING_SYNC] += 1

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


_Saved = tuple[int, int, bytes]
"""What a page of the platter was before a sync of that number wrote it: number, at, data."""


class FailingSyncs:
    """The failures of one disk's syncs."""

    __slots__ = ("_injector", "_journalled")

    def __init__(self, injector: FaultInjector) -> None:
        self._injector = injector
        self._journalled: dict[int, list[_Saved]] = {}
        """By Inode.identity: pages that have reached the journal, and will not reach their place."""

    def strike(self, why: str, path: str, inode: Inode, number: int, start: int, end: int) -> bool:
        """Draw whether a file's sync fails, and do what that does to the file; return whether to raise an error now.

        If not, the sync is to do its work, even if that will be undone. why: the sync, as draws are labelled with.
        """
        injector = self._injector
        faults = injector.faults
        if faults.failed_sync_chance <= 0.0 or not injector.stream.chance(
            faults.failed_sync_chance, f"failed sync {why}"
        ):
            return False
        if faults.failing_sync == "ext4-data":
            self._save(inode, number, start, end)
            return False
        lost = inode.drop(number, start, end)
        injector.fired[FaultKind.FAILED_SYNC] += 1
        if faults.failing_sync == "btrfs":
            for page in sorted(lost):
                injector.damage.append(DamagedRange(path, *inode.revert(page), FaultKind.FAILED_SYNC))
        return True

    def come_due(self, path: str, inode: Inode) -> bool:
        """Undo what an earlier sync of this file left in the journal only; return whether to raise an error for it."""
        saved = self._journalled.pop(inode.identity, None)
        if saved is None:
            return False
        injector = self._injector
        lost = [
            DamagedRange(path, at, at + len(data), FaultKind.LATE_SYNC_ERROR)
            for number, at, data in reversed(saved)
            if inode.take_back(number, at, data)
        ]
        if not lost:
            return False
        injector.damage += lost
        injector.fired[FaultKind.LATE_SYNC_ERROR] += 1
        injector.fired[FaultKind.FAILED_SYNC] += 1
        return True

    def strike_directory(self, label: str) -> bool:
        """Draw whether a directory's sync fails."""
        injector = self._injector
        return injector.inject_if(
            injector.faults.failed_directory_sync_chance, FaultKind.FAILED_DIRECTORY_SYNC, label
        )

    def stop(self, label: str) -> None:
        """Draw whether a failure stops the file system."""
        injector = self._injector
        faults = injector.faults
        if injector.inject_if(faults.stopped_file_system_chance, FaultKind.STOPPED_FILE_SYSTEM, label):
            injector.stopped = _STOPPED_WITH[faults.failing_sync]

    def _save(self, inode: Inode, number: int, start: int, end: int) -> None:
        page_bytes = inode.page_bytes
        durable_bytes = inode.durable_bytes(inode.size_bytes)
        saved = [
            (number, page * page_bytes, durable_bytes[page * page_bytes : (page + 1) * page_bytes])
            for page in inode.covered_pages(number, start, end)
        ]
        if saved:
            self._journalled.setdefault(inode.identity, []).extend(saved)


class DriveCache:
    """What lying syncs have left in one drive's cache, in the order of their answers."""

    __slots__ = ("_held", "_names")

    def __init__(self, names: Namespace) -> None:
        self._names = names
        self._held: list[Callable[[], None]] = []

    def hold_file(self, inode: Inode, upto: int, start: int, end: int) -> bool:
        """Take what a file's sync would make durable; return whether there is anything."""
        grown = self._names.acknowledge_file(inode, upto)
        if not inode.covered_pages(upto, start, end) and not grown:
            return False
        inode.in_drive = (*inode.in_drive, (upto, start, end))

        def secure() -> None:
            inode.make_durable(upto, start, end)
            inode.in_drive = ()
            self._names.sync_file(inode, upto)

        self._held.append(secure)
        return True

    def hold_directory(self, path: str, upto: int) -> bool:
        """Take what a directory's sync would make durable; return whether there is anything."""
        if not self._names.acknowledge_directory(path, upto):
            return False
        self._held.append(lambda: self._names.sync_directory(path, upto))
        return True

    def flush(self) -> None:
        """Make everything in the cache durable."""
        for secure in self._held:
            secure()
        self._held.clear()


class StrayWrites:
    """The writes of one disk that go astray."""

    __slots__ = ("_injector", "_names")

    def __init__(self, injector: FaultInjector, names: Namespace) -> None:
        self._injector = injector
        self._names = names

    def make_durable(self, path: str, inode: Inode, upto: int, start: int, end: int) -> None:
        """Do as Inode.make_durable does, but for the pages whose writes go astray."""
        injector = self._injector
        faults, chance = injector.faults, injector.stream.chance
        page_bytes = inode.page_bytes
        before = inode.durable_bytes(inode.size_bytes)
        stray: list[tuple[int, FaultKind]] = []
        for page in inode.covered_pages(upto, start, end):
            for kind, of_all in (
                (FaultKind.LOST_WRITE, faults.lost_write_chance),
                (FaultKind.MISDIRECTED_WRITE, faults.misdirected_write_chance),
            ):
                if of_all > 0.0 and chance(of_all, f"{kind} {path}#{page}"):
                    stray.append((page, kind))
                    break
        inode.make_durable(upto, start, end)
        after = inode.durable_bytes(inode.size_bytes)
        for page, kind in stray:
            first, last = page * page_bytes, (page + 1) * page_bytes
            if kind == FaultKind.MISDIRECTED_WRITE:
                self._misdirect(path, inode, page, before[first:last], after[first:last])
            elif inode.take_back(_BEFORE_ALL, first, before[first:last]):
                self._note(kind, DamagedRange(path, first, first + len(before[first:last]), kind))

    def _misdirect(self, path: str, inode: Inode, page: int, before: bytes, data: bytes) -> None:
        """Let a page's data arrive at a drawn page of some file, if that is another one; its own is left as it was."""
        label = f"misdirected write {path}#{page}"
        stream, current = self._injector.stream, self._names.current
        sizes = {name: current.files[current.names[name]].size_bytes for name in sorted(current.names)}
        target = stream.pick(
            [name for name, size_bytes in sizes.items() if size_bytes] or [path], f"file of a {label}"
        )
        victim = current.inode(target)
        if victim is None:
            return
        page_bytes = inode.page_bytes
        other = stream.below(-(-victim.size_bytes // page_bytes), f"page of a {label}")
        if victim is inode and other == page:
            return
        first, at = page * page_bytes, other * page_bytes
        end = min(at + page_bytes, victim.size_bytes)
        victim.thaw(0)  # who looks at it from now on sees what the page cache has
        left = inode.take_back(_BEFORE_ALL, first, before)
        hit = victim.take_back(_BEFORE_ALL, at, data[: end - at].ljust(end - at, b"\0"))
        if left or hit:
            self._note(
                FaultKind.MISDIRECTED_WRITE,
                *(
                    [DamagedRange(path, first, first + len(before), FaultKind.MISDIRECTED_WRITE)]
                    if left
                    else ()
                ),
                *([DamagedRange(target, at, end, FaultKind.MISDIRECTED_WRITE)] if hit else ()),
            )

    def _note(self, kind: str, *damage: DamagedRange) -> None:
        self._injector.fired[kind] += 1
        self._injector.damage += damage
