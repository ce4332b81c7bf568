"""Findings of a probe, from which its result is built."""

from collections.abc import Sequence
from dataclasses import dataclass

from ....faults.disk.image import Image
from ....faults.probe.checks.check import Check
from ....faults.probe.failure import RECOVERY, ProbeFinding
from ....faults.probe.probe import ProbeReport, ViolationGroup
from ....faults.probe.record import ProgramRecord
from ....faults.probe.recovery import Recoveries
from ....faults.probe.reruns import Reruns
from ...results.words import counted
from .breach_text import ProbeBreach


@dataclass(frozen=True, slots=True)
class ProbeResults:
    """One probe. Recoveries and reruns are None if they were not asked for."""

    record: ProgramRecord
    start: Image
    check: Check
    limit: int
    found: ProbeReport
    findings: Sequence[ProbeFinding]
    """Of crashes of the program: the first STORIES_MAX of `found`. So it is with `recovered` and `differing`."""
    recoveries: Recoveries | None = None
    recovered: Sequence[ProbeFinding] = ()
    reruns: Reruns | None = None
    differing: Sequence[ProbeFinding] = ()
    allowed: Sequence[str] = ()
    """Calls of the program that were not recorded, and are harmless here."""
    said: str = ""
    """The end of the output of the checks, of all states together."""
    command: str = ""
    seconds: float = 0.0
    hint: str = ""
    """A remedy for recoveries that could not be recorded."""
    ended: str = ""
    """The signal or the limit that has ended it early."""

    @property
    def all_findings(self) -> list[ProbeFinding]:
        """Return those of all kinds."""
        return [*self.findings, *self.recovered, *self.differing]

    @property
    def kinds(self) -> int:
        """Return the number of kinds of breach, those without a finding included."""
        others = (one.breaches for one in (self.recoveries, self.reruns) if one is not None)
        return len(self.found.breaches) + sum(map(len, others))

    @property
    def crash_gaps(self) -> list[str]:
        """Return the crashes that the probe was asked for and has not tried."""
        if self.found.is_finished or self.found.is_of_end:
            return []
        return [f"crashes after step {self.found.steps:,} of {len(self.record.steps):,} were not tried"]

    @property
    def recovery_gaps(self) -> list[str]:
        """Return the recoveries that the probe was asked for and that have no verdict."""
        if self.recoveries is None:
            return []
        discarded = sum(self.recoveries.refused.values())
        return [f"{counted(discarded, 'recovery', 'recoveries')} could not be recorded"] if discarded else []

    @property
    def rerun_gaps(self) -> list[str]:
        """Return the reruns that the probe was asked for and that have no verdict."""
        if self.reruns is None:
            return []
        untried, discarded = self.reruns.untried, sum(self.reruns.refused.values())
        return [
            *([f"{counted(discarded, 'run')} could not be recorded"] if discarded else []),
            *([f"not tried to the end: {', '.join(untried)}"] if untried else []),
        ]

    @property
    def gaps(self) -> list[str]:
        """Return the parts of the probe that have no verdict. Silence about them is no proof."""
        gaps = [*self.crash_gaps, *self.recovery_gaps, *self.rerun_gaps]
        return [f"the probe was ended by {self.ended}", *gaps] if self.ended and gaps else gaps

    @property
    def verdict(self) -> str:
        """Return the verdict in a few words."""
        if self.kinds:
            return kinds_of_breach(self.kinds)
        return f"no promise was broken, but {'; '.join(self.gaps)}" if self.gaps else "every promise held"

    def breaches(self) -> list[ProbeBreach]:
        """Return all findings with how often each was met."""
        return [_breach(finding, self._group(finding)) for finding in self.all_findings]

    def _group(self, finding: ProbeFinding) -> ViolationGroup:
        if not finding.kind:
            return self.found.breaches[finding.signature]
        if finding.kind == RECOVERY:
            assert self.recoveries is not None, "who finds something has looked"
            return self.recoveries.breaches[finding.signature].group
        assert self.reruns is not None, "who finds something has looked"
        return self.reruns.breaches[finding.kind, finding.signature].group


def _breach(finding: ProbeFinding, group: ViolationGroup) -> ProbeBreach:
    disks = dict.fromkeys([finding.shown.case.disk, *group.disks])
    return ProbeBreach(finding, group.states, len(group.points), tuple(disks))


def kinds_of_breach(count: int) -> str:
    """Return in words how many there are."""
    return counted(count, "kind of breach", "kinds of breach")
