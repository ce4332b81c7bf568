"""Failures as a page tells them: by the way in which a promise broke, each with its story and where to go on."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...scenarios.campaigns.blame import BrokenPromise, cause_text, likeliest_names
from ...scenarios.campaigns.failures.print_failure import STORY_TOLD, VIOLATIONS_TOLD
from ...scenarios.oracle.evidence import Violation
from ...scenarios.oracle.invariants import INVARIANTS
from .render import counted
from .results import Left

_PLACES_TOLD = 3


class Told(NamedTuple):
    """One failure, of the smallest run that there is of it."""

    anchor: str
    title: str
    about: str
    claim: str
    violations: list[Violation]
    more: int
    """Violations that are not told."""
    story: list[str]
    left: Left


class Kind(NamedTuple):
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
    failures: list[Told]


def told(left: Left, title: str, about: str) -> Told:
    """Return a failure as it is told under a title."""
    failure, breach = left.failure, left.failure.smallest
    return Told(
        failure.signature,
        title,
        about,
        failure.claim,
        breach.violations[:VIOLATIONS_TOLD],
        len(breach.violations[VIOLATIONS_TOLD:]),
        breach.story[-STORY_TOLD:],
        left,
    )


def kinds_of(rows: Iterable[BrokenPromise], failures: Mapping[str, Left]) -> list[Kind]:
    """Return what broke; of failures, by signature, the first of each scenario is told."""
    return [_kind(row, failures) for row in rows]


def _kind(row: BrokenPromise, failures: Mapping[str, Left]) -> Kind:
    first = dict.fromkeys(failure.signature for failure in row.failures)
    return Kind(
        row.first.violations[0].signature,
        row.promise,
        row.kind,
        INVARIANTS[row.promise],
        row.times,
        len(row.scenarios),
        _places(row.scenarios),
        ", ".join(likeliest_names(row)),
        [cause_text(cause) for cause in row.causes],
        [_told_in_scenario(failures[signature], row.scenarios) for signature in first],
    )


def _told_in_scenario(left: Left, times: Mapping[str, int]) -> Told:
    failure = left.failure
    return told(
        left, failure.scenario, f"seed {failure.seed}, {counted(times[failure.scenario], 'time')} in all"
    )


def _places(scenarios: Mapping[str, int]) -> str:
    """Return the scenarios that something broke in most often."""
    most = sorted(scenarios, key=lambda name: (-scenarios[name], name))
    text = ", ".join(most[:_PLACES_TOLD])
    more = len(most) - _PLACES_TOLD
    return f"{text} and {more} more" if more > 0 else text
