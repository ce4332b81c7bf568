"""The report of a probe: counts by disk, broken states by signature, and reactions to damage at rest."""

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
    """Return whether a verdict on a state is a breach."""
    return verdict.is_breach(is_damaged=isinstance(state, DamagedState) and state.damage is not None)


@dataclass(slots=True)
class DiskCount:
    """Counts for one kind of disk."""

    crashes: int = 0
    exhausted: int = 0
    """Number of crashes of which every state was tried."""
    cut: int = 0
    """Number of crashes of which the limit left states out."""
    states: int = 0
    broken: int = 0


@dataclass(frozen=True, slots=True)
class CrashCase:
    """One broken state: moment, disk, and the decisions that select the losses."""

    point: Point
    disk: str
    decisions: tuple[Decision, ...]
    digest: str
    verdict: CheckOutcome
    losses: int

    @property
    def severity(self) -> tuple[bool, bool, bool, bool]:
        """Return a sort key that puts the most severe case first.

        Assumed time-outs are last, so that a group with a confirmed one is shown by that one. Cases after a promise or
        a refusal are most severe. Next, a process kill is more severe than a power cut, and a real file system more
        severe than a profile that only POSIX allows. Damage at rest is least severe.
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
        """Return a sort key that puts the case with the fewest losses first, then operations, then answers."""
        return self.losses, self.point.operations, self.point.answers

    @property
    def rank(self) -> tuple[tuple[bool, bool, bool, bool], tuple[int, int, int]]:
        """Return the sort key that selects the case to print: severity, then size."""
        return self.severity, self.size


@dataclass(slots=True)
class ViolationGroup:
    """All broken states with one signature. smallest: the first case by rank."""

    smallest: CrashCase
    states: int = 0
    points: set[int] = field(default_factory=set)
    """Numbers of disk operations before the crashes."""
    disks: dict[str, int] = field(default_factory=dict)

    def merged_with(self, other: "ViolationGroup", smallest: CrashCase) -> "ViolationGroup":
        """Return a group with the states of both groups."""
        disks = dict(Counter(self.disks) + Counter(other.disks))
        assert sum(disks.values()) == self.states + other.states, "each broken state counts on one disk"
        return ViolationGroup(smallest, self.states + other.states, self.points | other.points, disks)


@dataclass(slots=True)
class DamageCount:
    """Reactions of the check to the damage of one file at rest."""

    noticed: int = 0
    unnoticed: int = 0
    """Number of states in which a promise is broken, and the program did not report the damage."""
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
    """Number of crash points of the record, if they are visited evenly; else 0."""
    operations: int = 0
    steps: int = 0
    """Number of first steps after which all crashes were tried. Only if crash points are visited in order."""
    tried_first: set[Point] = field(default_factory=set)
    """Points of the failures of earlier runs of which all crashes were tried."""
    failed_first: set[Point] = field(default_factory=set)
    """Points of the failures of earlier runs at which a new breach was found."""
    is_finished: bool = False
    """Whether all crash points were tried, or all of the sample."""
    is_of_end: bool = False
    """Whether only the state at the end of the run was checked, without any crash."""
    images: set[int] = field(default_factory=set)
    judged: int = 0
    seconds: float = 0.0
    injected: set[str] = field(default_factory=set)
    """Faults that occurred in at least one state, by the names in `kinds`."""
    damage_left: int = 0
    """Number of points whose damage at rest was not tried, if points are visited evenly."""
    damage: dict[tuple[str, str], DamageCount] = field(default_factory=dict)
    """Reactions to damage at rest, by disk and damaged file."""
    combined: int = 0
    """Number of combinations of the states of several disks that were tried, of all crashes."""
    combinations: int = 0
    """Number of possible ones."""
    enabled: tuple[str, ...] = ()
    """Faults that are possible with the program's calls and the disks."""

    @property
    def never_injected(self) -> list[str]:
        """Return the possible faults that occurred in no state. Empty if the probe ended early."""
        return [name for name in self.enabled if name not in self.injected] if self.is_finished else []

    @property
    def is_sample(self) -> bool:
        """Return whether all crash points of a sample were tried, and no others."""
        return self.is_finished and self.points < self.points_of

    @property
    def states(self) -> int:
        return sum(count.states for count in self.counts.values())

    def notes(self, record: ProgramRecord) -> list[str]:
        """Return the reasons why a result without breaches proves little."""
        found = []
        if self.is_of_end and self.breaches:
            found.append(
                "the check does not accept the state at the end of the run, without any crash, so no crash was tried. "
                "Either the program has this bug without a crash, or the check is wrong. Mend one of them to go on"
            )
        if not self.operations and self.is_finished:
            found.append("no operation was recorded: nothing in the program's directory was changed")
        if not record.acknowledged:
            found.append("nothing was promised: the program has ended no line of output")
        if record.unended:
            text = record.unended[-_QUOTED_MAX:]
            found.append(f"the last line of output is no promise, for it was not ended: {text!r}")
        return found

    @property
    def in_order(self) -> list[tuple[str, ViolationGroup]]:
        """Return the breaches, most severe first, then smallest first."""
        return sorted(self.breaches.items(), key=lambda one: (one[1].smallest.rank, one[0]))
