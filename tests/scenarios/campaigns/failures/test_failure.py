"""A failure is an artefact: it says what happened, and can be read by whoever finds it."""

import json
from typing import Any

import pytest

from tornlog.scenarios.campaigns.failures.failure import FORMAT, Failure, FailureFileError
from tornlog.scenarios.campaigns.failures.shrink import shrink_failure


@pytest.fixture(scope="module")
def shrunk(failure: Failure) -> Failure:
    return shrink_failure(failure, tries_max=50).failure


def test_a_failure_survives_json(failure: Failure, shrunk: Failure) -> None:
    for one in (failure, shrunk):
        again = Failure.from_json(one.to_json())
        assert again == one
        assert again.to_json() == one.to_json()


def test_an_artefact_says_what_it_is_and_what_wrote_it(failure: Failure) -> None:
    document = json.loads(failure.to_json())
    assert document["format"] == FORMAT
    assert set(document["versions"]) == {"tornlog", "python"}
    assert document["violations"][0]["invariant"] == "STATUS"
    assert document["size"]["messages"] == failure.original.size.messages
    assert document["schedule"][0] == str(failure.original.record.schedule[0])
    assert document["shrunk"] is None


def test_the_smallest_run_is_the_shrunk_one_once_there_is_one(failure: Failure, shrunk: Failure) -> None:
    assert failure.smallest is failure.original
    assert shrunk.smallest is shrunk.shrunk
    assert shrunk.original == failure.original
    assert shrunk.signature == failure.signature
    assert json.loads(shrunk.to_json())["shrunk"]["size"]["messages"] == 1


# Files that are no failures


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("PK\x03\x04", "not JSON"),
        ("[]", f"format: expected {FORMAT}, found list"),
        ("{}", f"format: expected {FORMAT}, found None"),
        ('{"format": "tornlog-failure/1"}', f"format: expected {FORMAT}, found tornlog-failure/1"),
        ('{"format": "tornlog-failure/999"}', f"format: expected {FORMAT}, found tornlog-failure/999"),
        ('{"format": "tornlog-run/1", "scenarios": []}', f"format: expected {FORMAT}, found tornlog-run/1"),
        (f'{{"format": "{FORMAT}"}}', "scenario: missing"),
    ],
)
def test_a_foreign_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(FailureFileError, match=message):
        Failure.from_json(text)


def test_a_file_cut_anywhere_is_refused(failure: Failure) -> None:
    text = failure.to_json()
    for end in range(0, len(text), len(text) // 50):
        with pytest.raises(FailureFileError, match="not JSON"):
            Failure.from_json(text[:end])


def test_a_file_without_a_field_is_refused_by_its_name(failure: Failure) -> None:
    whole = json.loads(failure.to_json())
    for name in set(whole) - {"format", "versions"}:
        document = {key: value for key, value in whole.items() if key != name}
        with pytest.raises(FailureFileError, match=f"^{name}: missing$"):
            Failure.from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["seed"], "seven", 'seed: expected int, found "seven"'),
        (["mutant"], 7, "mutant: expected str or NoneType, found 7"),
        (["decisions"], [], "decisions: expected dict, found []"),
        (["decisions", "disk-0"], None, "decisions.disk-0: expected list, found null"),
        (
            ["decisions", "disk-0", 1],
            ["label", 3],
            "decisions.disk-0.1: expected [label, nth, options, value]",
        ),
        (
            ["decisions", "disk-0", 1],
            ["a", 1, 2, "b"],
            "decisions.disk-0.1: expected [label, nth, options, va",
        ),
        (["schedule", 2], ["one", "label", "task"], "schedule.2: expected str, found ["),
        (["schedule", 2], "m/a -> m/b", "schedule.2: expected TASK @ LABEL #N -> TASK, found m/a -> m/b"),
        (["size", "messages"], None, "size.messages: expected int, found null"),
        (["shrunk"], 3, "shrunk: expected dict or NoneType, found 3"),
        (["shrunk"], {}, "shrunk.steps: missing"),
        (["violations"], [], "violations: expected at least one, found none"),
        (["violations", 0], {"invariant": "DUR"}, "violations.0: expected the fields invariant, summary"),
        (["violations", 0, "offset"], "far", 'violations.0.offset: expected int, found "far"'),
        (["story", 0], 3, "story.0: expected str, found 3"),
        (["plan", "lives", 0, "ending"], 3, "plan.lives[0].ending: Expected `str`, got `int`"),
        (["plan", "producers"], None, "plan.producers: Expected `int`, got `null`"),
    ],
)
def test_a_field_of_another_shape_is_refused_by_its_name(
    failure: Failure, place: list[Any], value: Any, message: str
) -> None:
    document = json.loads(failure.to_json())
    *above, last = place
    holder = document
    for step in above:
        holder = holder[step]
    holder[last] = value
    with pytest.raises(FailureFileError) as caught:
        Failure.from_json(json.dumps(document))
    assert str(caught.value).startswith(message)
