"""Report of a probe: counts by disk, breaches by signature, and reactions to damage at rest."""

from collections import Counter
from dataclasses import dataclass, field

from ...sim.choices import Decision
from ..crashes.at_rest import AT_REST, DamagedState
from ..crashes.enumeration import CrashState
from ..crashes.profiles import PROFILES, Metadata
from .checks.check import CheckOutcome
from .record import ProgramRecord
from .replay import Point

_QUOTED_MAX = 60


def is_breach(verdict: CheckOutcome, state: CrashState) -> bool:
    return verdict.is_breach(is_damaged=isinstance(state, DamagedState) and state.damage is not None)


@dataclass(slots=True)
class DiskCount:
    """Counts for one kind of disk."""

    crashes: int = 0
    exhausted: int = 0
    """Number of crashes with all states tried."""
    cut: int = 0
    """Number of crashes with states beyond the limit."""
    states: int = 0
    broken: int = 0


@dataclass(frozen=True, slots=True)
class CrashCase:
    """One broken state: crash point, disk, and the decisions that select the losses."""

    point: Point
    disk: str
    decisions: tuple[Decision, ...]
    digest: str
    verdict: CheckOutcome
    losses: int

    @property
    def severity(self) -> tuple[bool, bool, bool, bool]:
        """Return a sort key that puts the most severe case first.

        Order: confirmed before assumed time-outs, cases after a promise or refusal before others, process kills before
        power cuts, real file systems before profiles that only POSIX allows, damage at rest last.
        """
        if self.disk in AT_REST:
            return self.verdict.is_assumed, not self.point.answers, True, True
        profile = PROFILES[self.disk]
        return (
            self.verdict.is_assumed,
            not self.point.answers,
            not profile.page_cache_survives,
            profile.metadata is Metadata.ANY,
        )

    @property
    def size(self) -> tuple[int, int, int]:
        """Return a sort key: number of losses, then of operations, then of promises and refusals."""
        return self.losses, self.point.operations, self.point.answers

    @property
    def rank(self) -> tuple[tuple[bool, bool, bool, bool], tuple[int, int, int]]:
        """Return the sort key of the case to print."""
        return self.severity, self.size


@dataclass(slots=True)
class ViolationGroup:
    """All broken states with one signature. smallest: the case with the lowest rank."""

    smallest: CrashCase
    states: int = 0
    points: set[int] = field(default_factory=set)
    """Crash points, as numbers of disk operations."""
    disks: dict[str, int] = field(default_factory=dict)

    def merged_with(self, other: "ViolationGroup", smallest: CrashCase) -> "ViolationGroup":
        disks = dict(Counter(self.disks) + Counter(other.disks))
        assert sum(disks.values()) == self.states + other.states, "each broken state counts on one disk"
        return ViolationGroup(smallest, self.states + other.states, self.points | other.points, disks)


@dataclass(slots=True)
class DamageCount:
    """Reactions of the check to the damage of one file at rest."""

    noticed: int = 0
    unnoticed: int = 0
    """Number of states with a broken promise and no report of the damage."""
    harmless: int = 0

    @property
    def states(self) -> int:
        return self.noticed + self.unnoticed + self.harmless


@dataclass(slots=True)
class ProbeReport:
    """Counts, breaches and faults of a probe."""

    counts: dict[str, DiskCount]
    breaches: dict[str, ViolationGroup] = field(default_factory=dict)
    points: int = 0
    points_of: int = 0
    """Number of crash points of the record in an even visit; else 0."""
    operations: int = 0
    steps: int = 0
    """Number of completed steps, if crash points are visited in order."""
    tried_first: set[Point] = field(default_factory=set)
    """Completed crash points of failures from earlier probes."""
    failed_first: set[Point] = field(default_factory=set)
    """Crash points of failures from earlier probes at which a new breach was found."""
    is_finished: bool = False
    """Whether the probe tried all its crash points."""
    is_of_end: bool = False
    """Whether the probe checked only the state at the end of the run."""
    images: set[int] = field(default_factory=set)
    judged: int = 0
    seconds: float = 0.0
    injected: set[str] = field(default_factory=set)
    """Faults that at least one state has, by the names in `kinds`."""
    damage_left: int = 0
    """Number of points at which an even visit did not try damage at rest."""
    damage: dict[tuple[str, str], DamageCount] = field(default_factory=dict)
    """Reactions to damage at rest, by disk and damaged file."""
    combined: int = 0
    """Number of tried combinations of states of several disks."""
    combinations: int = 0
    """Number of possible combinations."""
    enabled: tuple[str, ...] = ()
    """Faults that the program's calls and the disks allow."""

    @property
    def never_injected(self) -> list[str]:
        """Return the possible faults that no state has. Empty after an early end."""
        return [name for name in self.enabled if name not in self.injected] if self.is_finished else []

    @property
    def is_sample(self) -> bool:
        """Return whether the probe tried exactly the crash points of a sample."""
        return self.is_finished and self.points < self.points_of

    @property
    def states(self) -> int:
        return sum(count.states for count in self.counts.values())

    def notes(self, record: ProgramRecord) -> list[str]:
        """Return reasons why a result without breaches proves little."""
        found = []
        if self.is_of_end and self.breaches:
            found.append(
                "the check rejects the state at the end of the run, even without a crash, so no crash was tried. "
                "Fix the program or the check"
            )
        if not record.acknowledged:
            found.append("no promise was recorded: the program printed no complete line")
        if record.unended:
            text = record.unended[-_QUOTED_MAX:]
            found.append(f"the last line of output is no promise, because it has no line break: {text!r}")
        return found

    @property
    def in_order(self) -> list[tuple[str, ViolationGroup]]:
        """Return the breaches, most severe first, then smallest first."""
        return sorted(self.breaches.items(), key=lambda one: (one[1].smallest.rank, one[0]))
