"""Failure text: describes the claim, the violations and the events before them."""

import re
from collections.abc import Iterator

from ....faults.simulation.failure_text import FailureText, LineKind, TextLine
from ...oracle.evidence import Violation
from ...oracle.invariants import INVARIANTS
from .failure import FailingRun, Failure

VIOLATIONS_MAX = 3
_CODE = re.compile(r"\[([\w/]+\.py:\d+)[^]]*\]$")
"""The line of code at the end of an event, relative to `store/`."""
_LOST = re.compile(r" lost: (?P<change>.+), made at (?P<time>.+) by (?P<task>[^,]+),")
"""A change that a power cut removed, with the time and the task of its event."""


def failure_text(failure: Failure, again: str = "", *, original: bool = False) -> FailureText:
    """Describe the shrunk run, or the original run if the failure is not shrunk or `original` is true."""
    breach = failure.original if original else failure.smallest
    seed = f"{'' if breach is failure.original else 'shrunk from '}seed {failure.seed}"
    lines = list(_failure_lines(failure.claim, breach))
    return FailureText(failure.scenario, lines, again, seed, code=_code_place(breach.story))


def _code_place(story: list[str]) -> str:
    """Return the line of code of the first lost change or, if the story has none, of its last event with a line."""
    places = [(line, found[1]) for line in story if (found := _CODE.search(line))]
    lost = next((found for line in story if (found := _LOST.search(line))), None)
    if lost is not None:
        made = f"{lost['time']}  {lost['task']}: {lost['change']}"
        places = [one for one in places if made in one[0]] or places
    return f"store/{places[-1][1]}" if places else ""


def _failure_lines(claim: str, breach: FailingRun) -> Iterator[TextLine]:
    yield TextLine(LineKind.CLAIM, claim)
    yield from _violation_lines(breach.violations[0])
    for violation in breach.violations[1:VIOLATIONS_MAX]:
        place = f" ({violation.place_text})" if violation.file else ""
        yield TextLine(LineKind.TEXT, f"{violation.invariant}: {violation.summary.splitlines()[0]}{place}")
        if violation.facts:
            facts = ", ".join(f"{name} {text}" for name, text in violation.facts)
            yield TextLine(LineKind.DETAIL, f"{violation.field}: {facts}")
    more = len(breach.violations) - VIOLATIONS_MAX
    if more > 0:
        yield TextLine(LineKind.TEXT, f"and {more} more like it")
    yield TextLine(LineKind.LABEL, "events")
    yield from (TextLine(LineKind.STEP, line) for line in breach.story)
    yield from (TextLine(LineKind.TEXT, line) for line in breach.parts)


def _violation_lines(violation: Violation) -> Iterator[TextLine]:
    reason, *waits = violation.summary.splitlines()
    yield TextLine(LineKind.TEXT, f"{violation.invariant}: {reason}")
    details = [line.strip() for line in waits]
    if violation.invariant in INVARIANTS:  # a failure file may be older
        details.append(f"promise:  {INVARIANTS[violation.invariant]}")
    details += [line.strip() for line in violation.detail.splitlines()]
    if violation.file:
        details.append(f"file:     {violation.place_text}")
    if violation.facts:
        details += [f"{name + ':':<9} {text}" for name, text in [("field", violation.field), *violation.facts]]
    yield from (TextLine(LineKind.DETAIL, line) for line in details)
