"""A run of any storage code: machines that live one after another on one disk, and the crashes between them.

A scenario is a function of one Simulation. It lets machines live, each with a body of plain code that opens what is to
be tested, uses it and judges what it finds; where the body is to be crashed, it says within how many operations.

    def scenario(run: Simulation) -> None:
        run.live("first", use, crash_within=200)
        run.live("second", judge)

The same function is run for seeds, replayed from a record, and shrunk: see `findings`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from ...sim.choices import Choices, Stream
from ...sim.errors import MachineDied
from ...sim.kernel import Kernel
from ...sim.machine import SimClock, SimTasks
from ...sim.policies import Policy
from ...sim.trace import Trace
from ..crashes.profiles import PROFILES, crash_kinds
from ..disk.crash_trigger import CrashPoint
from ..disk.disk import Disk
from ..disk.fault_injector import MOMENTS, CrashPhase
from ..disk.files import SimFiles
from ..disk.image import Image
from ..disk.syncs import SyncTiming
from ..plan import FaultPlan, enabled_kinds

T = TypeVar("T")

STEP_LIMIT = 400_000
TIME_LIMIT_NS = 3_600 * 1_000_000_000
"""Of virtual time, for one life."""
PROCESS_KILL = "process-kill"
NOTHING_LOST = "nothing-lost"
TORN_SECTORS = "torn-sectors"
CRASHES = (*(name for name in PROFILES if name != NOTHING_LOST), TORN_SECTORS)
"""What a crash may leave, drawn from these. Torn sectors are there twice: what is shorter than a sector is torn by
nothing else, and half of such tears are lost with the length of the file."""

DISK_STREAM = "disk of "
"""What the name of a disk's stream begins with; then comes the life that first had it."""
TAKEN = "taken"
"""What the label of the draw ends with that says that a step of the workload is taken."""


class PromiseBroken(Exception):
    """What was promised does not hold. promise: in the same words each time; found: what was seen instead."""

    def __init__(self, promise: str, found: str) -> None:
        super().__init__(f"{promise}: {found}")
        self.promise = promise
        self.found = found


class SimWorld(NamedTuple):
    """All that code under test may reach: what it imports beside that must be pure."""

    clock: SimClock
    tasks: SimTasks
    files: SimFiles


class Crash(NamedTuple):
    """How one life ended."""

    life: str
    profile: str
    """What was left, a name in `profiles`."""
    moment: str
    """Before, during or after the operation."""
    point: str
    """The operation it died at, as `aim` names it; empty: after the body's end."""

    def __str__(self) -> str:
        where = f"{self.moment} {self.point}" if self.point else "at its end"
        return f"{self.life}: {self.profile}, {where}"


Scenario = Callable[["Simulation"], None]


class _Aim:
    """Waits for the operation of a number, or of a name if that is given, and counts all it is asked about."""

    def __init__(self, operation: int, name: str) -> None:
        self._operation = operation
        self._point = CrashPoint.parse(name) if name else None
        self.times: dict[tuple[str, str], int] = {}
        """How many operations of a kind on a path there were, in the order of their first."""
        self.met: CrashPoint | None = None

    def meets(self, number: int, kind: str, path: str) -> bool:
        """Return whether this is the operation."""
        nth = self.times[kind, path] = self.times.get((kind, path), 0) + 1
        point = CrashPoint(kind, path, nth)
        if number == self._operation or point == self._point:
            self.met = point
        return self.met is not None


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
        step_limit: int = STEP_LIMIT,
    ) -> None:
        self.choices = choices
        self.kernel = Kernel(policy, step_limit=step_limit, trace=trace)
        self.faults = FaultPlan()
        self.timing = SyncTiming()
        self.capacity_bytes: int | None = None
        self.crashes: list[Crash] = []
        """The crashes so far, in order."""
        self.operations: dict[str, dict[tuple[str, str], int]] = {}
        """Of each life that was to end in a crash: how many operations of a kind on a path there were."""
        self._planned = None if crashes is None else {crash.life: crash for crash in crashes}
        self._aim = _Aim(-1, "")
        self._image: Image | None = None
        self._disk: Disk | None = None
        """The disk that a killed process has left mounted, page cache and all."""
        self._disks: list[Disk] = []
        self._enabled: dict[str, None] = {}
        self._crash_profiles: dict[str, None] = {}
        """What crashes could have been of."""

    @property
    def fired(self) -> Counter[str]:
        """Return how often each fault really happened, by the names in `kinds`."""
        return sum((disk.fired for disk in self._disks), Counter())

    @property
    def enabled(self) -> tuple[str, ...]:
        """Return the faults that could have happened: what plans switch on, and what crashes take of what was done."""
        operations = {kind for times in self.operations.values() for kind, _ in times}
        profiles = [PROFILES[name] for name in self._crash_profiles]
        return tuple(dict.fromkeys([*self._enabled, *crash_kinds(operations, profiles)]))

    def steps(self, name: str, count: int) -> Iterator[tuple[int, Stream]]:
        """Yield the steps of one part of the workload, numbered from 1, each with a stream for its own draws.

        All are taken, but in a run that was shrunk: shrinking leaves out what the failure does not need. So what a
        step does must not count on an earlier one. name: of no other stream and no life.
        """
        stream = self.choices.stream(name)
        for number in range(1, count + 1):
            step = stream.within(f"step {number}")
            if step.record(2, TAKEN, 1):
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
        disk = self._disk or self._new_disk(life)
        world = SimWorld(machine.clock, machine.tasks, disk.mount(machine))
        disk.disarm()
        crash = self._plan_crash(life, disk, crash_within, profiles) if crash_within else None
        value, died = None, False
        try:
            value = self.kernel.run(machine, lambda: body(world), time_limit_ns=TIME_LIMIT_NS)
        except MachineDied:
            died = True
        if crash is not None:
            self._crash(disk, crash)
        elif died:  # a fault has killed the process, as a bus error does
            self._disk = disk
        else:
            self._disk, self._image = None, disk.settle()
        return value

    def _new_disk(self, life: str) -> Disk:
        stream = self.choices.stream(f"{DISK_STREAM}{life}")
        disk = Disk(
            self.kernel,
            stream,
            image=self._image,
            faults=self.faults,
            timing=self.timing,
            capacity_bytes=self.capacity_bytes,
        )
        self._disks.append(disk)
        self._enabled.update(dict.fromkeys(enabled_kinds(self.faults)))
        return disk

    def _plan_crash(self, life: str, disk: Disk, crash_within: int, profiles: Sequence[str]) -> Crash:
        """Return how a life is to end, and arm the disk for it; which operation that is turns out later."""
        self._crash_profiles.update(dict.fromkeys(profiles))
        if self._planned is None:
            draw = self.choices.stream("crash").raw_random
            operation = disk.operations + int(draw() * crash_within)
            profile, moment = profiles[int(draw() * len(profiles))], MOMENTS[int(draw() * len(MOMENTS))]
            crash = Crash(life, profile, moment, "")
        else:
            operation = -1
            crash = self._planned.get(life, Crash(life, NOTHING_LOST, CrashPhase.AFTER, ""))
        self._aim = _Aim(operation, crash.point)
        self.operations[life] = self._aim.times
        disk.crash_where(self._aim, crash.moment)
        return crash

    def _crash(self, disk: Disk, crash: Crash) -> None:
        met = self._aim.met
        self.crashes.append(crash._replace(point="" if met is None else str(met)))
        if crash.profile == PROCESS_KILL:
            disk.fired[f"crash {PROCESS_KILL}"] += 1
            self._disk = disk
        else:
            self._disk, self._image = None, disk.crash(PROFILES[crash.profile])
