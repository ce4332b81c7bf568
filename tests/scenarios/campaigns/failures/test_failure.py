"""Failure files: their contents, and how they are read without the run."""

import json
from typing import Any

import pytest

from tornlog.faults.simulation.artefact import ArtefactError
from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.failures.shrink import shrink_failure


@pytest.fixture(scope="module")
def shrunk(failure: Failure) -> Failure:
    return shrink_failure(failure, tries_max=50).failure


def test_a_failure_survives_a_round_trip_through_json(failure: Failure, shrunk: Failure) -> None:
    for one in (failure, shrunk):
        again = Failure.from_json(one.to_json())
        assert again == one
        assert again.to_json() == one.to_json()


def test_the_smallest_run_is_the_shrunk_run_if_it_exists(failure: Failure, shrunk: Failure) -> None:
    assert failure.smallest is failure.original
    assert shrunk.smallest is shrunk.shrunk
    assert shrunk.original == failure.original
    assert shrunk.signature == failure.signature
    assert json.loads(shrunk.to_json())["failure"]["shrunk"]["size"]["messages"] == 1


# Invalid failure files


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["seed"], "seven", "failure.seed: Expected `int`, got `str`"),
        (["mutant"], 7, "failure.mutant: Expected `str | null`, got `int`"),
        (["original", "record", "decisions"], [], "failure.original.record.decisions: Expected `object`"),
        (["original", "record", "decisions", "disk-0", 1], ["label", 3], "failure.original.record.decisions"),
        (["original", "record", "schedule", 2], ["a", "b"], "failure.original.record.schedule[2]: Expected"),
        (["original", "record", "schedule", 2], "a -> b", "failure.original.schedule.2: expected TASK @ LABEL"),
        (["original", "size", "messages"], None, "failure.original.size.messages: Expected `int`, got `null`"),
        (["shrunk"], 3, "failure.shrunk: Expected `object | null`, got `int`"),
        (["shrunk"], {}, "failure.shrunk: Object missing required field `steps`"),
        (["original", "violations"], [], "failure.original.violations: expected at least one, found none"),
        (["original", "violations", 0], {"invariant": "DUR"}, "failure.original.violations[0]: Object missing"),
        (["original", "story", 0], 3, "failure.original.story[0]: Expected `str`, got `int`"),
        (["original", "plan", "lives", 0, "ending"], 3, "failure.original.plan.lives[0].ending: Expected `str`"),
        (["original", "plan", "producers"], None, "failure.original.plan.producers: Expected `int`"),
    ],
)
def test_the_error_of_an_invalid_field_names_it(failure: Failure, place: list[Any], value: Any, message: str) -> None:
    envelope = json.loads(failure.to_json())
    *above, last = place
    holder = envelope["failure"]
    for step in above:
        holder = holder[step]
    holder[last] = value
    with pytest.raises(ArtefactError) as caught:
        Failure.from_json(json.dumps(envelope))
    assert str(caught.value).startswith(message)
