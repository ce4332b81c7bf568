"""Exploration: crashes one process run at every operation, and judges every crash state.

    make a run without crashes → for each operation of one process run, before, after, and inside:
    crash there in a replay of the record → for each kind of crash: enumerate the crash states
    → continue from each state, and judge it

The record of a state is the record of the run up to the crash, plus the decisions that select the state.
`WholeRunExplorer` executes a whole run for each state of any program. A program that can continue from an image has its
own subclass of `Explorable`. States with equal images and equal digests of promises are judged once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol

from ...sim.choices import Choices, Decision
from ...sim.errors import ReplayDivergedError
from ...sim.guard import leak_guard
from ...sim.policies.replay import ReplayPolicy
from ...sim.process import collect_garbage_at_end
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
_INSIDE_MAX = 6  # number of prefix lengths to try for one interrupted write


@dataclass(frozen=True, slots=True)
class Situation(Generic[Setup]):
    """A record of a simulation, and the operations of one process run in it, which does not crash."""

    record: Record[Setup]
    life: str
    points: tuple[CrashPoint, ...]
    stream: str
    profiles: tuple[str, ...]
    depth: int = 0
    """Number of crashes before this process run."""

    def record_with_crash(self, moment: "CrashMoment", profile: str, decisions: Iterable[Decision]) -> Record[Setup]:
        """Return the record of a crash of this process run. decisions: select the crash state."""
        crash = Crash(self.life, profile, moment.when, str(moment.point))
        others = (one for one in self.record.crashes if one.life != self.life)
        return Record(tuple(decisions), self.record.schedule, (*others, crash), self.record.setup)


@dataclass(frozen=True, slots=True)
class CrashMoment:
    """A crash before, after or during an operation. missing: number of missing bytes of an interrupted write."""

    point: CrashPoint
    when: str
    missing: int = 0

    def __str__(self) -> str:
        inside = f", {self.missing} bytes missing" if self.missing else ""
        return f"{self.when} {self.point}{inside}"


@dataclass(slots=True)
class OperationCount:
    """Results of the crashes at operations of one kind."""

    moments: int = 0
    exhausted: int = 0
    """Number of crashes with all states tried. A crash is a moment combined with a profile."""
    crashes: int = 0
    cut: int = 0
    """Number of crashes with states beyond the limit."""
    states: int = 0
    judged: int = 0
    """Number of judged states: different pairs of image and promises."""
    violations: int = 0

    def add(self, other: "OperationCount") -> None:
        for name in OperationCount.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True, order=True)
class StateSample(Generic[Setup]):
    """The digest of a state for deeper exploration, and the record that leads to it."""

    digest: str
    record: Record[Setup] = field(compare=False)


@dataclass(slots=True)
class ExplorationCounts(Generic[Setup]):
    """Counts by depth and kind of operation, and digests of distinct images and judgements."""

    counts: dict[tuple[int, str], OperationCount] = field(default_factory=dict)
    images: set[str] = field(default_factory=set)
    judged: set[tuple[str, str]] = field(default_factory=set)
    breaches: dict[str, Record[Setup]] = field(default_factory=dict)
    """The first record of each failure, by signature."""
    samples: list[StateSample[Setup]] = field(default_factory=list)

    def add(self, other: "ExplorationCounts[Setup]", samples_max: int = 0) -> None:
        for key, count in other.counts.items():
            self.counts.setdefault(key, OperationCount()).add(count)
        self.images |= other.images
        self.judged |= other.judged
        for signature, record in other.breaches.items():
            self.breaches.setdefault(signature, record)
        for sample in other.samples:
            if self.would_sample(sample.digest, samples_max):
                self.add_sample(sample, samples_max)

    def would_sample(self, digest: str, samples_max: int) -> bool:
        """Whether the digest is among the smallest, which are the samples."""
        if any(sample.digest == digest for sample in self.samples):
            return False
        return len(self.samples) < samples_max or (bool(self.samples) and digest < self.samples[-1].digest)

    def add_sample(self, sample: StateSample[Setup], samples_max: int) -> None:
        """Add a sample. Above samples_max, drop the sample with the largest digest."""
        assert all(other.digest != sample.digest for other in self.samples), sample.digest
        self.samples = sorted([*self.samples, sample])[:samples_max]

    @property
    def total(self) -> OperationCount:
        total = OperationCount()
        for count in self.counts.values():
            total.add(count)
        return total


@dataclass(frozen=True, slots=True)
class CrashChoice:
    """One crash state. It builds its image on demand, because most images equal an earlier one."""

    state: CrashState
    of: CrashStates
    stream: str

    def decisions(self) -> Sequence[Decision]:
        """The decisions with which a replay reaches the crash state."""
        return self.of.decisions(self.state, self.stream)


class CrashedRun(Protocol):
    """A crashed machine and its states, by crash profile."""

    @property
    def signature(self) -> str:
        """Signature of a failure before the crash, or ""."""

    @property
    def decisions(self) -> Sequence[Decision]:
        """The decisions with which a replay reaches the crash, without those of the crash state."""

    @property
    def write_bytes(self) -> int: ...

    @property
    def site_offset(self) -> int: ...

    def choices(self, profile: str) -> Iterator[CrashChoice]: ...

    def completeness(self, profile: str) -> tuple[bool, bool]:
        """After the last state, return two flags: all states were yielded; the limit has excluded some."""

    def promises(self, profile: str) -> str:
        """Return a digest. Equal digests of image and promises imply equal verdicts."""

    def judge(self, profile: str, choice: CrashChoice) -> str:
        """Continue from a state. Return the signature of the failure, or ""."""


class Explorable(Protocol[Setup]):
    """A program with explorable crash states."""

    def run_to_crash(
        self, situation: Situation[Setup], moment: CrashMoment, decisions: Sequence[Decision]
    ) -> CrashedRun | None:
        """Crash the program at a moment. Return None if the run does not reach it."""


class OperationLog(CrashTrigger):
    """A trigger that lists the operations of a process run and never causes a crash."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[CrashPoint] = []

    def is_due(self, number: int, kind: str, path: str, nth: int) -> bool:
        self.points.append(CrashPoint(kind, path, nth))
        return False


class Explorer(Generic[Setup]):
    """Explores the crashes of a situation. Skips pairs of state and promises in `found`."""

    def __init__(
        self,
        explorable: Explorable[Setup],
        situation: Situation[Setup],
        found: ExplorationCounts[Setup],
        *,
        samples_max: int = 0,
    ) -> None:
        """samples_max: number of states to keep for a deeper exploration."""
        self._explorable = explorable
        self._situation = situation
        self._found = found
        self._samples_max = samples_max

    def explore(self, number: int) -> None:
        """Try every crash at one operation. number: index of the operation in the situation."""
        point = self._situation.points[number]
        self._explore_moment(CrashMoment(point, CrashPhase.BEFORE))
        if point.kind in _SYNCS:
            self._explore_moment(CrashMoment(point, CrashPhase.DURING))
        elif point.kind in _WRITES:
            left = self._explore_moment(CrashMoment(point, CrashPhase.DURING, 1))
            for missing in () if left is None else _missing_byte_counts(left):
                self._explore_moment(CrashMoment(point, CrashPhase.DURING, missing))
        self._explore_moment(CrashMoment(point, CrashPhase.AFTER))

    def _explore_moment(self, moment: CrashMoment) -> CrashedRun | None:
        situation = self._situation
        count = self._found.counts.setdefault((situation.depth, moment.point.kind), OperationCount())
        count.moments += 1
        decisions = (*situation.record.decisions, *self._missing_byte_decisions(moment))
        left = self._explorable.run_to_crash(situation, moment, decisions)
        if left is None:
            raise ReplayDivergedError("moment", 0, str(moment), "the run does not reach it")
        if left.signature:
            count.violations += 1
            self._record_failure(left.signature, situation.record_with_crash(moment, situation.profiles[0], decisions))
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
            record = self._situation.record_with_crash(moment, profile, (*left.decisions, *choice.decisions()))
            if signature:
                count.violations += 1
                self._record_failure(signature, record)
            else:
                found.add_sample(StateSample(digest, record), self._samples_max)
        is_exhaustive, was_cut = left.completeness(profile)
        count.crashes += 1
        count.exhausted += is_exhaustive
        count.cut += was_cut
        assert max(count.exhausted, count.cut) <= count.crashes, count

    def _missing_byte_decisions(self, moment: CrashMoment) -> Iterator[Decision]:
        if moment.missing:
            label, stream = _missing_label(moment.point), self._situation.stream
            drawn = [one for one in self._situation.record.decisions if one[:2] == (stream, label)]
            yield Decision(stream, label, len(drawn) + 1, moment.missing + 1, moment.missing)

    def _record_failure(self, signature: str, record: Record[Setup]) -> None:
        self._found.breaches.setdefault(signature, record)


class WholeRunExplorer(Generic[Setup, Result]):
    """Explores any program by whole runs."""

    def __init__(self, program: Program[Setup, Result], limit: int) -> None:
        self._program = program
        self._limit = limit

    def run_to_crash(
        self, situation: Situation[Setup], moment: CrashMoment, decisions: Sequence[Decision]
    ) -> "WholeRunCrash[Setup, Result] | None":
        """Run to the end with a crash that loses no data, and enumerate the crash states."""
        record = situation.record_with_crash(moment, situation.profiles[0], decisions)
        choices, schedule = Choices.for_replay(record.decisions), ReplayPolicy(record.schedule)
        simulation = Simulation(choices, schedule, crashes=record.crashes)
        crashed = WholeRunCrash(self._program, situation, moment, record.decisions)

        def on_crash(life: str, disk: Disk) -> None:
            if life == situation.life:
                crashed.write_bytes = write_bytes_of(choices.decisions(), moment.point)
                crashed.enumerate(disk, self._limit)

        simulation.on_crash = on_crash
        crashed.signature = execute(self._program, record.setup, simulation).signature
        return crashed if crashed.has_died or crashed.signature else None


class WholeRunCrash(Generic[Setup, Result]):
    """A crashed machine in a run of any program, and its states."""

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
        self.has_died = True
        self.site_offset = 0 if disk.crash_site is None else disk.crash_site.at
        chances = Choices(f"explore/{self._situation.depth}")
        for profile in self._situation.profiles:
            stream = chances.stream(f"{self._moment} {profile}")
            states = disk.crash_states(PROFILES[profile], limit, stream)
            self._states[profile] = [CrashChoice(state, states, self._situation.stream) for state in states]
            self._extents[profile] = (states.is_exhaustive, states.was_cut)

    def choices(self, profile: str) -> Iterator[CrashChoice]:
        yield from self._states[profile]

    def completeness(self, profile: str) -> tuple[bool, bool]:
        return self._extents[profile]

    def promises(self, profile: str) -> str:
        """Return a text that differs for every crash, because the promises are unknown."""
        return f"{self._moment} {profile}"

    def judge(self, profile: str, choice: CrashChoice) -> str:
        """Replay the whole program with this crash state."""
        record = self._situation.record_with_crash(self._moment, profile, (*self.decisions, *choice.decisions()))
        return replay(self._program, record).result.signature


def situation_of(
    program: Program[Setup, Result], setup: Setup, first: Simulation, *, life: str = "", profiles: Sequence[str] = ()
) -> tuple[Situation[Setup] | None, Result]:
    """Run the program without crashes. Return the situation of one process run (None after a failure) and the result.

    first: a simulation without planned crashes. life: name of the process run; default: the first that may crash.
    profiles: default: the program's profiles. ValueError: no such process run.
    """
    result = execute(program, setup, first)
    if result.signature:
        return None, result
    names = list(first.triggers)
    if not names or (life and life not in names):
        raise ValueError(f"life: expected one of those that may crash, {', '.join(names)}, found {life or 'none'}")
    life = life or names[0]
    record = record_of(program, setup, first, result).record
    log, schedule = OperationLog(), ReplayPolicy(record.schedule)
    again = Simulation(Choices.for_replay(record.decisions), schedule, crashes=())
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
    explorer = Explorer(explorable, situation, found, samples_max=samples_max)
    with leak_guard():  # one guard around all runs makes the guard of each run cheap
        for number in numbers:
            with collect_garbage_at_end():
                explorer.explore(number)
    return found


def _missing_label(point: CrashPoint) -> str:
    return f"bytes not written {point.path}"


def write_bytes_of(decisions: Sequence[Decision], point: CrashPoint) -> int:
    """Return the length of an interrupted write, or 0, from the decision about its missing bytes."""
    label = _missing_label(point)
    return next((one.options - 1 for one in reversed(decisions) if one.label == label), 0)


def _missing_byte_counts(left: CrashedRun) -> list[int]:
    """Return a few numbers of missing bytes, above 1, that mostly end the write at a sector end."""
    size_bytes = left.write_bytes
    sectors = range(_SECTOR_BYTES - left.site_offset % _SECTOR_BYTES, size_bytes, _SECTOR_BYTES)
    reached = dict.fromkeys([1, size_bytes // 2, *sectors])
    return [size_bytes - some for some in reached if 0 < some < size_bytes - 1][:_INSIDE_MAX]
