"""Observed runs: damage, faults, errors of the store and answers are in the story, with times and lines of code."""

import pytest

from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.failures.failure_text import failure_text
from tornlog.scenarios.campaigns.mutation_run import MutationLimits, MutationSettings, run_mutant
from tornlog.scenarios.mutants import MUTANTS

LINES_MAX = 40


def failure_of(mutant: str) -> Failure:
    failure = run_mutant(MUTANTS[mutant], MutationSettings(MutationLimits(60), scenarios=None)).failure
    assert failure is not None
    return failure


@pytest.mark.parametrize(
    ("mutant", "shown"),
    [
        (
            "damaged-progress-counts-as-zero",
            (
                "disk: damaged config/delayOffset.json [0, ",
                ": recovered after a clean stop: read the log from 0 to ",
                "; found config/delayOffset.json @ 0: JSON: expected an object",
                "producer: answered m0.0.",
            ),
        ),
        pytest.param(
            "segment-removed-half-dispatched",
            ("life-0/retention: branch: retention removed a segment", "life-0/retention: violated CLEAN"),
            marks=pytest.mark.ci,
        ),
        (
            "stop-leaves-index-unsynced",
            ("disk: state index/", "by life-0/dispatch, its file was not synced since"),
        ),
        (
            "flush-advance-on-io-error",
            (
                "/group-commit: fault failed sync: msync commitlog/0  [log/segment.py:",
                "answered m",
                "store commitlog/0 [",
            ),
        ),
    ],
)
def test_the_story_leads_to_the_cause(mutant: str, shown: tuple[str, ...]) -> None:
    failure = failure_of(mutant)
    story = "\n".join(failure.original.story)

    assert [words for words in shown if words not in story] == []
    assert len(failure_text(failure).lines) <= LINES_MAX


def test_a_walk_names_its_start_and_the_first_wrong_message() -> None:
    violation = failure_of("hole-hides-segment").violations[0]

    assert violation.invariant == "READ"
    assert "the walk began at queue offset " in violation.detail
    assert (violation.offset // 20 > 0, violation.expected.count(",") <= 2) == (True, True)
