"""Probe data: defines the data from which the result of a probe is built, and the text of a breach."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ....faults.crashes.at_rest import AT_REST
from ....faults.crashes.profiles import NOTHING_LOST
from ....faults.disk.image import Image
from ....faults.probe.checks.check import Check
from ....faults.probe.failure import RECOVERY, ProbeFinding
from ....faults.probe.record import REFUSED_PREFIX, Answers, ProgramRecord
from ....faults.probe.recovery import Recoveries
from ....faults.probe.report import ProbeReport, ViolationGroup
from ....faults.probe.reruns import Reruns
from ....faults.probe.shrink import loss_note
from ....faults.probe.story import crash_text, loss_origin_text, own_line, story
from ....faults.simulation.failure_text import FailureText, LineKind, TextLine
from ...quantities import count_text
from ..corpus import CorpusOutcome


@dataclass(frozen=True, slots=True)
class _TextLimits:
    violations: int
    losses: int
    answers: int


_BRIEF, _FULL = _TextLimits(3, 8, 3), _TextLimits(5, 20, 5)


@dataclass(frozen=True, slots=True)
class ProbeBreach:
    """A finding of a probe, with the number of crash states that have the same violation."""

    finding: ProbeFinding
    states: int
    points: int
    disks: tuple[str, ...]
    """The disks with this violation, the disk of the finding first."""

    @property
    def key(self) -> tuple[str, str]:
        return self.finding.kind, self.finding.signature

    def text(self, place: Path | None, *, in_full: bool = False) -> FailureText:
        """Return the text for the terminal or a page. place: the directory of the stored failure, if any."""
        finding, case = self.finding, self.finding.shown.case
        heading = "broken by a crash in recovery" if finding.recovery else "broken"
        if case.disk == NOTHING_LOST and not finding.recovery:
            heading = "broken without a crash"
        elif case.disk in AT_REST:
            heading = "broken by damage at rest"
        again, files = "add --out DIR, which stores the failure", ""
        if place is not None:
            again = shlex.join(["tornlog", "probe", "--replay", str(place / "failure.json")])
            files = str(place / "files")
        lines = list(self._breach_lines(_FULL if in_full else _BRIEF))
        return FailureText(case.verdict.signature, lines, again, heading=heading, files=files, code=self._code_place())

    def _code_place(self) -> str:
        """Return the line of the program that made the first lost change, or that the crash followed."""
        record, shown = self.finding.record, self.finding.shown
        lost = [step for loss in shown.losses for step in loss.steps]
        numbers = [*lost[:1], *([shown.case.point.step] if shown.case.point.step >= 0 else [])]
        stacks = [record.stacks[record.steps[number].stack] for number in numbers]
        found = next((own_line(stack) for stack in stacks if stack), None)
        return "" if found is None or not found.line else f"{found.file}:{found.line}"

    def _breach_lines(self, limits: _TextLimits) -> Iterator[TextLine]:
        finding, case, record = self.finding, self.finding.shown.case, self.finding.record
        if finding.rerun:
            yield TextLine(LineKind.TEXT, f"with {finding.rerun}")
        yield from (TextLine(LineKind.TEXT, line) for line in case.verdict.lines[: limits.violations])
        more = len(case.verdict.lines) - limits.violations
        if more > 0 and case.verdict.outcome == "broken":
            yield TextLine(LineKind.TEXT, f"and {more} more like it")
        also = [disk for disk in self.disks if disk != case.disk]
        if case.disk != NOTHING_LOST:
            yield TextLine(LineKind.TEXT, f"on {case.disk}{'; also on ' if also else ''}{', '.join(also)}")
        if finding.recovery:
            yield TextLine(LineKind.LABEL, "the program")
            yield from (TextLine(LineKind.DETAIL, line) for line in finding.recovery)
            yield TextLine(LineKind.LABEL, "then the check, during recovery")
        yield TextLine(LineKind.TEXT, crash_text(record, case.point, case.disk))
        yield from self._loss_lines(limits)
        answers = Answers.from_steps(record.answers[: case.point.answers])
        for name, texts in answers._asdict().items():
            if texts:
                few = ", ".join(repr(one) for one in texts[-limits.answers :])
                yield TextLine(LineKind.TEXT, f"{name}: {'…, ' if len(texts) > limits.answers else ''}{few}")
        yield TextLine(LineKind.LABEL, "steps")
        yield from (TextLine(LineKind.STEP, line) for line in story(record, case.point.step))

    def _loss_lines(self, limits: _TextLimits) -> Iterator[TextLine]:
        record, losses = self.finding.record, self.finding.shown.losses
        note = loss_note(record, self.finding.shown.case, losses)
        if note:
            yield TextLine(LineKind.TEXT, note)
        if losses:
            is_damage = self.finding.shown.case.disk in AT_REST
            yield TextLine(LineKind.LABEL, "damage" if is_damage else "losses")
        for loss in losses[: limits.losses]:
            yield TextLine(LineKind.DETAIL, loss.what)
            if loss.steps:
                yield TextLine(LineKind.SOURCE, loss_origin_text(record, loss))
        if len(losses) > limits.losses:
            yield TextLine(LineKind.DETAIL, f"and {len(losses) - limits.losses} more")


@dataclass(frozen=True, slots=True)
class ProbeResults:
    """The data of one probe. Recoveries and reruns are None if they were not requested."""

    record: ProgramRecord
    start: Image
    check: Check
    limit: int
    found: ProbeReport
    findings: Sequence[ProbeFinding]
    """The first STORIES_MAX findings of `found`. The same limit holds for `recovered` and `differing`."""
    recoveries: Recoveries | None = None
    recovered: Sequence[ProbeFinding] = ()
    reruns: Reruns | None = None
    differing: Sequence[ProbeFinding] = ()
    allowed: Sequence[str] = ()
    """Calls of the program that the recorder missed and --allow permits."""
    check_output: str = ""
    """The last part of the output of all checks."""
    command: str = ""
    seconds: float = 0.0
    hint: str = ""
    """A hint for the user if recoveries could not be recorded."""
    takes_refusals: bool = False
    crash_rules: Sequence[tuple[str, int]] = ()
    """Each `cut at` rule, with the number of matching calls. With such rules, no other crashes are tried."""
    ended: str = ""
    """The signal or limit that ended the probe early."""
    reduced: int = 0
    """Number of checks with a time limit that was reduced after an earlier timeout."""
    assumed: int = 0
    """Number of checks that exceeded the reduced limit, and count as timeouts."""
    baseline: Mapping[str, str] = field(default_factory=dict)
    """Signature of a known breach -> reason."""
    corpus: CorpusOutcome | None = None
    """The results of stored failures from earlier runs, if any."""

    @property
    def all_findings(self) -> list[ProbeFinding]:
        return [*self.findings, *self.recovered, *self.differing]

    @property
    def signatures(self) -> list[str]:
        """Return the signatures of all breaches, including those without a finding."""
        recovered = () if self.recoveries is None else self.recoveries.breaches
        return [*self.found.breaches, *recovered, *self.rerun_signatures]

    @property
    def rerun_signatures(self) -> list[str]:
        return [] if self.reruns is None else [signature for _, signature in self.reruns.breaches]

    @property
    def new_kinds(self) -> int:
        """Return the number of breaches outside the baseline."""
        return len(self.signatures) - len(self.known(self.signatures))

    def known(self, signatures: Iterable[str]) -> list[str]:
        return [signature for signature in signatures if signature in self.baseline]

    @property
    def gone(self) -> list[str]:
        """Return the baseline's signatures that did not occur."""
        return [signature for signature in self.baseline if signature not in self.signatures]

    @property
    def refusals(self) -> int:
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
        missed = [rule for rule, calls in (*self.crash_rules, *self.record.rules) if not calls]
        gaps = [_never_reached(missed)] if missed else []
        if self.found.is_finished and not self.found.operations and not self.crash_rules:
            gaps.append("the program changed no file in its directory")
        if self.found.is_finished or self.found.is_of_end:
            return gaps
        if not self.found.points_of:
            return [*gaps, f"crashes after step {self.found.steps:,} of {len(self.record.steps):,} were not tried"]
        points_of = count_text(self.found.points_of, "crash point")
        gaps.append(f"only {self.found.points:,} of {points_of} were tried, evenly over the record")
        if self.found.damage_left:
            places = count_text(self.found.damage_left, "promise")
            gaps.append(f"damage at rest was not tried at {places}, or at the end of the run")
        return gaps

    @property
    def recovery_gaps(self) -> list[str]:
        if self.recoveries is None:
            return []
        discarded = sum(self.recoveries.refused.values())
        return [f"{count_text(discarded, 'recovery', 'recoveries')} could not be recorded"] if discarded else []

    @property
    def rerun_gaps(self) -> list[str]:
        if self.reruns is None:
            return []
        untried, discarded = self.reruns.untried, sum(self.reruns.refused.values())
        return [
            *([f"{count_text(discarded, 'run')} could not be recorded"] if discarded else []),
            *([f"not tried to the end: {', '.join(untried)}"] if untried else []),
            *([_never_reached(self.reruns.never_reached)] if self.reruns.never_reached else []),
            *(["no fault was injected"] if self.reruns.is_without_fault and not discarded else []),
        ]

    @property
    def gaps(self) -> list[str]:
        gaps = [*self.crash_gaps, *self.recovery_gaps, *self.rerun_gaps]
        return [f"the probe was ended by {self.ended}", *gaps] if self.ended and gaps else gaps

    @property
    def is_sample(self) -> bool:
        """Return whether --points omitted crash points of the run, reruns or recoveries."""
        others = [one for one in (self.recoveries, self.reruns) if one is not None]
        return self.found.is_sample or any(one.points < one.points_of for one in others)

    @property
    def verdict(self) -> str:
        return self.with_corpus(self.verdict_on(self.signatures, self.gaps, is_sample=self.is_sample))

    def with_corpus(self, verdict: str) -> str:
        """Append the number of repeated failures from the corpus to a verdict."""
        more = "" if self.corpus is None else self.corpus.verdict
        return f"{verdict}, {more}" if more else verdict

    def verdict_on(self, signatures: Sequence[str], gaps: list[str], *, is_sample: bool) -> str:
        """Return the verdict on one part of the probe. signatures: those of its breaches.

        gaps: requested checks without a verdict.
        """
        known = len(self.known(signatures))
        if len(signatures) > known:
            return kinds_of_breach(len(signatures) - known) + (f", and {known:,} known" if known else "")
        held = f"no new violation, {known:,} known" if known else "no promise was broken"
        if gaps:
            return f"{held}, but {'; '.join(gaps)}"
        if is_sample:
            return f"{held} in this sample"
        if known:
            return held
        return "every promise held" if self.record.acknowledged else "every state passed the check"

    def breaches(self) -> list[ProbeBreach]:
        return [_breach(finding, self._breach_groups(finding)) for finding in self.all_findings]

    def _breach_groups(self, finding: ProbeFinding) -> ViolationGroup:
        if not finding.kind:
            return self.found.breaches[finding.signature]
        if finding.kind == RECOVERY:
            assert self.recoveries is not None, "a finding of a recovery without recoveries"
            return self.recoveries.breaches[finding.signature].group
        assert self.reruns is not None, "a finding of a rerun without reruns"
        return self.reruns.breaches[finding.kind, finding.signature].group


def _never_reached(rules: Sequence[str]) -> str:
    return f"never reached: {'; '.join(rules)}"


def _breach(finding: ProbeFinding, group: ViolationGroup) -> ProbeBreach:
    disks = dict.fromkeys([finding.shown.case.disk, *group.disks])
    return ProbeBreach(finding, group.states, len(group.points), tuple(disks))


def kinds_of_breach(count: int) -> str:
    return count_text(count, "kind of violation", "kinds of violation")


def points_text(points: int, points_of: int) -> str:
    """Return the number of tried crash points as text. points_of: the total number, or 0 if all were tried."""
    if points >= points_of:
        return count_text(points, "crash point")
    return f"{points:,} of {count_text(points_of, 'crash point')}, evenly over the record"
