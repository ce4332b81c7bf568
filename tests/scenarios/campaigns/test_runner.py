"""Runner: counts each seed once, with the same result for any split into jobs."""

import os
from collections.abc import Sequence
from typing import cast

import pytest

from tests.fixtures import BROKEN_SCENARIO, QUIET_SCENARIO
from tornlog.scenarios.campaigns.runner import BATCH_SEEDS, FAILURES_KEPT_MAX, Batch, Tally, batches_of, run_batches
from tornlog.scenarios.campaigns.seeds import SeedResult
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.scenario import Scenario

TWO = [SCENARIOS["sync-flush-power-cut"], SCENARIOS["clean-shutdown"]]


def seeds_of(batches: Sequence[Batch], scenario: Scenario) -> list[int]:
    return [
        seed
        for batch in batches
        if batch.scenario is scenario
        for seed in range(batch.first, batch.first + batch.count)
    ]


def totals_of(tallies: dict[str, Tally]) -> dict[str, tuple[object, ...]]:
    """Return the contents of each tally that do not depend on the clock."""
    return {
        name: (
            tally.seeds,
            tally.crash_points,
            tally.messages,
            tally.steps,
            tally.injected,
            tally.judged,
            tally.broken,
            tally.digest,
        )
        for name, tally in tallies.items()
    }


@pytest.mark.parametrize(
    "seeds", [range(1), range(BATCH_SEEDS), range(BATCH_SEEDS + 1), range(7, 7 + 3 * BATCH_SEEDS), range(-5, 5)]
)
def test_batches_cover_exactly_the_requested_seeds(seeds: range) -> None:
    batches = list(batches_of(TWO, seeds))
    for scenario in TWO:
        assert seeds_of(batches, scenario) == list(seeds)
    assert all(0 < batch.count <= BATCH_SEEDS for batch in batches)


def test_batch_rounds_continue_without_end_and_start_small() -> None:
    batches = [batch for batch, _ in zip(batches_of(TWO, None), range(18), strict=False)]
    counts = [1, 1, 2, 4, 8, 16, BATCH_SEEDS, BATCH_SEEDS, BATCH_SEEDS]
    assert [batch.count for batch in batches[::2]] == counts
    assert [batch.scenario for batch in batches[::2]] == [batches[0].scenario] * 9
    assert [seeds_of(batches, scenario) for scenario in TWO] == [list(range(sum(counts)))] * 2
    assert [batch.count for batch in batches_of(TWO[:1], range(5, 14))] == [1, 1, 2, 4, 1]


def test_a_round_begins_with_scenarios_that_have_rare_ranges() -> None:
    order = [batch.scenario.name for batch in batches_of(list(SCENARIOS.values()), range(1))]
    assert sorted(order) == sorted(SCENARIOS)
    usual = order.index("clean-shutdown")
    for rare in ("second-start-refused", "recovery-on-lying-disk", "recovery-on-dying-disk"):
        assert order.index(rare) < usual


def test_every_batch_has_the_options_of_its_seeds() -> None:
    batches = list(batches_of(TWO, range(60), mutant="ack-before-flush", check_determinism=True))
    assert all(batch.mutant == "ack-before-flush" and batch.check_determinism for batch in batches)


def test_batch_sizes_change_neither_totals_nor_digest() -> None:
    def run(*sizes: int) -> dict[str, tuple[object, ...]]:
        batches, first = [], 40
        for size in sizes:
            batches += [Batch(scenario, first, size) for scenario in TWO]
            first += size
        return totals_of(run_batches(batches))

    whole = run(5)
    assert run(1, 3, 1) == whole
    assert run(3, 2) == whole
    assert run(2, 2) != whole


@pytest.mark.ci
def test_two_processes_give_the_same_totals_as_one() -> None:
    def batches() -> list[Batch]:
        return [Batch(scenario, first, 3) for first in range(0, 6, 3) for scenario in TWO]

    assert totals_of(run_batches(batches(), jobs=2)) == totals_of(run_batches(batches(), jobs=1))


def test_a_digest_depends_on_the_order_of_seeds_and_ends_at_the_first_missing_seed() -> None:
    results = [SeedResult("quiet", seed, "held", digest=f"{seed:032x}") for seed in range(4)]

    def tally_of(*seeds: int) -> Tally:
        tally = Tally(QUIET_SCENARIO)
        for seed in seeds:
            tally.add(results[seed])
        return tally

    assert tally_of(0, 1).digest != tally_of(1, 0).digest
    assert (tally_of(0, 1, 3).seeds, tally_of(0, 1, 3).digest) == (3, tally_of(0, 1).digest)


def test_a_deadline_ends_a_run_without_a_last_seed() -> None:
    tallies = run_batches(batches_of([QUIET_SCENARIO], None), seconds=0.05)
    seeds = tallies["quiet"].seeds
    assert seeds > 0
    assert seeds in (1, 2, 4, 8, 16) or seeds % BATCH_SEEDS == 32 % BATCH_SEEDS, "what is begun is finished"


def test_progress_is_reported_batch_by_batch() -> None:
    told: list[tuple[int, int]] = []
    run_batches(
        batches_of([QUIET_SCENARIO], range(BATCH_SEEDS + 2)),
        on_progress=lambda tally, more: told.append((tally.seeds, more)),
    )
    assert told == [(1, 1), (2, 1), (4, 2), (8, 4), (16, 8), (BATCH_SEEDS + 2, 11)]


def test_verdicts_are_counted_by_disk_and_violations_by_disk_and_invariant() -> None:
    tally = run_batches([Batch(TWO[0], 0, 20, mutant="ack-before-flush")])[TWO[0].name]
    assert tally.judged.total() == 20
    assert set(tally.judged) <= set(TWO[0].ranges["disk"])
    assert tally.broken.total() == tally.violations > 0
    for (invariant, disk), seeds in tally.broken.items():
        of_disk = [one for one in tally.failures if one.original.record.setup.disk == disk]
        assert invariant == "STATUS"
        assert seeds == len(of_disk) <= tally.judged[disk]


def test_a_harness_error_is_named_and_no_disk_counts_it() -> None:
    tallies = run_batches([Batch(BROKEN_SCENARIO, 5, 3), Batch(QUIET_SCENARIO, 5, 3)])
    broken = tallies["broken"]
    assert (broken.seeds, broken.judged, broken.broken) == (3, {}, {})
    assert [error.partition(":")[0] for error in broken.errors] == [f"broken --seed {seed}" for seed in (5, 6, 7)]
    assert tallies["quiet"].errors == []


def test_nondeterministic_seeds_are_counted_and_named(impatient_producers: None) -> None:
    tally = run_batches([Batch(QUIET_SCENARIO, 1, 2, check_determinism=True)])["quiet"]
    assert [text.partition(":")[0] for text in tally.nondeterministic] == ["quiet --seed 1", "quiet --seed 2"]
    assert tally.violations == 0


def test_all_failures_are_counted_but_only_some_are_kept() -> None:
    seeds = FAILURES_KEPT_MAX + 5
    tally = run_batches([Batch(QUIET_SCENARIO, 0, seeds, mutant="ack-before-flush")])["quiet"]
    assert tally.violations == seeds
    assert [failure.seed for failure in tally.failures] == list(range(FAILURES_KEPT_MAX))


class EndsItsWorker:
    """A plan whose run kills the process, like a bug in a C library."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return os._exit, (1,)


@pytest.mark.ci
def test_a_worker_process_that_dies_loses_only_its_batches() -> None:
    good, deadly = Batch(TWO[0], 0, 2), Batch(TWO[1], 0, 3, mutant=cast(str, EndsItsWorker()))

    tallies = run_batches([good, deadly], jobs=2)

    lost = [error for tally in tallies.values() for error in tally.errors]
    assert sum(tally.seeds for tally in tallies.values()) == 5, "a seed without a result was dropped"
    assert len(tallies[TWO[1].name].errors) == 3
    assert all("worker process died" in error for error in lost)
