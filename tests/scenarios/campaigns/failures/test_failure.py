"""Failure files: their contents, and how they are read without the run."""

import json
from typing import Any

import pytest

from tornlog.faults.simulation.artefact import FORMAT, ArtefactError
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


def test_an_artefact_names_its_kind_and_versions(failure: Failure) -> None:
    envelope = json.loads(failure.to_json())
    assert (envelope["format"], envelope["kind"]) == (FORMAT, "scenario")
    assert set(envelope["versions"]) == {"tornlog", "python"}
    document = envelope["failure"]
    run = document["original"]
    assert run["violations"][0]["invariant"] == "STATUS"
    assert run["size"]["messages"] == failure.original.size.messages
    assert run["record"]["schedule"][0] == str(failure.original.record.schedule[0])
    assert document["shrunk"] is None


def test_the_smallest_run_is_the_shrunk_run_if_it_exists(failure: Failure, shrunk: Failure) -> None:
    assert failure.smallest is failure.original
    assert shrunk.smallest is shrunk.shrunk
    assert shrunk.original == failure.original
    assert shrunk.signature == failure.signature
    assert json.loads(shrunk.to_json())["failure"]["shrunk"]["size"]["messages"] == 1


# Invalid failure files


def test_a_truncated_failure_file_is_refused(failure: Failure) -> None:
    text = failure.to_json()
    for end in range(0, len(text), len(text) // 50):
        with pytest.raises(ArtefactError, match="not JSON"):
            Failure.from_json(text[:end])


def test_the_error_of_a_missing_field_names_it(failure: Failure) -> None:
    whole = json.loads(failure.to_json())
    for name in set(whole["failure"]) - {"shrunk"}:
        document = {key: value for key, value in whole["failure"].items() if key != name}
        with pytest.raises(ArtefactError, match=f"^failure: Object missing required field `{name}`$"):
            Failure.from_json(json.dumps(whole | {"failure": document}))


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
