"""A run of any storage code: machines that live one after another on one disk, and the crashes between them.

A scenario is a function of one Simulation. It lets machines live, each with a body of plain code that opens what is to
be tested, uses it and judges what it finds; where the body is to be crashed, it says within how many operations.

    def scenario(run: Simulation) -> None:
        run.live("first", use, crash_within=200)
        run.live("second", judge)

The same function is run for seeds (`trials`), replayed (`record`), shrunk and explored.
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
from ..disk.syncs import SyncTiming, Timing
from ..plan import FaultPlan, enabled_kinds
from .disk_lifecycle import PROCESS_KILL, DiskLifecycle, Rot, no_rot

T = TypeVar("T")
STEP_LIMIT = 400_000
TIME_LIMIT_NS = 3_600 * 1_000_000_000
"""Of virtual time, for one life."""
TORN_SECTORS = "torn-sectors"
# Torn sectors are there twice: what is shorter than a sector is torn by nothing else, and half of such tears are lost
# with the length of the file.
CRASHES = (*(name for name in PROFILES if name != NOTHING_LOST), TORN_SECTORS)
"""What a crash may leave, drawn from these."""
DISK_STREAM = "disk of "
"""What the name of a disk's stream begins with; then comes the life that first had it."""
TAKEN = "taken"
"""What the label of the draw ends with that says that a step of the workload is taken."""


class SimWorld(NamedTuple):
    """All that code under test may reach: what it imports beside that must be pure."""

    clock: SimClock
    tasks: SimTasks
    files: SimFiles


class WorldTrace(Trace, ABC):
    """A trace that also sees what code asks of its world."""

    @abstractmethod
    def watch(self, machine: Machine, disk: Disk, tasks: Any, files: Any) -> tuple[Any, Any]:
        """Return tasks and files that do the same, with every call noted here."""


class Crash(NamedTuple):
    """How one life ended."""

    life: str
    profile: str
    """What was left, a name in `profiles`."""
    moment: str
    """Before, during or after the operation."""
    point: str
    """The operation it died at, as `CrashPoint` names it; empty: after the body's end."""

    def __str__(self) -> str:
        where = f"{self.moment} {self.point}" if self.point else "at its end"
        return f"{self.life}: {self.profile}, {where}"


Scenario = Callable[["Simulation"], None]


class _Armed(NamedTuple):
    """A life that is to end in an operation of its disk."""

    disk: Disk
    crash: Crash


class Simulation:
    """One run. Everything left to chance comes from `choices`, every switch of tasks from the policy.

    crashes: how lives end that end in a crash; None: drawn. faults, timing and capacity_bytes are those of every
    disk that is set up from now on: what a machine finds after a power cut or a stop is on a disk of its own.
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
        self.faults = FaultPlan()
        self.timing: Timing = SyncTiming()
        self.capacity_bytes: int | None = None
        self.triggers: dict[str, CrashTrigger] = {}
        """By life, what says where it ends; one that stands here before a life is armed takes the place of its own."""
        self.on_crash: Callable[[str, Disk], None] | None = None
        """Called with each life that dies where it was to die, and with its disk as the crash meets it."""
        self.promises: Counter[str] = Counter()
        """How often each promise was checked and each event happened; 0 for an event whose condition was false."""
        self._attributes: tuple[SharedAttribute, ...] = ()
        self._armed: dict[str, _Armed] = {}
        self._recorded = None if crashes is None else {crash.life: crash for crash in crashes}
        self._crashes: dict[str, Crash] = {}
        self._lifecycles: list[DiskLifecycle] = []
        self._disks = self.lifecycle()
        self._enabled: dict[str, None] = {}
        self.crash_profiles: dict[str, None] = {}
        """What crashes of one's own code could have been of, in the order of their first."""

    @property
    def landmarks_ms(self) -> Sequence[int]:
        """Return the durations that the code under test compares with, such as its time-outs, in ms.

        One fault in four that takes time takes one of these, or a ms less, or more.
        """
        return self.kernel.landmarks_ms

    @landmarks_ms.setter
    def landmarks_ms(self, landmarks_ms: Sequence[int]) -> None:
        self.kernel.landmarks_ms = landmarks_ms

    # -- plain attributes ------------------------------------------------------------------------------

    def switch_at_attributes(self, *sources: Source) -> None:
        """Have tasks switch at plain attributes, too, in all lives from now on: where threads would tear them apart.

        sources: classes, or modules for all of their classes; of these the attributes that can race. Raises ValueError
        naming a source whose code cannot be read.
        """
        if not self._attributes:  # once: the limit is a product, and would grow with each call
            self.kernel.raise_step_limit(STEPS_TIMES)
        self._attributes = shared_attributes(*sources)

    def with_attribute_points(self) -> AbstractContextManager[None]:
        """Return a `with` block in which tasks do."""
        return attribute_points(self.kernel, self._attributes)

    # -- lives on disks: what every run is made of -----------------------------------------------------

    def lifecycle(
        self, *, faults: FaultPlan | None = None, timing: Timing | None = None, rot: Rot = no_rot
    ) -> DiskLifecycle:
        """Return the disk of one more machine, for all of its lives."""
        lifecycle = DiskLifecycle(self.kernel, self.choices.stream, faults=faults, timing=timing, rot=rot)
        self._lifecycles.append(lifecycle)
        return lifecycle

    def planned_crash(self, drawn: Crash, unrecorded: Crash) -> Crash:
        """Return how a life ends if it ends in a crash: as it was drawn, in a replay as the record has it.

        unrecorded: how one ends of which the record says nothing, because its run never came to that.
        """
        return drawn if self._recorded is None else self._recorded.get(drawn.life, unrecorded)

    def arm(self, disk: Disk, crash: Crash, operation: int | None) -> None:
        """Have a life end at the operation of its crash; else, if nothing is recorded, at that of a number from now."""
        assert operation is None or operation >= 0, operation
        trigger = self.triggers.get(crash.life)
        if trigger is None:
            point = CrashPoint.parse(crash.point) if crash.point else None
            number = None if operation is None or self._recorded is not None else disk.operations + operation
            trigger = self.triggers[crash.life] = CrashTrigger(operation=number, point=point)
        disk.arm(trigger, crash.moment)
        self._armed[crash.life] = _Armed(disk, crash)

    def disk_of(self, life: str) -> Disk:
        """Return the disk of a life that has been armed."""
        return self._armed[life].disk

    def note_crash(self, crash: Crash) -> None:
        """Note that a life has ended in a crash, at the operation that its trigger has met. Only the first counts."""
        if self.on_crash is not None and crash.life in self._armed and crash.life not in self._crashes:
            self.on_crash(crash.life, self._armed[crash.life].disk)
        trigger = self.triggers.get(crash.life)
        met = None if trigger is None else trigger.met
        self._crashes.setdefault(crash.life, crash._replace(point="" if met is None else str(met)))

    @property
    def crashes(self) -> tuple[Crash, ...]:
        """Return the crashes so far, in order: also one that the run has met, and that ended it before it was noted."""
        met = {
            life: self._armed[life].crash._replace(point=str(trigger.met))
            for life, trigger in self.triggers.items()
            if trigger.met is not None and life not in self._crashes
        }
        return (*self._crashes.values(), *met.values())

    @property
    def operations(self) -> dict[str, dict[tuple[str, str], int]]:
        """Return, of each life that was to end in a crash, how many operations of a kind on a path there were."""
        return {life: trigger.times for life, trigger in self.triggers.items()}

    @property
    def injected(self) -> Counter[str]:
        """Return how often each fault happened, by the names in `kinds`, and each promise and event."""
        return sum((lifecycle.injected for lifecycle in self._lifecycles), +self.promises)

    @property
    def enabled(self) -> tuple[str, ...]:
        """Return the faults that could have happened, and the promises and events that were reached.

        Faults follow from plans, and from what crashes can take of what was done.
        """
        operations = {kind for trigger in self.triggers.values() for kind, _ in trigger.times}
        profiles = [PROFILES[name] for name in self.crash_profiles]
        faults = [*self._enabled, *crash_kinds(operations, profiles)]
        return tuple(dict.fromkeys([*faults, *self.promises]))

    def steps(self, name: str, count: int) -> Iterator[tuple[int, Stream]]:
        """Yield the steps of one part of the workload, numbered from 1, each with a stream for its own draws.

        All are taken, but in a run that was shrunk: shrinking leaves out what the failure does not need. So what a
        step does must not count on an earlier one. name: of no other stream and no life.
        """
        stream = self.choices.stream(name)
        for number in range(1, count + 1):
            step = stream.within(f"step {number}")
            if step.record(2, TAKEN, 1):  # 1 is what every run proposes; only shrinking makes it the plain 0
                yield number, step

    def live(
        self,
        life: str,
        body: Callable[[SimWorld], T],
        *,
        crash_within: int = 0,
        profiles: Sequence[str] = CRASHES,
    ) -> T | None:
        """Let a new machine, named life, run body on what the last one left; return its value, None if it died.

        crash_within: the machine dies at one of its first so many file operations, and one of profiles says what that
        leaves; if body has returned before, it dies then. 0: it is switched off cleanly when body has returned.
        Raises TaskFailedError with what a task raised as its cause, and whatever else `Kernel.run` does.
        """
        machine = self.kernel.machine(life)
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
            self._disks.leave_after_crash(disk, PROFILES[crash.profile])
        elif died:  # a fault has killed the process, as a bus error does
            self._disks.leave_after_crash(disk, PROFILES[PROCESS_KILL])
        else:
            self._disks.leave_after_stop(disk)
        return value

    def _find_disk(self, life: str) -> Disk:
        lifecycle = self._disks
        lifecycle.faults, lifecycle.timing = self.faults, self.timing
        lifecycle.capacity_bytes = self.capacity_bytes
        disk_name = f"{DISK_STREAM}{life}"
        disk = lifecycle.find(disk_name)
        if lifecycle.stream_name == disk_name:  # else it is the one that a killed process has left
            self._enabled.update(dict.fromkeys(enabled_kinds(self.faults)))
        return disk

    def _plan_crash(self, life: str, disk: Disk, crash_within: int, profiles: Sequence[str]) -> Crash:
        """Return how a life is to end, and arm the disk for it; which operation that is turns out later."""
        assert crash_within > 0, crash_within
        assert profiles, life
        self.crash_profiles.update(dict.fromkeys(profiles))
        draw = self.choices.stream("crash").raw_random  # raw: what it comes to is recorded, by name
        operation = int(draw() * crash_within)
        profile, moment = profiles[int(draw() * len(profiles))], MOMENTS[int(draw() * len(MOMENTS))]
        harmless = Crash(life, NOTHING_LOST, CrashPhase.AFTER, "")
        crash = self.planned_crash(Crash(life, profile, moment, ""), harmless)
        self.arm(disk, crash, operation)
        return crash
