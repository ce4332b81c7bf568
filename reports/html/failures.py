"""Failures as a page shows them: by the way in which a promise broke, each with its story and where to go on."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...scenarios.campaigns.blame import ViolationKind, cause_text, likeliest_names
from ...scenarios.campaigns.failures.print_failure import VIOLATIONS_MAX
from ...scenarios.oracle.evidence import Violation
from ...scenarios.oracle.invariants import INVARIANTS
from .render import counted, some_of
from .results import FailureLinks

_PLACES_SHOWN = 3


class FailureText(NamedTuple):
    """One failure, of the smallest run that there is of it."""

    anchor: str
    title: str
    about: str
    claim: str
    violations: list[Violation]
    more: int
    """Violations that are not shown."""
    story: list[str]
    left: FailureLinks


class FailureKind(NamedTuple):
    """One way in which one promise broke."""

    anchor: str
    promise: str
    field: str
    meaning: str
    times: int
    scenarios: int
    places: str
    likeliest: str
    causes: list[str]
    failures: list[FailureText]


def failure_text(left: FailureLinks, title: str, about: str) -> FailureText:
    """Return a failure as it is shown under a title."""
    failure, breach = left.failure, left.failure.smallest
    shown, more = breach.violations[:VIOLATIONS_MAX], len(breach.violations[VIOLATIONS_MAX:])
    return FailureText(left.name, title, about, failure.claim, shown, more, breach.story, left)


def kinds_of(rows: Iterable[ViolationKind], failures: Mapping[str, FailureLinks]) -> list[FailureKind]:
    """Return what broke; of failures, by signature, the first of each scenario is shown."""
    return [_kind(row, failures) for row in rows]


def _kind(row: ViolationKind, failures: Mapping[str, FailureLinks]) -> FailureKind:
    first = dict.fromkeys(failure.signature for failure in row.failures)
    return FailureKind(
        row.first.violations[0].signature,
        row.promise,
        row.kind,
        INVARIANTS[row.promise],
        row.times,
        len(row.scenarios),
        _places(row.scenarios),
        ", ".join(likeliest_names(row)),
        [cause_text(cause) for cause in row.causes],
        [_text_in_scenario(failures[signature], row.scenarios) for signature in first],
    )


def _text_in_scenario(left: FailureLinks, times: Mapping[str, int]) -> FailureText:
    failure = left.failure
    about = f"seed {failure.seed}, {counted(times[failure.scenario], 'time')} in all"
    return failure_text(left, failure.scenario, about)


def _places(scenarios: Mapping[str, int]) -> str:
    most = sorted(scenarios, key=lambda name: (-scenarios[name], name))
    return some_of(most, _PLACES_SHOWN)
