"""Crash states of one run: each moment a machine can die at, each state it can leave, recovered and judged.

    draw a run → record the operations of its first life → for each of them, before, after, and inside:
        die there, again from the record → for each crash the plan's disk knows: enumerate what may be left
            → recover each image in a fresh machine → judge it by what had been promised there

The record is run again up to each moment, so what had been promised is what a run says, not a copy kept on the side.
An image that has been judged under the same promises is not recovered again, whichever moment it is met at; the same
image under other promises is, for these may be newer. Both are compared by digest (`Image.digest`, without times, and
`oracle.state_digest`). The first life ends in a stop, so that crashes in the midst of stopping are among them.

With nest, some of the images, those with the least digests, are recovered by a machine that dies at each operation of
its load, and so on; what a process kill has left is not copied for that: its disk is mounted again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ...faults.crashes.enumeration import CrashStates
from ...faults.crashes.profiles import PROFILES
from ...faults.disk.crash_trigger import CrashPoint
from ...faults.disk.disk import Disk
from ...faults.disk.fault_injector import CrashPhase
from ...sim.choices import Choices, Decision
from ...sim.errors import ReplayDivergedError
from ...sim.policies.replay import Labelling, Replay
from ...sim.process import garbage_kept
from ...sim.schedule import Switch
from ..claims.disk_models import DISK_MODELS
from ..claims.plan import Life, LifeEnding, Plan
from ..claims.scenario import Scenario
from ..oracle.evidence import Violation
from .explore_runs import CrashedRun, DyingRun, OperationRecorder, RecoveringRun
from .failures.failing_run import FailingRun, RunRecord
from .failures.replay import breach_of, replay
from .seeds import draw

LIMIT = 256
NEST_SAMPLES = 4
"""How many images of each depth are recovered by machines that die."""
_WRITES = ("store", "pwrite", "write")
_SYNCS = ("msync", "fdatasync", "sync", "sync directory")
_SECTOR_BYTES = 512
_INSIDE_MAX = 6
"""Of one write, how many of its beginnings are tried."""


@dataclass(frozen=True, slots=True)
class ExploreSettings:
    """How thoroughly to explore. limit: states per moment and kind of crash. heal: use each recovered store, too."""

    limit: int = LIMIT
    nest: int = 0
    heal: bool = False
    messages_each: int | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """A record of a run whose last life ends nowhere yet, and the operations of that life.

    plan: its last life is the one to end. lives before it end as they do.
    """

    plan: Plan
    decisions: tuple[Decision, ...]
    schedule: tuple[Switch, ...]
    points: tuple[CrashPoint, ...]
    stream: str
    """From which the disk of the last life draws."""

    @property
    def depth(self) -> int:
        """Return how many crashes came before."""
        return len(self.plan.lives) - 1


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
class StateSample:
    """A state to go on from: its digest, and the record that leads to it."""

    digest: str
    plan: Plan = field(compare=False)
    decisions: tuple[Decision, ...] = field(compare=False)
    schedule: tuple[Switch, ...] = field(compare=False)


@dataclass(slots=True)
class ExplorationCounts:
    """What exploring came to: by depth and kind of operation, and every distinct image and judgement by its digest."""

    counts: dict[tuple[int, str], OperationCount] = field(default_factory=dict)
    images: set[str] = field(default_factory=set)
    judged: set[tuple[str, str]] = field(default_factory=set)
    breaches: dict[str, FailingRun] = field(default_factory=dict)
    """The first breach of each signature."""
    samples: list[StateSample] = field(default_factory=list)

    def add(self, other: "ExplorationCounts") -> None:
        """Take in what was found elsewhere."""
        for key, count in other.counts.items():
            self.counts.setdefault(key, OperationCount()).add(count)
        self.images |= other.images
        self.judged |= other.judged
        for signature, breach in other.breaches.items():
            self.breaches.setdefault(signature, breach)
        for sample in other.samples:
            if self.would_sample(sample.digest):
                self.sample(sample)

    def would_sample(self, digest: str) -> bool:
        """Return whether an image has one of the least digests so far, and is not among the samples."""
        if any(sample.digest == digest for sample in self.samples):
            return False
        return len(self.samples) < NEST_SAMPLES or digest < self.samples[-1].digest

    def sample(self, sample: StateSample) -> None:
        """Keep a state to go on from, in place of the one with the greatest digest if there are enough."""
        self.samples = sorted([*self.samples, sample])[:NEST_SAMPLES]

    @property
    def total(self) -> OperationCount:
        """Return the sum over all depths and kinds."""
        total = OperationCount()
        for count in self.counts.values():
            total.add(count)
        return total


def first_life(scenario: Scenario, seed: int, messages_each: int | None = None) -> Plan:
    """Return a seed's plan with its first life only, which ends in a stop."""
    plan = draw(scenario, seed)[1]
    each = plan.lives[0].messages_each if messages_each is None else messages_each
    return replace(plan, lives=(Life(LifeEnding.STOP, "process-kill", -1, CrashPhase.BEFORE, each),))


def record(plan: Plan, choices: Choices) -> Situation | None:
    """Run a plan of one life and return its record; None if it breaks a promise without any crash."""
    run = DyingRun(plan, choices)
    run.die()
    if run.violations:
        return None
    decisions = tuple(one for one in choices.decisions() if one.stream not in ("plan", "schedule"))
    labelling, recorder = Labelling(run.schedule), OperationRecorder(plan)
    again = DyingRun(plan, Choices.replaying(decisions), labelling, crash_points=recorder)
    again.die()
    if labelling.left or again.schedule != run.schedule:
        raise ReplayDivergedError("schedule", 0, len(run.schedule), len(again.schedule))
    points = tuple(recorder.points)
    return Situation(plan, decisions, tuple(labelling.labelled), points, again.stream_name)


def nested(sample: StateSample) -> Situation:
    """Return the situation of a machine that recovers a state: the operations of its load."""
    life = Life(LifeEnding.CRASH_IN_LOAD, "process-kill", -1, CrashPhase.BEFORE, 0)
    plan = replace(sample.plan, lives=(*sample.plan.lives, life))
    recorder = OperationRecorder(plan)
    run = DyingRun(plan, Choices.replaying(sample.decisions), Replay(sample.schedule), crash_points=recorder)
    recorder.run = run
    run.die()
    return Situation(plan, sample.decisions, sample.schedule, tuple(recorder.points), run.stream_name)


class Explorer:
    """Walks moments of one situation; what is judged already, as `found` has it, is not judged again."""

    def __init__(self, situation: Situation, settings: ExploreSettings, found: ExplorationCounts) -> None:
        self._situation = situation
        self._settings = settings
        self._found = found
        self._profiles = tuple(dict.fromkeys(DISK_MODELS[situation.plan.disk].crashes))
        self._chances = Choices(f"explore/{situation.depth}")
        self._fingerprint = ""
        self._states: dict[str, CrashStates] = {}
        """By profile, those of the last moment, which the next one has, too, unless the disk has changed."""

    def explore(self, number: int) -> None:
        """Try every crash before, after and inside the operation of that number."""
        point = self._situation.points[number]
        self._explore_moment(CrashMoment(point, CrashPhase.BEFORE))
        if point.kind in _SYNCS:
            self._explore_moment(CrashMoment(point, CrashPhase.DURING))
        elif point.kind in _WRITES:
            left = self._explore_moment(CrashMoment(point, CrashPhase.DURING, 1))
            for missing in () if left is None else _beginnings(left, point):
                self._explore_moment(CrashMoment(point, CrashPhase.DURING, missing))
        self._explore_moment(CrashMoment(point, CrashPhase.AFTER))

    def _explore_moment(self, moment: CrashMoment) -> CrashedRun | None:
        count = self._found.counts.setdefault((self._situation.depth, moment.point.kind), OperationCount())
        count.moments += 1
        decisions = (*self._situation.decisions, *self._missing(moment))
        run = DyingRun(
            self._plan(moment, self._profiles[0]),
            Choices.replaying(decisions),
            Replay(self._situation.schedule),
            profiles=self._profiles,
        )
        left = run.die()
        if left is not None:
            for profile in self._profiles:
                self._explore_crash(moment, left, profile, count)
            return left
        if not run.violations:
            raise ReplayDivergedError("moment", 0, str(moment), "the run does not come to it")
        count.violations += 1
        self._keep(self._plan(moment, self._profiles[0]), decisions, run.violations)
        return None

    def _explore_crash(
        self, moment: CrashMoment, left: CrashedRun, profile: str, count: OperationCount
    ) -> None:
        promised = left.promised[profile]
        states = self._states_of(left.disk, profile, str(moment))
        plan, found = self._plan(moment, profile), self._found
        for state in states:
            count.states += 1
            digest = state.digest
            found.images.add(digest)
            key = (digest, promised.state)
            if key in found.judged:
                continue
            found.judged.add(key)
            count.judged += 1
            with garbage_kept():
                violations = RecoveringRun(plan, promised, state.image).violations(heal=self._settings.heal)
            is_sample = self._settings.nest > self._situation.depth and found.would_sample(digest)
            if not violations and not is_sample:
                continue
            decisions = (*left.decisions, *states.decisions(state, self._situation.stream))
            if violations:
                count.violations += 1
                self._keep(plan, decisions, violations)
            else:
                found.sample(StateSample(digest, plan, decisions, self._situation.schedule))
        count.crashes += 1
        count.exhausted += states.is_exhaustive
        count.cut += states.was_cut

    def _states_of(self, disk: Disk, profile: str, moment: str) -> CrashStates:
        fingerprint = disk.fingerprint()
        if fingerprint != self._fingerprint:
            self._fingerprint = fingerprint
            self._states = {}
        states = self._states.get(profile)
        if states is None:
            stream = self._chances.stream(f"{moment} {profile}")
            states = disk.crash_states(PROFILES[profile], self._settings.limit, stream)
            self._states[profile] = states
        return states

    def _plan(self, moment: CrashMoment, profile: str) -> Plan:
        """Return the plan with its last life ending like that."""
        *before, last = self._situation.plan.lives
        dying = replace(last, profile=profile, moment=moment.when, crash_point=str(moment.point))
        return replace(self._situation.plan, lives=(*before, dying))

    def _missing(self, moment: CrashMoment) -> Iterator[Decision]:
        """Yield the decision on how many bytes are missing of the write that a machine dies in."""
        if moment.missing:
            label = _missing_label(moment.point)
            drawn = [one for one in self._situation.decisions if one[:2] == (self._situation.stream, label)]
            yield Decision(self._situation.stream, label, len(drawn) + 1, moment.missing + 1, moment.missing)

    def _keep(self, plan: Plan, decisions: tuple[Decision, ...], violations: list[Violation]) -> None:
        """Keep the first breach of each signature, as a replay has it."""
        signature = violations[0].signature
        if signature in self._found.breaches:
            return
        replayed = replay(RunRecord(decisions, self._situation.schedule, plan))
        seen = replayed.outcome.violations
        if not seen or seen[0].signature != signature:
            raise ReplayDivergedError("violation", 0, str(violations[0]), str(seen[0]) if seen else "none")
        self._found.breaches[signature] = breach_of(replayed.record)


def _missing_label(point: CrashPoint) -> str:
    return f"bytes not written {point.path}"


def _beginnings(left: CrashedRun, point: CrashPoint) -> list[int]:
    """Return how many bytes may be missing of the write that a machine has died in, beside 1: a few of all."""
    label = _missing_label(point)
    size_bytes = next(one.options - 1 for one in reversed(left.decisions) if one.label == label)
    met = left.disk.met
    assert met is not None, point
    sectors = range(_SECTOR_BYTES - met.at % _SECTOR_BYTES, size_bytes, _SECTOR_BYTES)
    reached = dict.fromkeys([1, size_bytes // 2, *sectors])
    return [size_bytes - some for some in reached if 0 < some < size_bytes - 1][:_INSIDE_MAX]
