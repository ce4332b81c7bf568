"""Shrinking: failures become small enough to read, and break the same promise."""

from dataclasses import replace
from statistics import median

import pytest

from tornlog.scenarios.campaigns.failures.failure import Failure, RunRecord
from tornlog.scenarios.campaigns.failures.replay import is_same_run, replay
from tornlog.scenarios.campaigns.failures.shrink import shrink_failure, shrunk_json
from tornlog.scenarios.campaigns.mutation_run import narrowed_scenario
from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.mutants.known import applied_mutant, mutant_named
from tornlog.sim.errors import ReplayDivergedError

pytestmark = pytest.mark.ci

SAMPLE = ("ack-before-flush", "flush-advance-on-io-error", "group-commit-swap-race", "props-outside-crc")
"""Mutants with one kind of failure each: a plain one, a fault, a switch, a torn record."""
REST_OF_SAMPLE = (
    "blank-marker-offset-check",
    "clean-exit-with-backlog",
    "config-rename-without-sync",
    "cq-redispatch-duplicates",
    "group-commit-lost-wakeup",
    "lmq-offset-lock-split",
    "op-queue-overflow-one",
)
TRIES_MAX = 500


def first_failure_per_mutant(names: tuple[str, ...]) -> dict[str, Failure]:
    """Return the first failure with each mutant."""
    failures = {}
    for name in names:
        scenario = narrowed_scenario(mutant_named(name))
        results = (run_seed(scenario, seed, mutant=name).failure for seed in range(200))
        failures[name] = next(failure for failure in results if failure is not None)
    return failures


def shrink_each(failures: dict[str, Failure]) -> dict[str, Failure]:
    return {name: shrink_failure(failure, tries_max=TRIES_MAX).failure for name, failure in failures.items()}


@pytest.fixture(scope="module")
def sample_failures() -> dict[str, Failure]:
    return first_failure_per_mutant(SAMPLE)


@pytest.fixture(scope="module")
def shrunk(sample_failures: dict[str, Failure]) -> dict[str, Failure]:
    return shrink_each(sample_failures)


@pytest.mark.slow
def test_sample_failures_shrink_to_a_few_messages(shrunk: dict[str, Failure]) -> None:
    failures = shrunk | shrink_each(first_failure_per_mutant(REST_OF_SAMPLE))
    sizes = [failure.smallest.size for failure in failures.values()]
    assert median(size.messages for size in sizes) <= 6
    assert median(size.preemptions for size in sizes) <= 3
    assert median(size.sectors for size in sizes) <= 2
    assert max(size.preemptions for size in sizes) <= 8
    assert max(size.faults for size in sizes) <= 1


def test_no_size_of_a_shrunk_failure_is_larger_than_before(shrunk: dict[str, Failure]) -> None:
    for failure in shrunk.values():
        before, after = failure.original.size, failure.smallest.size
        assert after.messages <= before.messages
        assert after.switches <= before.switches
        assert after.lives <= before.lives


def test_a_shrunk_failure_breaks_the_same_promise_only_with_the_bug(shrunk: dict[str, Failure]) -> None:
    for name, failure in shrunk.items():
        small = Failure.from_json(failure.to_json()).smallest
        assert small.violations[0].signature == failure.violations[0].signature
        with applied_mutant(name):
            assert is_same_run(replay(small.record), small)
        assert replay(small.record).result.violations == []


def test_a_shrunk_failure_keeps_the_required_task_switch_or_fault(shrunk: dict[str, Failure]) -> None:
    race = shrunk["group-commit-swap-race"].smallest
    assert race.size.switches >= 1
    assert race.size.faults == race.size.sectors == 0
    failed_sync = shrunk["flush-advance-on-io-error"].smallest
    assert any(decision.label.startswith("failed sync ") for decision in failed_sync.record.decisions)
    assert failed_sync.size.faults == 1


def test_a_shrunk_torn_record_has_one_loss_in_the_log(shrunk: dict[str, Failure]) -> None:
    torn = shrunk["props-outside-crc"].smallest
    lost = [decision.label for decision in torn.record.decisions if decision.stream.startswith("disk-")]
    (place,) = {label.split()[1] for label in lost}
    assert "/store/commitlog/" in place  # by a crash during a write, or by a page with a part of it
    assert torn.size.sectors <= 1
    assert torn.size.faults == 0

    ground = narrowed_scenario(mutant_named("props-outside-crc"))
    at_rest = replace(ground, ranges=ground.ranges.replace(endings=("crash at rest",)))
    results = (run_seed(at_rest, seed, mutant="props-outside-crc").failure for seed in range(200))
    failure = next(failure for failure in results if failure is not None)
    by_power_cut = shrink_failure(failure, tries_max=TRIES_MAX).failure.smallest
    assert by_power_cut.size.sectors == 1
    assert by_power_cut.size.faults == 0


def test_shrinking_is_deterministic(sample_failures: dict[str, Failure]) -> None:
    ways = []
    for _ in range(2):
        way: list[tuple[RunRecord, bool]] = []
        small = shrink_failure(
            sample_failures["props-outside-crc"],
            tries_max=60,
            on_try=lambda record, accepted, way=way: way.append((record, accepted)),  # type: ignore[misc]
        )
        ways.append((small, way))
    assert ways[0] == ways[1]
    assert len(ways[0][1]) == ways[0][0].tries == 60


@pytest.mark.slow
def test_shrinking_continues_from_its_last_result(sample_failures: dict[str, Failure]) -> None:
    first = shrink_failure(sample_failures["props-outside-crc"], tries_max=10)
    second = shrink_failure(first.failure, tries_max=400)
    assert second.failure.original == sample_failures["props-outside-crc"].original
    assert second.failure.smallest.size.switches <= first.failure.smallest.size.switches
    assert second.failure.smallest.size.messages < sample_failures["props-outside-crc"].original.size.messages


def test_shrinking_that_is_stopped_at_once_makes_no_try_and_no_change(sample_failures: dict[str, Failure]) -> None:
    failure = sample_failures["props-outside-crc"]
    stopped = shrink_failure(failure, stop=lambda: True)
    assert stopped.tries == 0
    assert stopped.failure.shrunk == failure.original


def test_a_failure_that_does_not_reproduce_is_not_shrunk(sample_failures: dict[str, Failure]) -> None:
    repaired = Failure("hunt", "a bug that is gone", 0, None, sample_failures["ack-before-flush"].original)
    with pytest.raises(ReplayDivergedError):
        shrink_failure(repaired, tries_max=50)


@pytest.mark.slow
def test_shrinking_can_require_only_the_same_invariant(sample_failures: dict[str, Failure]) -> None:
    failure = sample_failures["props-outside-crc"]
    small = shrink_failure(failure, tries_max=200, same="invariant").failure.smallest
    assert small.violations[0].invariant == failure.violations[0].invariant


def test_json_of_a_shrunk_failure_has_the_sizes_before_and_after(sample_failures: dict[str, Failure]) -> None:
    shrunk = shrink_failure(sample_failures["ack-before-flush"], tries_max=50)
    document = shrunk_json(shrunk, 1.23456)
    assert document["before"]["messages"] >= document["after"]["messages"] == 1
    assert document["tries"] == shrunk.tries
    assert document["seconds"] == 1.235
    assert document["digest"] == shrunk.failure.smallest.digest
