"""Simulation: runs storage code on one disk, by several machines in turn.

A scenario is a function of one Simulation. It runs machines one after another, with a crash or a clean stop between two
machines. Each machine runs a function that opens the storage under test, uses it and judges its content. The scenario
sets the number of file operations within which a machine crashes.

    def scenario(run: Simulation) -> None:
        run.live("first", use, crash_within=200)
        run.live("second", judge)

`trials` runs the function with many seeds, `record` replays it, `shrink` and `explore` use it too.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

from ...sim.attribute_points import STEPS_TIMES, attribute_points
from ...sim.choices import Choices, Stream
from ...sim.errors import MachineDied
from ...sim.kernel import Kernel
from ...sim.machine import Machine, SimClock, SimTasks
from ...sim.policies import Policy
from ...sim.shared_attributes import SharedAttribute, Source, shared_attributes
from ...sim.trace import Trace
from ..crashes.profiles import NOTHING_LOST, PROFILES, crash_kinds
from ..disk.disk import Disk
from ..disk.fault_injector import MOMENTS, CrashPhase, CrashPoint, CrashTrigger
from ..disk.files import SimFiles
from ..disk.syncs import SyncTiming
from ..plan import NO_FAULTS, FaultPlan, enabled_kinds
from .disk_lifecycle import PROCESS_KILL, DiskLifecycle, Rot, without_rot

T = TypeVar("T")
STEP_LIMIT = 1_000_000
"""Steps after which a run counts as endless. The longest of a correct program take about 500,000."""
TIME_LIMIT_NS = 3_600 * 1_000_000_000
TORN_SECTORS = "torn-sectors"
# PROFILES has torn-sectors too. It counts twice because no other profile tears a write shorter than a sector, and half
# of these tears vanish with the length of the file.
CRASHES = (*(name for name in PROFILES if name != NOTHING_LOST), TORN_SECTORS)
DISK_STREAM = "disk of "
"""Prefix of the name of a disk's random stream, before the name of the first machine on the disk."""
TAKEN = "taken"
"""Label suffix of the random choice whether a workload step runs."""


class SimWorld(NamedTuple):
    """The whole environment of the code under test, whose other imports must be pure."""

    clock: SimClock
    tasks: SimTasks
    files: SimFiles


class WorldTrace(Trace, ABC):
    """A trace of the calls from the code under test to its world."""

    @abstractmethod
    def watch(self, machine: Machine, disk: Disk, tasks: Any, files: Any) -> tuple[Any, Any]: ...


class Crash(NamedTuple):
    """The crash of a machine."""

    life: str
    profile: str
    """Name of the crash profile."""
    moment: str
    point: str
    """The operation as the text of a `CrashPoint`. Empty: at the end of the machine's function."""

    def __str__(self) -> str:
        where = f"{self.moment} {self.point}" if self.point else "at its end"
        return f"{self.life}: {self.profile}, {where}"


Scenario = Callable[["Simulation"], None]


class _PlannedCrash(NamedTuple):
    """A machine with a planned crash at one operation of its disk."""

    disk: Disk
    crash: Crash


class Simulation:
    """One run. All random values come from `choices`, and all task switches from the policy.

    crashes: the crashes of machines; None: random. Changed faults, timing and capacity_bytes apply to the next new
    disk, after a power cut or a clean stop.
    """

    def __init__(
        self,
        choices: Choices,
        policy: Policy,
        *,
        crashes: Sequence[Crash] | None = None,
        trace: Trace | None = None,
        step_limit: int | None = None,
    ) -> None:
        self.choices = choices
        self.policy = policy
        self.kernel = Kernel(policy, step_limit=step_limit or STEP_LIMIT, trace=trace)
        self.faults = NO_FAULTS
        self.timing = SyncTiming()
        self.capacity_bytes: int | None = None
        self.triggers: dict[str, CrashTrigger] = {}
        """The crash trigger of each machine. A trigger set before `arm` takes precedence over a planned crash."""
        self.on_crash: Callable[[str, Disk], None] | None = None
        """Called at a planned crash, with the machine's name and disk."""
        self.promises: Counter[str] = Counter()
        """Number of checks of each promise and of occurrences of each event. 0: the event's condition was always
        false.
        """
        self._attributes: tuple[SharedAttribute, ...] = ()
        self._armed: dict[str, _PlannedCrash] = {}
        self._recorded = None if crashes is None else {crash.life: crash for crash in crashes}
        self._crashes: dict[str, Crash] = {}
        self._lifecycles: list[DiskLifecycle] = []
        self._disks = self.lifecycle()
        self._enabled: dict[str, None] = {}
        self.crash_profiles: dict[str, None] = {}
        """Crash profiles that `live` may have selected, in order of first use."""

    @property
    def landmarks_ms(self) -> Sequence[int]:
        """Durations in ms that the code under test uses, such as timeouts.

        One delay in four has one of these durations, or differs by 1 ms.
        """
        return self.kernel.landmarks_ms

    @landmarks_ms.setter
    def landmarks_ms(self, landmarks_ms: Sequence[int]) -> None:
        self.kernel.landmarks_ms = landmarks_ms

    # -- plain attributes ------------------------------------------------------------------------------

    def switch_at_attributes(self, *sources: Source) -> None:
        """Make accesses to plain attributes scheduling points on all later machines, to find races between threads.

        sources: classes, or modules for all of their classes. Attributes that cannot race are omitted. ValueError: the
        code of a source is unreadable.
        """
        if not self._attributes:  # repeated calls must not multiply the limit again
            self.kernel.raise_step_limit(STEPS_TIMES)
        self._attributes = shared_attributes(*sources)

    def with_attribute_points(self) -> AbstractContextManager[None]:
        """Return a context manager that makes accesses to these attributes scheduling points."""
        return attribute_points(self.kernel, self._attributes)

    # -- machines on disks ------------------------------------------------------------------------------

    def lifecycle(
        self, *, faults: FaultPlan | None = None, timing: SyncTiming | None = None, rot: Rot = without_rot
    ) -> DiskLifecycle:
        lifecycle = DiskLifecycle(self.kernel, self.choices.stream, faults=faults, timing=timing, rot=rot)
        self._lifecycles.append(lifecycle)
        return lifecycle

    def planned_crash(self, drawn: Crash, unrecorded: Crash) -> Crash:
        """Return the crash of a machine: `drawn`, or the recorded one in a replay.

        unrecorded: for a replay without a recorded crash of the machine.
        """
        return drawn if self._recorded is None else self._recorded.get(drawn.life, unrecorded)

    def arm_crash(self, disk: Disk, crash: Crash, operation: int | None, *, aimed: CrashTrigger | None = None) -> None:
        """Arm the crash of a machine. operation: number of operations until a crash without a point.

        aimed: selects the operation of a crash without a point instead, except in a replay.
        """
        assert operation is None or operation >= 0, operation
        trigger = self.triggers.get(crash.life)
        if trigger is None:
            point = CrashPoint.parse(crash.point) if crash.point else None
            number = None if operation is None or self._recorded is not None else disk.operations + operation
            trigger = CrashTrigger(operation=number, point=point)
            if aimed is not None and number is not None and point is None:
                trigger = aimed
            self.triggers[crash.life] = trigger
        disk.arm_trigger(trigger, crash.moment)
        self._armed[crash.life] = _PlannedCrash(disk, crash)

    def disk_of(self, life: str) -> Disk:
        return self._armed[life].disk

    def note_crash(self, crash: Crash) -> None:
        """Record the crash of a machine at the operation of its trigger. Later calls have no effect."""
        if self.on_crash is not None and crash.life in self._armed and crash.life not in self._crashes:
            self.on_crash(crash.life, self._armed[crash.life].disk)
        trigger = self.triggers.get(crash.life)
        met = None if trigger is None else trigger.selected
        self._crashes.setdefault(crash.life, crash._replace(point="" if met is None else str(met)))

    @property
    def crashes(self) -> tuple[Crash, ...]:
        """All crashes, oldest first, including a crash that aborted the run before `note_crash`."""
        met = {
            life: self._armed[life].crash._replace(point=str(trigger.selected))
            for life, trigger in self.triggers.items()
            if trigger.selected is not None and life not in self._crashes
        }
        return (*self._crashes.values(), *met.values())

    @property
    def operations(self) -> dict[str, dict[tuple[str, str], int]]:
        """Operations by kind and path, for each machine with a trigger."""
        return {life: trigger.times for life, trigger in self.triggers.items()}

    @property
    def injected(self) -> Counter[str]:
        """How often each fault (by its name in `kinds`), promise and event occurred."""
        return sum((lifecycle.injected for lifecycle in self._lifecycles), +self.promises)

    @property
    def enabled(self) -> tuple[str, ...]:
        """The possible faults, and the reached promises and events.

        Possible faults are those of the fault plans, and the losses of a crash after the executed operations.
        """
        operations = {kind for trigger in self.triggers.values() for kind, _ in trigger.times}
        profiles = [PROFILES[name] for name in self.crash_profiles]
        faults = [*self._enabled, *crash_kinds(operations, profiles)]
        return tuple(dict.fromkeys([*faults, *self.promises]))

    def steps(self, name: str, count: int) -> Iterator[tuple[int, Stream]]:
        """Yield the steps of one part of the workload, numbered from 1, each with its own random stream.

        Shrinking removes steps, so a step must not depend on an earlier one. name: must differ from the names of other
        streams and machines.
        """
        stream = self.choices.stream(name)
        for number in range(1, count + 1):
            step = stream.with_subject(f"step {number}")
            if step.record_draw(2, TAKEN, 1):  # shrinking replaces 1 by the default 0
                yield number, step

    def live(
        self, life: str, body: Callable[[SimWorld], T], *, crash_within: int = 0, profiles: Sequence[str] = CRASHES
    ) -> T | None:
        """Run `body` on a new machine named `life`, on the disk of the previous machine.

        Return the value of body; None after a crash.

        crash_within: the machine crashes at one of its first crash_within file operations, or at the end of body if
        that is earlier. 0: the machine stops cleanly after body. profiles: one of them is the random kind of crash.
        Raises TaskFailedError with the error of a task as its cause, and any other error of `Kernel.run`.
        """
        machine = self.kernel.create_machine(life)
        disk = self._find_disk(life)
        files, trace = disk.mount(machine), self.kernel.trace

        def main() -> T:
            if isinstance(trace, WorldTrace):
                return body(SimWorld(machine.clock, *trace.watch(machine, disk, machine.tasks, files)))
            return body(SimWorld(machine.clock, machine.tasks, files))

        crash = self._plan_crash(life, disk, crash_within, profiles) if crash_within else None
        value, died = None, False
        try:
            with self.with_attribute_points():
                value = self.kernel.run(machine, main, time_limit_ns=TIME_LIMIT_NS)
        except MachineDied:
            died = True
        if crash is not None:
            self.note_crash(crash)
            self._disks.set_image_after_crash(disk, PROFILES[crash.profile])
        elif died:  # an injected fault killed the process, as SIGBUS does
            self._disks.set_image_after_crash(disk, PROFILES[PROCESS_KILL])
        else:
            self._disks.set_image_after_stop(disk)
        return value

    def _find_disk(self, life: str) -> Disk:
        lifecycle = self._disks
        lifecycle.faults, lifecycle.timing = self.faults, self.timing
        lifecycle.capacity_bytes = self.capacity_bytes
        disk_name = f"{DISK_STREAM}{life}"
        disk = lifecycle.find_disk(disk_name)
        if lifecycle.stream_name == disk_name:  # the disk of a killed process keeps its faults
            self._enabled.update(dict.fromkeys(enabled_kinds(self.faults)))
        return disk

    def _plan_crash(self, life: str, disk: Disk, crash_within: int, profiles: Sequence[str]) -> Crash:
        """Return a random crash of a machine. The trigger selects its operation later."""
        assert crash_within > 0, crash_within
        assert profiles, life
        self.crash_profiles.update(dict.fromkeys(profiles))
        draw = self.choices.stream("crash").raw_random  # not recorded, because the record has the crash itself
        operation = int(draw() * crash_within)
        profile, moment = profiles[int(draw() * len(profiles))], MOMENTS[int(draw() * len(MOMENTS))]
        harmless = Crash(life, NOTHING_LOST, CrashPhase.AFTER, "")
        crash = self.planned_crash(Crash(life, profile, moment, ""), harmless)
        self.arm_crash(disk, crash, operation)
        return crash
