"""A failure is an artefact: it says what happened, and makes it happen again."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tornlog.scenarios.failure import FORMAT, STORY_EVENTS, Failure, FailureFileError, replay, tell_story
from tornlog.scenarios.hunt import hunting_ground
from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.plan import Ranges
from tornlog.scenarios.run import Outcome
from tornlog.scenarios.scenario import Scenario
from tornlog.scenarios.seeds import run_seed
from tornlog.sim.errors import ReplayDivergedError
from tornlog.store.recovery import Recovery


def replay_with_its_mutant(failure: Failure) -> Outcome:
    assert failure.mutant is not None
    with MUTANTS[failure.mutant].applied():
        return replay(failure)


def through_json(failure: Failure) -> Failure:
    return Failure.from_json(failure.to_json())


def test_a_failure_survives_json(failure: Failure) -> None:
    again = through_json(failure)
    assert again == failure
    assert again.to_json() == failure.to_json()


def test_an_artefact_says_what_it_is_and_what_wrote_it(failure: Failure) -> None:
    document = json.loads(failure.to_json())
    assert document["format"] == FORMAT
    assert set(document["versions"]) == {"tornlog", "python"}
    assert document["violations"][0]["invariant"] == "STATUS"


def test_a_replay_gives_the_same_digest_and_violations_every_time(failure: Failure) -> None:
    stored = through_json(failure)
    for _ in range(3):
        outcome = replay_with_its_mutant(stored)
        assert outcome.digest == failure.digest
        assert outcome.violations == failure.violations


@pytest.mark.parametrize(
    "mutant", ["stale-tail-after-truncate", "group-commit-lost-wakeup", "props-outside-crc"]
)
def test_failures_with_crashes_pauses_and_switches_replay_too(
    hunted: Callable[[str], Failure], mutant: str
) -> None:
    failure = through_json(hunted(mutant))
    outcome = replay_with_its_mutant(failure)
    assert (outcome.digest, outcome.violations) == (failure.digest, failure.violations)
    assert outcome.schedule == failure.schedule


@pytest.fixture(scope="module")
def hunted() -> Callable[[str], Failure]:
    """Hunt a mutant and return what was left of the first seed that saw it."""

    def hunt(mutant: str) -> Failure:
        scenario = hunting_ground(MUTANTS[mutant])
        results = (run_seed(scenario, seed, mutant=mutant) for seed in range(500))
        return next(result.failure for result in results if result.failure is not None)

    return hunt


def test_the_story_ends_at_what_broke(failure: Failure) -> None:
    assert 0 < len(failure.story) <= STORY_EVENTS
    times = [float(line.split(" ms", 1)[0]) for line in failure.story]
    assert times == sorted(times)
    last = failure.story[-1]
    assert "commitlog/00000000000000000000" in last
    assert "store" in last or "msync" in last
    assert not any("switch" in line for line in failure.story)


def test_the_story_of_a_crash_tells_of_the_crash_and_of_the_recovery_after_it(
    monkeypatch: pytest.MonkeyPatch, quiet: Ranges
) -> None:
    monkeypatch.setattr(Recovery, "finish_queues", lambda self: None)
    ranges = replace(quiet, endings=("crash at rest",), disk=("strict-posix",), producers=(1,))
    ranges = replace(ranges, index_slots=(0,))  # what the recovery of an index stores would fill the story
    failure = run_seed(Scenario("crash", "a crash takes nothing", ranges), 1).failure
    assert failure is not None
    killed = [number for number, line in enumerate(failure.story) if "life-0/main: kill life-0" in line]
    assert len(killed) == 1
    assert all("heal/main: " in line for line in failure.story[killed[0] + 1 :])


def test_the_story_is_the_same_every_time(failure: Failure) -> None:
    with MUTANTS["ack-before-flush"].applied():
        assert tell_story(failure) == tell_story(through_json(failure)) == failure.story


# Records that do not fit


def test_a_draw_with_another_label_is_named(failure: Failure) -> None:
    doctored = through_json(failure)
    doctored.choices["life-0/producer-0"][2][0] = "a label of yore"
    with pytest.raises(ReplayDivergedError) as caught:
        replay_with_its_mutant(doctored)
    assert (caught.value.record, caught.value.index) == ("stream life-0/producer-0", 2)
    assert "a label of yore" in str(caught.value)


def test_a_stream_that_ends_too_early_is_named(failure: Failure) -> None:
    doctored = through_json(failure)
    del doctored.choices["disk-0"][1:]
    with pytest.raises(ReplayDivergedError, match="stream disk-0, entry 1: recorded the end"):
        replay_with_its_mutant(doctored)


def test_a_switch_to_a_task_that_does_not_exist_is_named(failure: Failure) -> None:
    doctored = through_json(failure)
    doctored.schedule[3][2] = "life-0/nobody"
    with pytest.raises(ReplayDivergedError, match=r"schedule, entry 3: recorded .*life-0/nobody"):
        replay_with_its_mutant(doctored)


def test_a_schedule_that_goes_on_after_the_run_is_named(failure: Failure) -> None:
    doctored = through_json(failure)
    doctored.schedule.append([1_000_000, "point", "life-0/main"])
    with pytest.raises(ReplayDivergedError) as caught:
        replay_with_its_mutant(doctored)
    assert caught.value.index == len(failure.schedule)
    assert caught.value.found == "the end of the run"


def test_another_plan_is_another_run(failure: Failure) -> None:
    with pytest.raises(ReplayDivergedError):
        replay_with_its_mutant(replace(failure, plan=replace(failure.plan, producers=3)))


def test_without_its_mutant_a_failure_does_not_come_back(failure: Failure) -> None:
    with pytest.raises(ReplayDivergedError):
        replay(failure)


# Files that are no failures


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("PK\x03\x04", "not JSON"),
        ("[]", f"format: expected {FORMAT}, found list"),
        ("{}", f"format: expected {FORMAT}, found None"),
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
        (["choices"], [], "choices: expected dict, found []"),
        (["choices", "disk-0"], None, "choices.disk-0: expected list, found null"),
        (["choices", "disk-0", 1], ["label", 3], "choices.disk-0.1: expected [label, options, value]"),
        (["schedule", 2], ["one", "label", "task"], "schedule.2: expected [points, label, task]"),
        (["violations"], [], "violations: expected at least one, found none"),
        (["violations", 0], {"invariant": "DUR"}, "violations.0: expected the fields invariant, summary"),
        (["violations", 0, "offset"], "far", 'violations.0.offset: expected int, found "far"'),
        (["story", 0], 3, "story.0: expected str, found 3"),
        (["plan", "lives", 0, "ending"], 3, "plan.lives.0.ending: expected str, found int"),
        (["plan", "producers"], None, "plan.producers: expected int, found NoneType"),
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
