"""Failure text: describes the claim, the violations and the events before them."""

import re
from collections.abc import Iterator

from ....faults.simulation.failure_text import FailureText, LineKind, TextLine
from ...oracle.evidence import Violation
from .failure import FailingRun, Failure

VIOLATIONS_MAX = 3
_CODE = re.compile(r"\[([\w/]+\.py:\d+)[^]]*\]$")
"""The line of code at the end of an event, relative to `store/`."""


def failure_text(failure: Failure, again: str = "", *, original: bool = False) -> FailureText:
    """Describe the shrunk run, or the original run if the failure is not shrunk or `original` is true."""
    breach = failure.original if original else failure.smallest
    seed = f"{'' if breach is failure.original else 'shrunk from '}seed {failure.seed}"
    lines = list(_failure_lines(failure.claim, breach))
    return FailureText(failure.scenario, lines, again, seed, code=_first_code_place(breach))


def _first_code_place(breach: FailingRun) -> str:
    """Return the line of code of the first event of the story that has one. The story begins near the cause."""
    found = next((match for match in map(_CODE.search, breach.story) if match), None)
    return "" if found is None else f"store/{found[1]}"


def _failure_lines(claim: str, breach: FailingRun) -> Iterator[TextLine]:
    yield TextLine(LineKind.CLAIM, claim)
    yield from _violation_lines(breach.violations[0])
    for violation in breach.violations[1:VIOLATIONS_MAX]:
        place = f" ({violation.place_text})" if violation.file else ""
        yield TextLine(LineKind.TEXT, f"{violation.invariant}: {violation.summary.splitlines()[0]}{place}")
    more = len(breach.violations) - VIOLATIONS_MAX
    if more > 0:
        yield TextLine(LineKind.TEXT, f"and {more} more like it")
    yield TextLine(LineKind.LABEL, "before it")
    yield from (TextLine(LineKind.STEP, line) for line in breach.story)
    yield from (TextLine(LineKind.TEXT, line) for line in breach.parts)


def _violation_lines(violation: Violation) -> Iterator[TextLine]:
    reason, *waits = violation.summary.splitlines()
    yield TextLine(LineKind.TEXT, f"{violation.invariant}: {reason}")
    details = [line.strip() for line in (*waits, *violation.detail.splitlines())]
    if violation.file:
        details.append(f"file:     {violation.place_text}")
    if violation.facts:
        details += [f"{name + ':':<9} {text}" for name, text in [("field", violation.field), *violation.facts]]
    yield from (TextLine(LineKind.DETAIL, line) for line in details)
