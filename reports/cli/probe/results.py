"""Data of a probe, from which its result is built."""

from collections.abc import Sequence
from dataclasses import dataclass

from ....faults.disk.image import Image
from ....faults.probe.checks.check import Check
from ....faults.probe.failure import RECOVERY, ProbeFinding
from ....faults.probe.probe import ProbeReport, ViolationGroup
from ....faults.probe.record import REFUSED_PREFIX, ProgramRecord
from ....faults.probe.recovery import Recoveries
from ....faults.probe.reruns import Reruns
from ...quantities import count_text
from .breach_text import ProbeBreach


@dataclass(frozen=True, slots=True)
class ProbeResults:
    """The data of one probe. Recoveries and reruns are None unless requested."""

    record: ProgramRecord
    start: Image
    check: Check
    limit: int
    found: ProbeReport
    findings: Sequence[ProbeFinding]
    """The first STORIES_MAX findings in `found`. `recovered` and `differing` have the same limit."""
    recoveries: Recoveries | None = None
    recovered: Sequence[ProbeFinding] = ()
    reruns: Reruns | None = None
    differing: Sequence[ProbeFinding] = ()
    allowed: Sequence[str] = ()
    """Calls of the program that were not recorded, but that --allow permits."""
    said: str = ""
    """The end of the concatenated output of all checks."""
    command: str = ""
    seconds: float = 0.0
    hint: str = ""
    """A hint for the user if recoveries could not be recorded."""
    takes_refusals: bool = False
    ended: str = ""
    """The signal or limit that ended the probe early."""

    @property
    def all_findings(self) -> list[ProbeFinding]:
        return [*self.findings, *self.recovered, *self.differing]

    @property
    def kinds(self) -> int:
        """Return the number of distinct breaches, including those without a finding."""
        others = (one.breaches for one in (self.recoveries, self.reruns) if one is not None)
        return len(self.found.breaches) + sum(map(len, others))

    @property
    def refusals(self) -> int:
        """Return the number of operations that the program refused, in all runs."""
        return len(self.record.refused) + (0 if self.reruns is None else self.reruns.refusals)

    @property
    def notes(self) -> list[str]:
        """Return the reasons why a result without breaches proves little."""
        notes = self.found.notes(self.record)
        if self.takes_refusals and not self.refusals:
            notes.append(f"--refusals: expected a promise that starts with '{REFUSED_PREFIX}', found none in any run")
        return notes

    @property
    def crash_gaps(self) -> list[str]:
        """Describe the requested crashes that were not tried."""
        if self.found.is_finished or self.found.is_of_end:
            return []
        return [f"crashes after step {self.found.steps:,} of {len(self.record.steps):,} were not tried"]

    @property
    def recovery_gaps(self) -> list[str]:
        """Describe the requested recoveries without a verdict."""
        if self.recoveries is None:
            return []
        discarded = sum(self.recoveries.refused.values())
        return [f"{count_text(discarded, 'recovery', 'recoveries')} could not be recorded"] if discarded else []

    @property
    def rerun_gaps(self) -> list[str]:
        """Describe the requested reruns without a verdict."""
        if self.reruns is None:
            return []
        untried, discarded = self.reruns.untried, sum(self.reruns.refused.values())
        return [
            *([f"{count_text(discarded, 'run')} could not be recorded"] if discarded else []),
            *([f"not tried to the end: {', '.join(untried)}"] if untried else []),
        ]

    @property
    def gaps(self) -> list[str]:
        """Describe all parts of the probe without a verdict."""
        gaps = [*self.crash_gaps, *self.recovery_gaps, *self.rerun_gaps]
        return [f"the probe was ended by {self.ended}", *gaps] if self.ended and gaps else gaps

    @property
    def verdict(self) -> str:
        """Return the verdict as a short text."""
        if self.kinds:
            return kinds_of_breach(self.kinds)
        return f"no promise was broken, but {'; '.join(self.gaps)}" if self.gaps else "every promise held"

    def breaches(self) -> list[ProbeBreach]:
        """Return all findings with the numbers of their states."""
        return [_breach(finding, self._group(finding)) for finding in self.all_findings]

    def _group(self, finding: ProbeFinding) -> ViolationGroup:
        if not finding.kind:
            return self.found.breaches[finding.signature]
        if finding.kind == RECOVERY:
            assert self.recoveries is not None, "a finding of a recovery without recoveries"
            return self.recoveries.breaches[finding.signature].group
        assert self.reruns is not None, "a finding of a rerun without reruns"
        return self.reruns.breaches[finding.kind, finding.signature].group


def _breach(finding: ProbeFinding, group: ViolationGroup) -> ProbeBreach:
    disks = dict.fromkeys([finding.shown.case.disk, *group.disks])
    return ProbeBreach(finding, group.states, len(group.points), tuple(disks))


def kinds_of_breach(count: int) -> str:
    return count_text(count, "kind of breach", "kinds of breach")
