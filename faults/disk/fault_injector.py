"""Fault injector of one disk: numbers operations, chooses faults, triggers the crash.

A change of the tested code shifts operation numbers. A `CrashPoint` counts operations of one kind on one path since its
trigger was armed, so it stays valid: `msync /store/log/0 #4`.

A stall begins with one operation; later operations wait for its end. Stores and views through a memory map never wait,
because they use only the page cache.

Sources: Hao et al., "The Tail at Store", FAST 2016, for latencies of tens of times the usual; Gunawi et al., "Fail-Slow
at Scale", FAST 2018, for devices and firmware that stop for seconds and resume.
"""

import errno
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import NamedTuple, NoReturn, TypeVar

from isal.isal_zlib import crc32

from ...sim.choices import Stream
from ...sim.errors import MachineDied
from ...sim.kernel import Kernel
from ...sim.machine import Machine, SimTask, WaitReason
from ...sim.magnitudes import draw_duration_ns
from ..kinds import FaultKind
from ..plan import FaultPlan, chances_of
from .image import DamagedRange

T = TypeVar("T")
_NOTE_OPERATION = 3 << 56  # digest words of maps have tags 1 and 2, of syncs 4 to 6, of descriptors 7 and 8
# The number is last, because a path may contain spaces.
_POINT = re.compile(r"(?P<kind>[a-z ]+) (?P<path>/.*|\S+) #(?P<nth>[1-9]\d*)")
_ERROR_TEXTS = {
    errno.EBADF: "Bad file descriptor",
    errno.EBUSY: "Device or resource busy",
    errno.EDQUOT: "Disk quota exceeded",
    errno.EEXIST: "File exists",
    errno.EINVAL: "Invalid argument",
    errno.EIO: "Input/output error",
    errno.EISDIR: "Is a directory",
    errno.ENOENT: "No such file or directory",
    errno.ENOMEM: "Cannot allocate memory",
    errno.ENOSPC: "No space left on device",
    errno.ENOTDIR: "Not a directory",
    errno.ENOTEMPTY: "Directory not empty",
    errno.EROFS: "Read-only file system",
    errno.EWOULDBLOCK: "Resource temporarily unavailable",
}
_SLOW_NS_MIN = 1_000_000
_STALL_NS_MIN = 100_000_000  # longer than a slow operation


class CrashPhase(StrEnum):
    """Crash before, during or after the effect of an operation."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"

    __repr__ = str.__repr__  # a plan prints the value


MOMENTS = tuple(CrashPhase)


class CrashSite(NamedTuple):
    """The operation at which a machine crashed. at: the file offset of a write."""

    kind: str
    path: str
    at: int


class CrashPoint(NamedTuple):
    """The nth operation of one kind on one path, counted from 1."""

    kind: str
    path: str
    nth: int

    def __str__(self) -> str:
        return f"{self.kind} {self.path} #{self.nth}"

    @classmethod
    def parse(cls, text: str) -> "CrashPoint":
        """Parse the output of `str`. ValueError: another text."""
        found = _POINT.fullmatch(text)
        if found is None:
            raise ValueError(f"crash point: expected KIND PATH #N, found {text[:80]}")
        return cls(found["kind"], found["path"], int(found["nth"]))


class InjectedFault(NamedTuple):
    """A fault that a disk has injected, for traces."""

    kind: FaultKind
    place: str
    """The path, or an operation with its path."""
    damage: Sequence[DamagedRange] = ()


class CrashTrigger:
    """Selects the operation to crash at. Invariant: after `selected` is set, no operation is counted."""

    def __init__(self, *, operation: int | None = None, point: CrashPoint | None = None) -> None:
        self.selected: CrashPoint | None = None
        """The operation to crash at, set at its begin."""
        self.times: dict[tuple[str, str], int] = {}
        """Number of operations by kind and path, ordered by first occurrence."""
        self._operation = operation
        self._point = point

    def selects(self, number: int, kind: str, path: str) -> bool:
        """Count an operation. Return whether to crash at this operation."""
        assert self.selected is None, "an operation was counted after the crash"
        place = kind, path
        nth = self.times[place] = self.times.get(place, 0) + 1
        if not self.is_due(number, kind, path, nth):
            return False
        self.selected = CrashPoint(kind, path, nth)
        return True

    def is_due(self, number: int, kind: str, path: str, nth: int) -> bool:
        return number == self._operation or (self._point is not None and self._point == (kind, path, nth))


class FaultInjector:
    """Numbers the operations of a disk and injects faults. injected: counts by kind.

    crash_at: the operation to crash at, or the next one at which to ask the trigger; -1: none.
    """

    __slots__ = (
        *("_chances", "_stalled_until_ns", "aim", "crash_at", "crash_site", "damage", "failed_writes", "faults"),
        *("injected", "kernel", "moment", "operations", "page_in_fault_names", "slow_until_ns", "stopped", "stream"),
        "struck",
    )

    def __init__(self, kernel: Kernel, stream: Stream, faults: FaultPlan) -> None:
        self.kernel = kernel
        self.stream = stream
        self.injected: Counter[str] = Counter()
        self.damage: list[DamagedRange] = []
        self.failed_writes: set[str] = set()
        self._stalled_until_ns = 0
        self.slow_until_ns = 0
        self.operations = 0
        self.stopped = 0
        """errno of all changes after the file system has stopped; else 0."""
        self.crash_at = -1
        self.aim: CrashTrigger | None = None
        self.set_faults(faults)
        self.page_in_fault_names: Collection[str] = ()
        """Names (after the last `/`) of tasks that always allow page-in faults."""
        self.struck: set[SimTask] = set()
        """Tasks that allow page-in faults now."""
        self.moment: str = CrashPhase.BEFORE
        self.crash_site: CrashSite | None = None

    def set_faults(self, faults: FaultPlan) -> None:
        self.faults = faults
        self._chances = chances_of(faults)  # a dict, because most operations read a chance

    def pause(self, machine: Machine, kind: str) -> None:
        """Pass a scheduling point; MachineDied if the machine is dead."""
        kernel = self.kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            self.pause_slowly(machine, kind)

    def pause_slowly(self, machine: Machine, kind: str) -> None:
        """Pass a scheduling point without fuel. Hot paths inline the fuel test of `pause`."""
        self.kernel.reschedule(kind)
        if not machine.alive:
            raise MachineDied(machine.name)

    def inject_if(self, fault: FaultKind, label: str, chance: float | None = None) -> bool:
        """Decide randomly whether to inject a fault, and count it. chance: replaces the plan's chance; 0 and 1 are
        certain.
        """
        if chance is None:
            chance = self._chances.get(fault, 0.0)
        if chance <= 0.0 or not self.stream.chance(chance, f"{fault} {label}"):
            return False
        self.count_fault(fault, label)
        return True

    def count_fault(self, fault: FaultKind, place: str, damage: Sequence[DamagedRange] = ()) -> None:
        """Count a fault, and record the ranges that it damaged. place: see `InjectedFault`."""
        self.injected[fault] += 1
        self.damage += damage
        if self.kernel.trace is not None:
            self.kernel.trace.emit(InjectedFault(fault, place, damage))

    def writable_bytes(self, path: str, size_bytes: int) -> int:
        """Return how many bytes a descriptor write writes, at least 1. OSError(EIO): the operation fails."""
        if self.inject_if(FaultKind.FAILED_WRITE, path):
            self.failed_writes.add(path)
            raise os_error(errno.EIO, path)
        if size_bytes > 1 and self.inject_if(FaultKind.SHORT_WRITE, path):
            # The default is one missing byte, the smallest deviation.
            missing = f"bytes missing in a short write {path}"
            return size_bytes - self.stream.randint(1, size_bytes - 1, missing)
        return size_bytes

    def fail_by_chance(self, fault: FaultKind, path: str) -> None:
        """Raise OSError(EIO) with the chance of the plan."""
        if fault in self._chances and self.inject_if(fault, path):
            raise os_error(errno.EIO, path)

    def wait_for_device(self, kind: str, path: str) -> None:
        faults = self.faults
        if faults.slow_io_chance > 0.0 or faults.stall_chance > 0.0:
            label = f"{kind} {path}"
            delay_ns = self.stalled_ns(label)
            if self.inject_if(FaultKind.SLOW_IO, label):
                delay_ns += self.draw_ns(_SLOW_NS_MIN, faults.slow_io_ms_max, f"slow {label}")
            if delay_ns:
                self.kernel.park(WaitReason(label), self.kernel.now_ns + delay_ns)

    @property
    def may_have_page_in_faults(self) -> bool:
        task = self.kernel.current
        return task in self.struck or task.name.rpartition("/")[2] in self.page_in_fault_names

    def wait_for_page(self, path: str) -> None:
        delay_ns = self.draw_ns(_SLOW_NS_MIN, self.faults.slow_io_ms_max, f"slow page-in {path}")
        self.kernel.park(WaitReason(f"page-in {path}"), self.kernel.now_ns + delay_ns)

    def pause_for_device(self, machine: Machine, kind: str, path: str) -> None:
        self.pause(machine, kind)
        self.wait_for_device(kind, path)

    def stalled_ns(self, label: str) -> int:
        faults, now_ns = self.faults, self.kernel.now_ns
        if now_ns >= self._stalled_until_ns and self.inject_if(FaultKind.STALLED_DEVICE, label):
            lasts_ns = self.draw_ns(_STALL_NS_MIN, faults.stall_ms_max, f"stall {label}")
            assert lasts_ns > 0, lasts_ns
            self._stalled_until_ns = now_ns + lasts_ns
        return max(0, self._stalled_until_ns - now_ns)

    def draw_ns(self, least_ns: int, most_ms: int, label: str) -> int:
        """Return a random duration from least_ns, the default, to most_ms. It begins after a stall."""
        lasts_ns = draw_duration_ns(self.stream, least_ns, most_ms, label, self.kernel.landmarks_ms)
        begins_ns = max(self.kernel.now_ns, self._stalled_until_ns)
        self.slow_until_ns = max(self.slow_until_ns, begins_ns + lasts_ns)
        return lasts_ns

    def wall_ns(self, machine: Machine) -> int:
        return self.kernel.now_ns + machine.wall_offset_ms * 1_000_000

    def begin_operation(self, machine: Machine, kind: str, path: str) -> int:
        """Count an operation and return its number. MachineDied: the crash is before the operation's effect.

        The caller has passed a scheduling point and checked the operation.
        """
        if self.stopped:
            raise os_error(self.stopped, path)
        kernel = self.kernel
        kernel.note((_NOTE_OPERATION | crc32(kind.encode()), crc32(path.encode())))
        if kernel.trace is not None:
            kernel.trace.add_event(kind, path)
        number = self.operations
        self.operations = number + 1
        if number == self.crash_at and self.is_crash_due(number, kind, path) and self.moment == CrashPhase.BEFORE:
            self.crash_now(machine, kind)
        return number

    def is_crash_due(self, number: int, kind: str, path: str, at: int = 0) -> bool:
        """Return whether to crash at operation crash_at. If not, increment crash_at."""
        if self.aim is not None and not self.aim.selects(number, kind, path):
            self.crash_at = number + 1  # without a trigger, operations only compare numbers
            return False
        self.aim = None
        self.crash_site = CrashSite(kind, path, at)
        return True

    def check_readable(self, path: str) -> None:
        """Raise EIO after a shutdown. A read-only file system stays readable."""
        if self.stopped == errno.EIO:
            raise os_error(self.stopped, path)

    def check_look_up(self, path: str) -> None:
        """Raise OSError after a shutdown or by chance."""
        self.check_readable(path)
        self.fail_by_chance(FaultKind.FAILED_LOOK_UP, path)

    def begin_atomic(self, machine: Machine, kind: str, path: str) -> int:
        """Begin an atomic operation.

        A crash during the operation happens randomly before or after its effect.
        """
        number = self.begin_operation(machine, kind, path)
        dying = number == self.crash_at and self.moment == CrashPhase.DURING
        if dying and self.stream.chance(0.5, f"{kind} {path} had no effect"):
            self.crash_now(machine, kind)
        return number

    def run_atomic_operation(
        self, machine: Machine, kind: str, path: str, change: Callable[..., T], *arguments: object
    ) -> T:
        """Execute an atomic operation. change: called with the number of the operation and the arguments."""
        number = self.begin_atomic(machine, kind, path)
        result = change(number, *arguments)
        self.end_operation(machine, kind, number)
        return result

    def begin_growth(self, machine: Machine, path: str, before_bytes: int, after_bytes: int) -> tuple[int, int]:
        """Begin to allocate space. Return the operation number and the new length, which is shorter if a crash
        interrupts.
        """
        number = self.begin_atomic(machine, "extend", path)
        dying = number == self.crash_at and self.moment == CrashPhase.DURING
        if dying and after_bytes - before_bytes > 1 and self.inject_if(FaultKind.PARTIAL_EXTEND, path, 0.5):
            most_bytes = after_bytes - before_bytes - 1
            grown_bytes = after_bytes - self.stream.randint(1, most_bytes, f"bytes not allocated {path}")
            assert before_bytes < grown_bytes < after_bytes, (path, before_bytes, grown_bytes, after_bytes)
            return number, grown_bytes
        return number, after_bytes

    def end_operation(self, machine: Machine, kind: str, number: int) -> None:
        """End an operation. MachineDied: the crash is after the operation's effect."""
        if number == self.crash_at:
            self.crash_now(machine, kind)

    def crash_now(self, machine: Machine, kind: str) -> NoReturn:
        """Crash the machine during an operation. Always raises MachineDied."""
        self.injected[f"crash {self.moment} {kind}"] += 1
        self.crash_at = -1  # the next machine may mount the same disk
        self.kernel.kill(machine)
        raise MachineDied(machine.name)

    def signal_bus_error(self, machine: Machine, fault: FaultKind, path: str) -> NoReturn:
        """Kill the process by SIGBUS: a page is unavailable. Always raises MachineDied."""
        self.count_fault(fault, path)
        self.kernel.kill(machine)
        raise MachineDied(machine.name)


def os_error(code: int, path: str) -> OSError:
    return OSError(code, _ERROR_TEXTS[code], path)
