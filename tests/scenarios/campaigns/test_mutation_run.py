"""Mutation runs: one mutant or many, in one or more processes, and their reports."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tornlog.scenarios.campaigns import mutation_run
from tornlog.scenarios.campaigns.mutation_run import (
    MutantFind,
    MutantResult,
    MutationLimits,
    MutationSettings,
    core_seconds_texts,
    run_mutant,
    run_mutants,
)
from tornlog.scenarios.campaigns.seed_choice import CodePlace, MeasuredRun, MeasuredRuns
from tornlog.scenarios.campaigns.seeds import SeedResult, run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS, SWARM
from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.mutants.known import mutant_named
from tornlog.scenarios.mutants.mutant import Mutant, Patch, bit
from tornlog.store.log.flush import GroupCommitService
from tornlog.store.log.segment import Segment
from tornlog.store.queues import consume_queue
from tornlog.store.retention import cleaning

NAMES = [
    "tests.mutation:drop-notice:flush.GroupCommitService.submit#1",
    "tests.mutation:drop-sync:side_file.SideFile.store#1",
    "ack-before-flush",
    "tests.mutation:short-by-one:segment.Segment.set_positions#2",
]
PLAIN, OTHER = SCENARIOS["sync-flush-power-cut"], SCENARIOS["clean-shutdown"]


def settings_for(seeds: int, *names: str, **options: Any) -> MutationSettings:
    return MutationSettings(MutationLimits(seeds), tuple(SCENARIOS[name] for name in names) or (PLAIN,), **options)


def mutant_of_patches(*patches: Patch, expected: tuple[str, ...] = ()) -> Mutant:
    return Mutant("of-outside", "a bug of this test", patches, expected)


@pytest.fixture
def registered_mutants(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Make a mutant known by its id during the test."""

    def make_known(mutant: Mutant) -> Mutant:
        monkeypatch.setitem(MUTANTS, mutant.id, mutant)
        return mutant

    return make_known  # type: ignore[return-value]


def test_scenarios_alternate_and_broker_scenarios_run_in_every_second_round(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def held(scenario: Any, seed: int, **_: object) -> SeedResult:
        assert SCENARIOS[scenario.name] is scenario
        asked.append((scenario.name, seed))
        return SeedResult(scenario.name, seed, "held", reached=1)

    monkeypatch.setattr(mutation_run, "run_seed", held)
    result = run_mutant(MUTANTS["ack-before-flush"], MutationSettings(MutationLimits(2)))

    in_turn = list(SCENARIOS)
    dear = [name for name in in_turn if name not in SWARM and SCENARIOS[name].ranges.has_brokers]
    cheap = [name for name in in_turn if name not in dear]
    assert len(dear) > 10
    assert len(cheap) > 40
    assert asked == [
        *((name, 0) for name in cheap),
        *((name, 0 if name in dear else 1) for name in in_turn),
        *((name, 1) for name in dear),
    ]
    assert (result.found, result.seeds, result.reached) == (False, 2 * len(SCENARIOS), 2 * len(SCENARIOS))


def test_under_a_time_limit_scenarios_run_as_often_as_they_reach_the_mutated_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, int]] = []

    def held(scenario: Any, seed: int, **_: object) -> SeedResult:
        asked.append((scenario.name, seed))
        return SeedResult(scenario.name, seed, "held", reached=int(scenario is PLAIN))

    monkeypatch.setattr(mutation_run, "run_seed", held)
    monkeypatch.setattr(mutation_run, "process_time", count().__next__)  # one second per run
    scenarios = (OTHER, PLAIN)
    result = run_mutant(
        MUTANTS["ack-before-flush"], MutationSettings(MutationLimits(core_seconds=36), scenarios=scenarios)
    )

    # Waits of 2, 4, 8, ... rounds: runs in the rounds 1, 3, 7, 15 and 31.
    assert [seed for name, seed in asked if name == PLAIN.name] == list(range(31))
    assert [seed for name, seed in asked if name == OTHER.name] == list(range(5))
    assert (result.seeds, result.reached) == (36, 31)


def test_measured_runs_that_execute_the_mutated_code_run_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, int]] = []

    def held(scenario: Any, seed: int, **_: object) -> SeedResult:
        asked.append((scenario.name, seed))
        return SeedResult(scenario.name, seed, "held", reached=1)

    monkeypatch.setattr(mutation_run, "run_seed", held)
    monkeypatch.setattr(mutation_run, "process_time", count().__next__)  # one second per run
    places = [CodePlace(GroupCommitService.__module__, f"GroupCommitService.{name}") for name in ("submit", "other")]
    reached = {(PLAIN.name, 0): "2", (PLAIN.name, 1): "1", (OTHER.name, 0): "2", (OTHER.name, 1): "2"}
    MeasuredRuns(places, [MeasuredRun(*run, 1.0, mask) for run, mask in reached.items()]).save(tmp_path / "runs")
    assert mutation_run._places_of(MUTANTS["ack-before-flush"]) == {places[0]}

    settings = MutationSettings(MutationLimits(core_seconds=7), (OTHER, PLAIN), measured=tmp_path / "runs")
    run_mutant(MUTANTS["ack-before-flush"], settings)
    assert asked[0] == (PLAIN.name, 1), "the other measured runs do not execute the code"
    assert [seed for name, seed in asked[1:] if name == PLAIN.name] == [2, 3, 4, 5], "a larger share executes it"
    assert [seed for name, seed in asked[1:] if name == OTHER.name] == [2, 3]


def test_the_places_of_a_constant_are_its_users_else_its_class_or_module() -> None:
    used = mutant_of_patches(Patch(cleaning, "MANUAL_PASSES", 1))
    names = "remove_expired", "delete_manually"
    assert mutation_run._places_of(used) == {CodePlace(cleaning.__name__, f"CleanCommitLog.{name}") for name in names}
    unused = mutant_of_patches(Patch(cleaning, "__doc__", ""), Patch(Segment, "__doc__", ""))
    assert mutation_run._places_of(unused) == {
        CodePlace(cleaning.__name__, ""),
        CodePlace(Segment.__module__, "Segment"),
    }


def test_the_places_of_an_imported_function_are_its_users_in_the_module() -> None:
    mutant = mutant_of_patches(Patch(consume_queue, "is_blank", lambda entry: True))
    assert mutation_run._places_of(mutant) == {CodePlace(consume_queue.__name__, "ConsumeQueue.index_of")}


def test_a_found_mutant_names_scenario_invariant_and_cost() -> None:
    result = run_mutant(MUTANTS["ack-before-flush"], settings_for(50, OTHER.name, PLAIN.name))
    (find,) = result.finds
    assert (result.scenario, result.invariant) == (find.scenario, find.invariant)
    assert find.scenario in (OTHER.name, PLAIN.name)
    assert 1 <= result.seeds == find.seeds <= 100
    assert 0 < result.core_seconds == find.core_seconds
    assert 1 <= (result.reached or 0) <= result.seeds
    assert result.is_expected
    assert result.clean_violation == ""
    again = run_seed(SCENARIOS[find.scenario], find.seed, mutant="ack-before-flush")
    assert again.failure is not None
    assert again.failure.violations[0].invariant == find.invariant


def test_all_scenarios_that_find_a_mutant_are_named_on_request() -> None:
    settings = settings_for(50, PLAIN.name, OTHER.name, "segment-rollover-crash", all_scenarios=True)
    result = run_mutant(MUTANTS["ack-before-flush"], settings)
    assert {PLAIN.name, "segment-rollover-crash"} <= {find.scenario for find in result.finds}
    assert [find.seeds for find in result.finds] == sorted(find.seeds for find in result.finds)
    assert result.seeds == result.finds[0].seeds
    assert result.reached is not None
    assert result.reached <= result.seeds, "what came behind the first find is no part of the figure"


def test_without_scenarios_a_mutant_runs_in_a_scenario_narrowed_to_it() -> None:
    result = run_mutant(mutant_named(NAMES[0]), MutationSettings(MutationLimits(50), scenarios=None))
    assert result.found
    assert result.scenario == f"hunt-{NAMES[0]}"
    assert result.clean_violation == ""


def test_a_mutation_run_ends_when_its_core_seconds_are_used_up() -> None:
    equivalent = mutant_named("tests.mutation:drop-lock:transient_pool.TransientStorePool.give_back#1")
    result = run_mutant(equivalent, MutationSettings(MutationLimits(core_seconds=0.2)))
    assert not result.found
    assert 0.2 <= result.core_seconds < 60.0


@pytest.mark.ci
def test_a_mutant_that_was_not_found_has_run_all_seeds_of_all_scenarios() -> None:
    equivalent = mutant_named("tests.mutation:drop-lock:transient_pool.TransientStorePool.give_back#1")
    result = run_mutant(equivalent, settings_for(15, PLAIN.name, OTHER.name))
    assert (result.found, result.invariant, result.scenario, result.seeds) == (False, "", "", 30)
    assert result.clean_violation == ""
    assert result.to_json()["shrunk"] is None


@pytest.mark.parametrize(
    ("name", "occasion", "counts", "reason"),
    [
        ("append", lambda size: size > 1 << 30, (3, 0, None), "reached in 3 seeds, never bit"),
        ("append", lambda size: size > 0, (3, 3, None), "reached in 3 seeds, bit in 3 seeds, not seen"),
        ("no_such_use", lambda size: True, (0, 0, None), "never reached"),
    ],
)
def test_a_missed_mutant_is_explained_by_its_activity(
    registered_mutants: Any,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    occasion: Any,
    counts: tuple[Any, ...],
    reason: str,
) -> None:
    append = Segment.append
    monkeypatch.setattr(Segment, "no_such_use", append, raising=False)

    def append_and_report(self: Segment, position: int, data: bytes) -> None:
        bit(occasion(len(data)))
        append(self, position, data)

    result = run_mutant(registered_mutants(mutant_of_patches(Patch(Segment, name, append_and_report))), settings_for(3))
    assert (result.reached, result.bit, result.differing) == counts
    assert result.missed_because == reason


def test_digests_are_compared_for_a_mutant_that_does_not_report_activity(registered_mutants: Any) -> None:
    submit = GroupCommitService.submit

    def submit_as_ever(self: GroupCommitService, request: Any) -> None:
        submit(self, request)

    def submit_with_a_breath(self: GroupCommitService, request: Any) -> None:
        self.world.tasks.sleep(1)
        submit(self, request)

    inert = run_mutant(
        registered_mutants(mutant_of_patches(Patch(GroupCommitService, "submit", submit_as_ever))), settings_for(5)
    )
    slow = run_mutant(
        registered_mutants(mutant_of_patches(Patch(GroupCommitService, "submit", submit_with_a_breath))),
        settings_for(5),
    )
    assert (inert.bit, inert.differing) == (None, (0, inert.reached))
    assert inert.missed_because.endswith("ran otherwise in 0 of 5 seeds compared")
    assert (slow.bit, slow.differing) == (None, (5, 5))
    assert slow.missed_because.endswith("ran otherwise in 5 of 5 seeds compared, not seen")


def test_uses_of_a_mutated_constant_are_not_counted(registered_mutants: Any) -> None:
    names = [name for name, value in vars(cleaning).items() if isinstance(value, int) and name.isupper()]
    same = Patch(cleaning, names[0], vars(cleaning)[names[0]])
    result = run_mutant(registered_mutants(mutant_of_patches(same)), settings_for(3))
    assert (result.reached, result.bit, result.differing) == (None, None, (0, 3))
    assert result.missed_because == "ran otherwise in 0 of 3 seeds compared"


def test_a_broken_unexpected_invariant_also_counts_as_finding_the_mutant(registered_mutants: Any) -> None:
    (patch,) = MUTANTS["ack-before-flush"].patches
    result = run_mutant(registered_mutants(mutant_of_patches(patch, expected=("IDX",))), settings_for(50))
    assert result.found
    assert not result.is_expected


@pytest.mark.slow
def test_several_processes_give_the_same_results_in_order() -> None:
    def without_times(jobs: int) -> list[dict[str, Any]]:
        settings = MutationSettings(MutationLimits(40), scenarios=None)
        found = [mutant_result.to_json() for mutant_result in run_mutants(NAMES, settings, jobs=jobs)]
        finds = [[{**find, "core_seconds": 0} for find in one["finds"]] for one in found]
        return [{**one, "core_seconds": 0, "finds": own} for one, own in zip(found, finds, strict=True)]

    alone = without_times(1)
    assert [one["id"] for one in alone] == NAMES
    assert without_times(2) == alone


def test_a_harness_error_ends_the_run_of_its_mutant_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(scenario: Any, seed: int, *, mutant: str, **_: object) -> SeedResult:
        error = "it broke" if mutant == "ack-before-flush" else ""
        return SeedResult(scenario.name, seed, "harness-error" if error else "held", error=error, reached=1)

    monkeypatch.setattr(mutation_run, "run_seed", broken)
    names = ["ack-before-flush", "stale-tail-after-truncate"]
    monkeypatch.setattr(mutation_run, "_COMPARED_MAX", 0)
    first, second = run_mutants(names, settings_for(3))
    assert (first.error, first.seeds) == (f"{PLAIN.name}, seed 0: it broke", 1)
    assert (second.error, second.seeds) == ("", 3)


def test_a_violation_of_the_unmodified_store_on_the_same_seed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from tornlog.scenarios.mutants.activity import activity_counted

    @contextmanager
    def nothing(self: object) -> Iterator[Any]:
        with activity_counted() as activity:
            yield activity

    mutant = MUTANTS["ack-before-flush"]
    with mutant.applied():  # the store has the bug even if the run does not apply the mutant
        monkeypatch.setattr(type(mutant), "applied", nothing)
        result = run_mutant(mutant, settings_for(5))
    assert not result.found, "a seed that breaks without it proves nothing"
    assert re.match(rf"{PLAIN.name} --seed \d: STATUS: ", result.clean_violation)


def test_missed_mutants_rank_as_the_slowest_to_find() -> None:
    def found(core_seconds: float) -> MutantResult:
        find = MutantFind("combined-faults", 0, "DUR", 1, core_seconds)
        return MutantResult("x", (find,), 1, core_seconds, reached=1, bit=None)

    missed = MutantResult("y", (), 900, 60.0, reached=0, bit=None)
    most = [found(float(number)) for number in range(1, 20)]
    assert core_seconds_texts([*most, found(50.0)]) == {"median": "10.0", "95 %": "19.0", "maximum": "50.0"}
    assert core_seconds_texts([missed, *most]) == {"median": "10.0", "95 %": "19.0", "maximum": "over 60.0"}
    assert core_seconds_texts([missed]) == dict.fromkeys(("median", "95 %", "maximum"), "over 60.0")
