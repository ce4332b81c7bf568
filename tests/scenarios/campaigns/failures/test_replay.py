"""Replay: repeats a record as far as the code allows, and names its missing parts."""

from dataclasses import replace

import pytest

from tests.fixtures import QUIET, QUIET_SCENARIO
from tornlog.scenarios.campaigns.failures.failure import FailingRun, Failure
from tornlog.scenarios.campaigns.failures.replay import (
    RunReplay,
    failing_run_of,
    is_same_run,
    replay,
    run_plan,
    verified_run,
)
from tornlog.scenarios.campaigns.failures.story import STORY_LINES
from tornlog.scenarios.campaigns.mutation_run import narrowed_scenario
from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed, run_seed
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.mutants.known import applied_mutant, mutant_named
from tornlog.scenarios.runs.run_of import simulation_of
from tornlog.sim.choices import Decision
from tornlog.sim.errors import ReplayDivergedError
from tornlog.sim.schedule import TaskSwitch
from tornlog.sim.trace import Trace
from tornlog.store.recovery.recovery import Recovery


def replay_with_its_mutant(failure: Failure) -> RunReplay:
    with applied_mutant(failure.mutant):
        return replay(failure.original.record)


def mutant_result(mutant: str) -> Failure:
    """Search for a mutant and return the failure of the first seed that finds it."""
    scenario = narrowed_scenario(mutant_named(mutant))
    results = (run_seed(scenario, seed, mutant=mutant) for seed in range(500))
    return next(result.failure for result in results if result.failure is not None)


def test_a_replay_gives_the_same_digest_and_violations_every_time(failure: Failure) -> None:
    stored = Failure.from_json(failure.to_json())
    for _ in range(3):
        replayed = replay_with_its_mutant(stored)
        assert is_same_run(replayed, failure.original)
        assert replayed.record == failure.original.record


@pytest.mark.parametrize("mutant", ["stale-tail-after-truncate", "group-commit-lost-wakeup", "props-outside-crc"])
def test_failures_with_crashes_pauses_and_task_switches_can_be_replayed(mutant: str) -> None:
    failure = Failure.from_json(mutant_result(mutant).to_json())
    assert is_same_run(replay_with_its_mutant(failure), failure.original)


def test_a_replay_uses_crash_points_instead_of_operation_numbers() -> None:
    record = mutant_result("reput-past-flushed").original.record
    assert any(crash.point for crash in record.crashes)
    numbers = replace(record.setup, lives=tuple(replace(life, operation=0) for life in record.setup.lives))
    with applied_mutant("reput-past-flushed"):
        others = replay(replace(record, setup=numbers))
        assert others.result.digest == replay(record).result.digest


# The story


def test_the_story_ends_at_the_violation(failure: Failure) -> None:
    story = failure.original.story
    assert 0 < len(story) <= STORY_LINES
    times = [float(line.split(" ms", 1)[0]) for line in story if " ms  " in line]
    assert times == sorted(times)
    assert any("store commitlog/0 " in line for line in story[-4:])
    assert not any("switch" in line for line in story)


def test_the_story_of_a_crash_has_the_crash_and_the_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recovery, "finish_queues", lambda self: None)
    ranges = QUIET.replace(endings=("crash at rest",), disk=("strict-posix",), producers=(1,))
    ranges = ranges.replace(index={"slots": (0,)})  # index recovery stores so much that the story would be too long
    failure = run_seed(Scenario("crash", "a crash takes nothing", ranges), 1).failure
    assert failure is not None
    story = failure.original.story
    killed = [number for number, line in enumerate(story) if "life-0/main: kill life-0" in line]
    assert len(killed) == 1
    assert all(line.partition(" ms  ")[2].startswith(("heal", "disk: power cut")) for line in story[killed[0] + 1 :])


# Records and code that do not fit


def with_extra_decisions(failure: Failure, *more: Decision | TaskSwitch) -> Failure:
    record = failure.original.record
    record = replace(
        record,
        decisions=record.decisions + tuple(part for part in more if isinstance(part, Decision)),
        schedule=record.schedule + tuple(part for part in more if isinstance(part, TaskSwitch)),
    )
    return replace(failure, original=replace(failure.original, record=record))


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (
            Decision("life-0/producer-0", "m0.0.0 of yore", 1, 3, 2),
            "decision life-0/producer-0: m0.0.0 of yore #1: 2 of 3",
        ),
        (Decision("disk-99", "msync /a ns", 4, 9, 8), "decision disk-99: msync /a ns #4: 8 of 9"),
        (TaskSwitch("life-0/nobody", "store", 1, "life-0/main"), "switch life-0/nobody @ store #1 -> life-0/main"),
        (TaskSwitch("life-0/main", "spawn", 99, "life-0/main"), "switch life-0/main @ spawn #99 -> life-0/main"),
    ],
)
def test_a_replay_names_a_missing_decision_and_continues(
    failure: Failure, part: Decision | TaskSwitch, line: str
) -> None:
    replayed = replay_with_its_mutant(with_extra_decisions(failure, part))
    assert replayed.unmet_lines == [line]
    assert not is_same_run(replayed, failure.original)
    assert replayed.result.digest == failure.original.digest
    assert replayed.record == failure.original.record


def test_a_replay_with_a_changed_plan_gives_a_different_run(failure: Failure) -> None:
    record = failure.original.record
    with applied_mutant(failure.mutant):
        replayed = replay(replace(record, setup=replace(record.setup, producers=1)))
    assert any("life-0/producer-1" in line for line in replayed.unmet_lines)
    assert not is_same_run(replayed, failure.original)


def test_a_failure_does_not_reproduce_without_its_mutant(failure: Failure) -> None:
    replayed = replay(failure.original.record)
    assert replayed.result.violations == []
    assert not is_same_run(replayed, failure.original)


def test_tracing_a_replay_does_not_change_it(failure: Failure) -> None:
    trace = Trace()
    with applied_mutant(failure.mutant):
        assert is_same_run(replay(failure.original.record, trace), failure.original)
    assert len(trace) > len(failure.original.story)


# Violations are repeated before they are reported


def test_a_record_without_a_violation_is_refused(failure: Failure) -> None:
    with pytest.raises(ReplayDivergedError):
        verified_run(failure.original.record)
    with applied_mutant(failure.mutant):
        again = verified_run(failure.original.record)
    assert isinstance(again, FailingRun)
    assert again == failure.original


def test_a_run_that_differs_when_repeated_is_refused() -> None:
    choices, plan = draw_plan_of_seed(QUIET_SCENARIO, 1)
    simulation = simulation_of(plan, choices)
    outcome = run_plan(plan, simulation)
    failing_run_of(outcome, simulation)
    outcome.digest = "another"
    with pytest.raises(ReplayDivergedError, match="another"):
        failing_run_of(outcome, simulation)


# Sizes


def test_the_size_of_a_failure_counts_messages_switches_faults_and_lives() -> None:
    torn = mutant_result("props-outside-crc").original
    size, schedule = torn.size, torn.record.schedule
    assert size.messages > 0
    assert size.switches == len(schedule)
    assert size.preemptions == sum(not switch.label.startswith("~") for switch in schedule)
    assert 0 < size.sectors <= len([one for one in torn.record.decisions if one.label.startswith("page ")])
    assert size.lives == len(torn.record.setup.lives)
    failing = mutant_result("flush-advance-on-io-error").original
    assert failing.size.faults >= 1
