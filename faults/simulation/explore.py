"""Exploring: each moment that a machine can die at in one life, each state that it can leave, recovered and judged.

    make a run without crashes → for each operation of one life, before, after, and inside:
        die there, again from the record → for each kind of crash: enumerate what may be left
            → go on from each state, and judge it

A state is a record: that of the run up to the crash, and the draws that lead to what is left. Any program can be
explored: `WholeRuns` goes on by running it once more from the beginning. A program that can go on from an image alone
brings its own `Explorable`, and says by a digest what is promised, so that equal states are judged once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol

from ...sim.choices import Choices, Decision
from ...sim.errors import ReplayDivergedError
from ...sim.guard import guard
from ...sim.policies.replay import Replay
from ...sim.process import garbage_kept
from ..crashes.enumeration import CrashState, CrashStates
from ..crashes.profiles import PROFILES
from ..disk.disk import Disk
from ..disk.fault_injector import CrashPhase, CrashPoint, CrashTrigger
from .record import Program, Record, Result, Setup, execute, record_of, replay
from .simulation import Crash, Simulation

LIMIT = 256
_WRITES = ("store", "pwrite", "write")
_SYNCS = ("msync", "fdatasync", "sync", "sync directory")
_SECTOR_BYTES = 512
_INSIDE_MAX = 6
"""Of one write, how many of its beginnings are tried."""


@dataclass(frozen=True, slots=True)
class Situation(Generic[Setup]):
    """A record of a run in which one life ends nowhere yet, and the operations of that life."""

    record: Record[Setup]
    life: str
    points: tuple[CrashPoint, ...]
    stream: str
    """From which the disk of that life draws."""
    profiles: tuple[str, ...]
    """The crashes that it may be."""
    depth: int = 0
    """How many crashes came before."""

    def crashed(self, moment: "CrashMoment", profile: str, decisions: Iterable[Decision]) -> Record[Setup]:
        """Return the record of a run in which the life ends at a moment, and decisions say what is left."""
        crash = Crash(self.life, profile, moment.when, str(moment.point))
        others = (one for one in self.record.crashes if one.life != self.life)
        return Record(tuple(decisions), self.record.schedule, (*others, crash), self.record.setup)


@dataclass(frozen=True, slots=True)
class CrashMoment:
    """Where a machine dies: before, after or during an operation; missing: bytes of a write it dies in."""

    point: CrashPoint
    when: str
    missing: int = 0

    def __str__(self) -> str:
        inside = f", {self.missing} bytes missing" if self.missing else ""
        return f"{self.when} {self.point}{inside}"


@dataclass(slots=True)
class OperationCount:
    """What was found at operations of one kind."""

    moments: int = 0
    exhausted: int = 0
    """Crashes, a moment and a kind each, of which every state was tried."""
    crashes: int = 0
    cut: int = 0
    """Crashes of which the limit kept some states from being tried that should have been."""
    states: int = 0
    judged: int = 0
    """States that were recovered and judged, because image or promises were new."""
    violations: int = 0

    def add(self, other: "OperationCount") -> None:
        """Take another count in."""
        for name in OperationCount.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True, order=True)
class StateSample(Generic[Setup]):
    """A state to go on from: its digest, and the record that leads to it."""

    digest: str
    record: Record[Setup] = field(compare=False)


@dataclass(slots=True)
class ExplorationCounts(Generic[Setup]):
    """What exploring came to: by depth and kind of operation, and every distinct image and judgement by its digest."""

    counts: dict[tuple[int, str], OperationCount] = field(default_factory=dict)
    images: set[str] = field(default_factory=set)
    judged: set[tuple[str, str]] = field(default_factory=set)
    breaches: dict[str, Record[Setup]] = field(default_factory=dict)
    """The first record that leads to each signature."""
    samples: list[StateSample[Setup]] = field(default_factory=list)

    def add(self, other: "ExplorationCounts[Setup]", samples_max: int = 0) -> None:
        """Take in what was found elsewhere."""
        for key, count in other.counts.items():
            self.counts.setdefault(key, OperationCount()).add(count)
        self.images |= other.images
        self.judged |= other.judged
        for signature, record in other.breaches.items():
            self.breaches.setdefault(signature, record)
        for sample in other.samples:
            if self.would_sample(sample.digest, samples_max):
                self.sample(sample, samples_max)

    def would_sample(self, digest: str, samples_max: int) -> bool:
        """Return whether an image has one of the least digests so far, and is not among the samples."""
        if any(sample.digest == digest for sample in self.samples):
            return False
        return len(self.samples) < samples_max or (bool(self.samples) and digest < self.samples[-1].digest)

    def sample(self, sample: StateSample[Setup], samples_max: int) -> None:
        """Keep a state to go on from, in place of the one with the greatest digest if there are enough."""
        self.samples = sorted([*self.samples, sample])[:samples_max]

    @property
    def total(self) -> OperationCount:
        """Return the sum over all depths and kinds."""
        total = OperationCount()
        for count in self.counts.values():
            total.add(count)
        return total


@dataclass(frozen=True, slots=True)
class CrashChoice:
    """One of the states that a crash may leave: most are the same as others, so its image is made when it is wanted."""

    state: CrashState
    of: CrashStates
    stream: str
    """From which the disk draws."""

    def decisions(self) -> Sequence[Decision]:
        """Return the draws that lead to it."""
        return self.of.decisions(self.state, self.stream)


class CrashedRun(Protocol):
    """A machine that has died: what is left of it, by the kind of crash."""

    @property
    def signature(self) -> str:
        """Return what was broken already; empty: nothing."""

    @property
    def decisions(self) -> Sequence[Decision]:
        """Return the draws that lead to the crash; those that say what it leaves are apart."""

    @property
    def write_bytes(self) -> int:
        """Return how many bytes there were of the write in which it died, 0 if it was in none."""

    @property
    def site_offset(self) -> int:
        """Return the position that the write begins at in which it died."""

    def choices(self, profile: str) -> Iterator[CrashChoice]:
        """Yield the states that a crash may leave."""

    def extent(self, profile: str) -> tuple[bool, bool]:
        """Return whether these were all states, and whether the limit kept some from being tried; after the last."""

    def promises(self, profile: str) -> str:
        """Return a digest of what is promised; of equal ones, equal states are judged alike."""

    def judge(self, profile: str, choice: CrashChoice) -> str:
        """Go on from a state, and return the signature of what breaks then; empty: nothing."""


class Explorable(Protocol[Setup]):
    """A program as an explorer needs it."""

    def die(self, situation: Situation[Setup], moment: CrashMoment, decisions: Sequence[Decision]) -> CrashedRun | None:
        """Run up to a moment; None if the run does not come to it."""


class OperationLog(CrashTrigger):
    """Counts the operations of a life, and keeps their names; nothing dies of it."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[CrashPoint] = []

    def is_due(self, number: int, kind: str, path: str, nth: int) -> bool:
        """Take note of an operation."""
        self.points.append(CrashPoint(kind, path, nth))
        return False


class Explorer(Generic[Setup]):
    """Walks moments of one situation; what is judged already, as `found` has it, is not judged again."""

    def __init__(
        self,
        explorable: Explorable[Setup],
        situation: Situation[Setup],
        found: ExplorationCounts[Setup],
        *,
        samples_max: int = 0,
    ) -> None:
        """samples_max: how many states are kept to go on from."""
        self._explorable = explorable
        self._situation = situation
        self._found = found
        self._samples_max = samples_max

    def explore(self, number: int) -> None:
        """Try every crash before, after and inside the operation of that number."""
        point = self._situation.points[number]
        self._explore_moment(CrashMoment(point, CrashPhase.BEFORE))
        if point.kind in _SYNCS:
            self._explore_moment(CrashMoment(point, CrashPhase.DURING))
        elif point.kind in _WRITES:
            left = self._explore_moment(CrashMoment(point, CrashPhase.DURING, 1))
            for missing in () if left is None else _beginnings(left):
                self._explore_moment(CrashMoment(point, CrashPhase.DURING, missing))
        self._explore_moment(CrashMoment(point, CrashPhase.AFTER))

    def _explore_moment(self, moment: CrashMoment) -> CrashedRun | None:
        situation = self._situation
        count = self._found.counts.setdefault((situation.depth, moment.point.kind), OperationCount())
        count.moments += 1
        decisions = (*situation.record.decisions, *self._missing(moment))
        left = self._explorable.die(situation, moment, decisions)
        if left is None:
            raise ReplayDivergedError("moment", 0, str(moment), "the run does not come to it")
        if left.signature:
            count.violations += 1
            self._keep(left.signature, situation.crashed(moment, situation.profiles[0], decisions))
            return None
        for profile in situation.profiles:
            self._explore_crash(moment, left, profile, count)
        return left

    def _explore_crash(self, moment: CrashMoment, left: CrashedRun, profile: str, count: OperationCount) -> None:
        found, promises = self._found, left.promises(profile)
        for choice in left.choices(profile):
            count.states += 1
            digest = choice.state.digest
            found.images.add(digest)
            key = (digest, promises)
            if key in found.judged:
                continue
            found.judged.add(key)
            count.judged += 1
            signature = left.judge(profile, choice)
            if not signature and not found.would_sample(digest, self._samples_max):
                continue
            record = self._situation.crashed(moment, profile, (*left.decisions, *choice.decisions()))
            if signature:
                count.violations += 1
                self._keep(signature, record)
            else:
                found.sample(StateSample(digest, record), self._samples_max)
        is_exhaustive, was_cut = left.extent(profile)
        count.crashes += 1
        count.exhausted += is_exhaustive
        count.cut += was_cut

    def _missing(self, moment: CrashMoment) -> Iterator[Decision]:
        """Yield the decision on how many bytes are missing of the write that a machine dies in."""
        if moment.missing:
            label, stream = _missing_label(moment.point), self._situation.stream
            drawn = [one for one in self._situation.record.decisions if one[:2] == (stream, label)]
            yield Decision(stream, label, len(drawn) + 1, moment.missing + 1, moment.missing)

    def _keep(self, signature: str, record: Record[Setup]) -> None:
        """Keep the first record of each signature."""
        self._found.breaches.setdefault(signature, record)


class WholeRuns(Generic[Setup, Result]):
    """Explores any program: each state is judged by a run of its own from the beginning."""

    def __init__(self, program: Program[Setup, Result], limit: int) -> None:
        self._program = program
        self._limit = limit

    def die(
        self, situation: Situation[Setup], moment: CrashMoment, decisions: Sequence[Decision]
    ) -> "WholeCrash[Setup, Result] | None":
        """Run to the end, with nothing lost by the crash; what else it may leave is found as the machine dies."""
        record = situation.crashed(moment, situation.profiles[0], decisions)
        choices, schedule = Choices.replaying(record.decisions), Replay(record.schedule)
        simulation = Simulation(choices, schedule, crashes=record.crashes)
        crashed = WholeCrash(self._program, situation, moment, record.decisions)

        def on_crash(life: str, disk: Disk) -> None:
            if life == situation.life:
                crashed.write_bytes = write_bytes_of(choices.decisions(), moment.point)
                crashed.enumerate(disk, self._limit)

        simulation.on_crash = on_crash
        crashed.signature = execute(self._program, record.setup, simulation).signature
        return crashed if crashed.has_died or crashed.signature else None


class WholeCrash(Generic[Setup, Result]):
    """A machine that has died in a run of any program, and what it may leave."""

    def __init__(
        self,
        program: Program[Setup, Result],
        situation: Situation[Setup],
        moment: CrashMoment,
        decisions: tuple[Decision, ...],
    ) -> None:
        self.signature = ""
        self.decisions = decisions
        self.site_offset = self.write_bytes = 0
        self.has_died = False
        self._program = program
        self._situation = situation
        self._moment = moment
        self._states: dict[str, list[CrashChoice]] = {}
        self._extents: dict[str, tuple[bool, bool]] = {}

    def enumerate(self, disk: Disk, limit: int) -> None:
        """Find what the crash may leave of the disk, for each kind of crash."""
        self.has_died = True
        self.site_offset = 0 if disk.met is None else disk.met.at
        chances = Choices(f"explore/{self._situation.depth}")
        for profile in self._situation.profiles:
            stream = chances.stream(f"{self._moment} {profile}")
            states = disk.crash_states(PROFILES[profile], limit, stream)
            self._states[profile] = [CrashChoice(state, states, self._situation.stream) for state in states]
            self._extents[profile] = (states.is_exhaustive, states.was_cut)

    def choices(self, profile: str) -> Iterator[CrashChoice]:
        """Yield the states that a crash may leave."""
        yield from self._states[profile]

    def extent(self, profile: str) -> tuple[bool, bool]:
        """Return whether these were all states, and whether the limit kept some from being tried."""
        return self._extents[profile]

    def promises(self, profile: str) -> str:
        """Return what no other moment has: what the program has promised is not known."""
        return f"{self._moment} {profile}"

    def judge(self, profile: str, choice: CrashChoice) -> str:
        """Run from the beginning, into this state and on."""
        record = self._situation.crashed(self._moment, profile, (*self.decisions, *choice.decisions()))
        return replay(self._program, record).result.signature


def situation_of(
    program: Program[Setup, Result],
    setup: Setup,
    first: Simulation,
    *,
    life: str = "",
    profiles: Sequence[str] = (),
) -> tuple[Situation[Setup] | None, Result]:
    """Return the operations of one life in a run of a program in which nothing crashes; None if it breaks even so.

    first: a simulation in which no crash is planned. life: the first that could crash unless given; profiles: those
    that the program itself draws from unless given. Raises ValueError if there is no such life.
    """
    result = execute(program, setup, first)
    if result.signature:
        return None, result
    names = list(first.triggers)
    if not names or (life and life not in names):
        raise ValueError(f"life: expected one of those that may crash, {', '.join(names)}, found {life or 'none'}")
    life = life or names[0]
    record = record_of(program, setup, first, result).record
    log, schedule = OperationLog(), Replay(record.schedule)
    again = Simulation(Choices.replaying(record.decisions), schedule, crashes=())
    again.triggers[life] = log
    if execute(program, setup, again).digest != result.digest:
        raise ReplayDivergedError("run", 0, result.digest, "another run")
    stream = again.disk_of(life).stream_name
    crashes = tuple(dict.fromkeys(profiles or first.crash_profiles))
    return Situation(record, life, tuple(log.points), stream, crashes), result


def explore_chunk(
    explorable: Explorable[Setup],
    situation: Situation[Setup],
    numbers: Iterable[int],
    found: ExplorationCounts[Setup],
    *,
    samples_max: int = 0,
) -> ExplorationCounts[Setup]:
    """Explore some operations of a situation, and add what there is to found."""
    explorer = Explorer(explorable, situation, found, samples_max=samples_max)
    with guard():  # inside of it, the guards of the runs cost next to nothing
        for number in numbers:
            with garbage_kept():
                explorer.explore(number)
    return found


def _missing_label(point: CrashPoint) -> str:
    return f"bytes not written {point.path}"


def write_bytes_of(decisions: Sequence[Decision], point: CrashPoint) -> int:
    """Return how many bytes there were of the write that a machine has died in, with at least one missing; else 0."""
    label = _missing_label(point)
    return next((one.options - 1 for one in reversed(decisions) if one.label == label), 0)


def _beginnings(left: CrashedRun) -> list[int]:
    """Return how many bytes may be missing of the write that a machine has died in, beside 1: a few of all."""
    size_bytes = left.write_bytes
    sectors = range(_SECTOR_BYTES - left.site_offset % _SECTOR_BYTES, size_bytes, _SECTOR_BYTES)
    reached = dict.fromkeys([1, size_bytes // 2, *sectors])
    return [size_bytes - some for some in reached if 0 < some < size_bytes - 1][:_INSIDE_MAX]
