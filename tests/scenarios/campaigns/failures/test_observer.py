"""Observed runs: damage, faults, errors of the store and answers are in the story, with times and lines of code."""

import re
from dataclasses import replace

import pytest

from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.failures.failure_text import failure_text
from tornlog.scenarios.campaigns.mutation_run import MutationLimits, MutationSettings, narrowed_scenario, run_mutant
from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.oracle.evidence import Violation

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
        (
            "single-queue-file-keeps-start",
            ("life-0/retention: mark: retention removed a segment", "life-0/retention: unlink commitlog/1024"),
        ),
        ("commit-one-short", (": rename config/consumerOffset.json.tmp",)),
        ("stop-leaves-index-unsynced", ("disk: state index/", "by life-0/dispatch, its file was not synced since")),
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
    assert "the consumer began at queue offset " in violation.detail
    assert (violation.offset // 20 > 0, violation.expected.count(",") <= 2) == (True, True)


def test_a_stored_message_that_no_record_can_hold_is_explained() -> None:
    failure = failure_of("unit-too-long-taken")

    reason = "to be refused: its properties have 32768 bytes, at most 32767"
    assert failure.original.violations[0].detail == reason
    assert failure.original.story[-1].endswith(reason)


def test_a_refused_good_message_is_shown_with_the_limits() -> None:
    detail = failure_of("longest-topic-refused").violations[0].detail

    assert "topic 127 of at most 127 bytes, properties " in detail
    assert " in a segment of " in detail


def test_a_finding_about_the_checkpoint_shows_its_three_times() -> None:
    violation = failure_of("index-roll-publishes-cq-checkpoint").violations[0]

    assert violation.invariant == "CKPT"
    times = re.fullmatch(
        r"times of the checkpoint: log (\d+) in memory, (\d+) in the file; queues (\d+) in memory, (\d+) in the file; "
        r"index (\d+) in memory, (\d+) in the file",
        violation.detail,
    )
    assert times is not None
    assert violation.found in times.groups()[2:4], "the queue time is wrong"


def test_an_error_of_a_load_has_all_frames_of_the_store() -> None:
    (detail,) = (one.detail for one in failure_of("full-disk-ends-load").violations[:1])

    frames = [frame.rpartition(" ")[2] for frame in detail.split(" < ")]
    assert detail.startswith("raised in store/log/segment_queue.py:")
    assert frames[0] == "create"
    assert {"_overwrite_entries", "load"} <= set(frames)


def test_the_text_has_the_promise_and_the_values_of_further_violations() -> None:
    failure = failure_of("no-dir-fsync-on-rollover")
    second = replace(failure.violations[0], summary="another one", expected="m0.0.7", found="none")
    lines = failure_text(replace(failure, original=replace(failure.original, violations=[second, second]))).lines

    texts = [line.text for line in lines]
    assert "promise:  every promised message is present with its bytes" in texts
    assert texts[texts.index("events") - 1] == "record: expected m0.0.7, found none"


def test_a_function_that_a_bug_replaces_is_not_named() -> None:
    lines = failure_of("no-dir-fsync-on-rollover").original.story
    assert not [line for line in lines if "mutants" in line]


def test_the_story_shows_the_count_at_which_dispatch_gave_up() -> None:
    gave_up = "no puts until a restart: WRITE_LOGICS_QUEUE_ERROR, dispatch gave up at a count of "
    bug = MUTANTS["dispatch-adds-failures-up"]
    runs = (run_seed(narrowed_scenario(bug), seed, mutant=bug.id) for seed in range(40))
    failures = (run.failure for run in runs if run.failure is not None)
    failure = next(each for each in failures if any(gave_up in line for line in each.original.story))
    (line,) = (line for line in failure.original.story if gave_up in line)
    errors = [line for line in failure.original.story if ": error dispatch: " in line]
    assert failure.original.violations[0].detail.startswith(gave_up)
    assert errors, "the errors that count are beside it"
    assert line.partition(": error store: ")[1]


@pytest.mark.ci
def test_sends_between_which_another_one_matters_are_not_merged() -> None:
    """The lock after the unlock, and the lock of the other client, are lines of their own."""
    bug = MUTANTS["lock-not-renewed"]
    scenario = narrowed_scenario(bug)
    runs = (run_seed(scenario, seed, mutant=bug.id) for seed in range(200))
    stories = (run.failure.original.story for run in runs if run.failure is not None)
    requests = (re.findall(r"/lock: (?:judged )?request (\w+)", "\n".join(story)) for story in stories)
    last = ["LOCK_BATCH_MQ", "UNLOCK_BATCH_MQ", "LOCK_BATCH_MQ", "LOCK_BATCH_MQ"]
    assert any(found[-4:] == last for found in requests)


@pytest.mark.parametrize(
    ("file", "offset", "place"),
    [
        ("commitlog", 4096, "commitlog @ log offset 4096"),
        ("/s/commitlog/00000000000000004096", 20, "/s/commitlog/00000000000000004096 @ byte 20"),
        ("consumequeue/T0/3", 48, "consumequeue/T0/3 @ byte 48, queue offset 2 of T0/3"),
        (
            "/s/consumequeue/T0/3/00000000000000000200",
            40,
            "/s/consumequeue/T0/3/00000000000000000200 @ byte 40, queue offset 12 of T0/3",
        ),
        (
            "/s/consumequeue_ext/T0/3/00000000000000000200",
            40,
            "/s/consumequeue_ext/T0/3/00000000000000000200 @ byte 40",
        ),
        ("/s/checkpoint", -1, "/s/checkpoint"),
    ],
)
def test_the_place_of_a_violation_names_the_kind_of_its_offset(file: str, offset: int, place: str) -> None:
    assert Violation("DUR", "", file, offset).place_text == place


def test_a_finding_in_a_queue_names_the_byte_and_the_queue_offset() -> None:
    failure = failure_of("hole-hides-segment")
    file, offset = failure.violations[0].file, failure.violations[0].offset
    queue = file.removeprefix("consumequeue/")

    lines = [line.text for line in failure_text(failure).lines]
    assert f"file:     {file} @ byte {offset}, queue offset {offset // 20} of {queue}" in lines
