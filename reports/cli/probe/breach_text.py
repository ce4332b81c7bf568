"""Breach text: describes a violation with its crash, losses and earlier steps."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ....faults.crashes.at_rest import AT_REST
from ....faults.crashes.profiles import NOTHING_LOST
from ....faults.probe.failure import ProbeFinding
from ....faults.probe.record import Answers
from ....faults.probe.shrink import loss_note
from ....faults.probe.story import crash_text, loss_origin_text, story
from ....faults.simulation.failure_text import FailureText, LineKind, TextLine


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
        again, left = "repeat with --out DIR", ""
        if place is not None:
            again = shlex.join(["tornlog", "probe", "--replay", str(place / "failure.json")])
            left = str(place / "files")
        lines = list(self._breach_lines(_FULL if in_full else _BRIEF))
        return FailureText(case.verdict.signature, lines, again, heading=heading, left=left)

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
        yield TextLine(LineKind.LABEL, "before it")
        yield from (TextLine(LineKind.STEP, line) for line in story(record, case.point.step))

    def _loss_lines(self, limits: _TextLimits) -> Iterator[TextLine]:
        record, losses = self.finding.record, self.finding.shown.losses
        note = loss_note(record, self.finding.shown.case, losses)
        if note:
            yield TextLine(LineKind.TEXT, note)
        if losses:
            is_damage = self.finding.shown.case.disk in AT_REST
            yield TextLine(LineKind.LABEL, "what is damaged" if is_damage else "what is lost")
        for loss in losses[: limits.losses]:
            yield TextLine(LineKind.DETAIL, loss.what)
            if loss.steps:
                yield TextLine(LineKind.SOURCE, loss_origin_text(record, loss))
        if len(losses) > limits.losses:
            yield TextLine(LineKind.DETAIL, f"and {len(losses) - limits.losses} more")
