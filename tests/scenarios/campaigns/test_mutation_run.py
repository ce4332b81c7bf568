"""Hunting: one mutant or many, in this process or others, and what a hunt says."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tornlog.scenarios.campaigns import mutation_run
from tornlog.scenarios.campaigns.mutation_run import run_mutant, run_mutants
from tornlog.scenarios.campaigns.seeds import SeedResult
from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.mutants.known import mutant_named

NAMES = [
    "tests.mutation:drop-notice:flush.GroupCommitService.submit#1",
    "tests.mutation:drop-sync:side_file.SideFile.store#1",
    "ack-before-flush",
    "tests.mutation:short-by-one:segment.Segment.set_positions#2",
]


def test_a_hunt_that_finds_says_by_what_and_after_how_many_seeds() -> None:
    mutant_result = run_mutant(mutant_named(NAMES[0]), 50)
    assert mutant_result.found
    assert mutant_result.invariant
    assert 1 <= mutant_result.seeds <= 50
    assert mutant_result.clean_violation == ""


def test_a_hunt_that_finds_nothing_has_run_all_seeds() -> None:
    equivalent = mutant_named("tests.mutation:drop-write:message_store.MessageStore._lock_directory#1")
    mutant_result = run_mutant(equivalent, 30)
    assert (
        mutant_result.found,
        mutant_result.invariant,
        mutant_result.seeds,
        mutant_result.clean_violation,
    ) == (False, "", 30, "")
    assert mutant_result.to_json()["shrunk"] is None


def test_hunts_in_several_processes_give_what_one_gives_in_the_order_of_the_names() -> None:
    def without_times(jobs: int) -> list[dict[str, object]]:
        found = [mutant_result.to_json() for mutant_result in run_mutants(NAMES, 40, jobs=jobs)]
        return [{**one, "seconds": 0} for one in found]

    alone = without_times(1)
    assert [one["id"] for one in alone] == NAMES
    assert without_times(2) == alone


def test_a_fault_of_the_harness_ends_the_hunt(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(scenario: object, seed: int, **_: object) -> SeedResult:
        return SeedResult("x", seed, "harness-error", error="it broke")

    monkeypatch.setattr(mutation_run, "run_seed", broken)
    with pytest.raises(RuntimeError, match="ack-before-flush, seed 0: it broke"):
        run_mutant(MUTANTS["ack-before-flush"], 3)


def test_what_the_clean_store_breaks_on_the_same_seeds_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def nothing(self: object) -> Iterator[None]:
        yield

    mutant = MUTANTS["ack-before-flush"]
    with mutant.applied():  # the store is broken without it, too
        monkeypatch.setattr(type(mutant), "applied", nothing)
        mutant_result = run_mutant(mutant, 20)
    assert mutant_result.found
    assert mutant_result.clean_violation.startswith(mutant_result.invariant)
