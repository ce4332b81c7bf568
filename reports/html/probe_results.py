"""What probing a program came to, as its page, its documents and its summary take it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ...faults.disk.image import Image
from ...faults.probe.checks.check import Check
from ...faults.probe.failure import RECOVERY, ProbeFinding
from ...faults.probe.probe import Example, ProbeReport, ViolationGroup
from ...faults.probe.record import ProgramRecord
from ...faults.probe.recovery import Recoveries
from ...faults.probe.reruns import Reruns

Places = Mapping[tuple[str, str], Path]
"""Where failures are kept, by their kind and signature."""


class ProbeLinks(NamedTuple):
    """What is left of a finding: files by their paths beside the page, "" if there is none."""

    again: str
    """The command that shows it again."""
    file: str = ""
    directory: str = ""
    """With what the crash left."""
    timeline: str = ""


@dataclass(frozen=True, slots=True)
class ProbeBreach:
    """A finding, and how often the same was met."""

    finding: ProbeFinding
    states: int
    points: int
    disks: tuple[str, ...]
    """That of the finding first."""
    others: tuple[str, ...] = ()
    """Signatures of other messages that it stands for."""


@dataclass(frozen=True, slots=True)
class ProbeResults:
    """One probe. Recoveries and reruns are None if they were not asked for."""

    record: ProgramRecord
    start: Image
    check: Check
    limit: int
    found: ProbeReport
    examples: Sequence[Example]
    findings: Sequence[ProbeFinding]
    """Of crashes of the program, one for each example."""
    recoveries: Recoveries | None = None
    recovered: Sequence[ProbeFinding] = ()
    reruns: Reruns | None = None
    differing: Sequence[ProbeFinding] = ()
    allowed: Sequence[str] = ()
    """What the program did that was not recorded, and is harmless here."""
    said: str = ""
    """The end of what checks have written, of all states together."""
    command: str = ""
    seconds: float = 0.0
    links: Mapping[tuple[str, str], ProbeLinks] = field(default_factory=dict)
    """By the kind of a finding, and its signature."""

    @property
    def all_findings(self) -> list[ProbeFinding]:
        """Return those of all kinds."""
        return [*self.findings, *self.recovered, *self.differing]

    def breaches(self) -> list[ProbeBreach]:
        """Return all findings with how often each was met."""
        pairs = zip(self.findings, self.examples, strict=True)
        return [
            *(_of_example(finding, example) for finding, example in pairs),
            *(_of_group(finding, self._group(finding)) for finding in (*self.recovered, *self.differing)),
        ]

    def _group(self, finding: ProbeFinding) -> ViolationGroup:
        if finding.kind == RECOVERY:
            assert self.recoveries is not None, "who finds something has looked"
            return self.recoveries.breaches[finding.signature].group
        assert self.reruns is not None, "who finds something has looked"
        return self.reruns.breaches[finding.kind, finding.signature].group


def _of_example(finding: ProbeFinding, example: Example) -> ProbeBreach:
    others = tuple(signature for signature in example.breaches if signature != example.signature)
    return ProbeBreach(finding, example.states, len(example.points), tuple(example.disks), others)


def _of_group(finding: ProbeFinding, group: ViolationGroup) -> ProbeBreach:
    disks = dict.fromkeys([finding.shown.case.disk, *group.disks])
    return ProbeBreach(finding, group.states, len(group.points), tuple(disks))


def kinds_of_breach(count: int) -> str:
    """Return in words how many there are."""
    return f"{count:,} kind{'' if count == 1 else 's'} of breach"
