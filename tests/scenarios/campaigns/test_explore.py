"""Exploration of one run: every crash state is judged once, and every failure can be replayed."""

from dataclasses import replace
from typing import Any

import pytest

from tornlog.faults.disk.fault_injector import CrashPoint
from tornlog.faults.simulation.explore import CrashMoment, ExplorationCounts, Situation, StateSample
from tornlog.faults.simulation.record import Record
from tornlog.faults.simulation.simulation import Crash, Simulation
from tornlog.scenarios.campaigns import explore_store
from tornlog.scenarios.campaigns.explore import (
    NEST_SAMPLES,
    Exploration,
    ExploreSettings,
    explore_operations,
    explore_seed,
    first_life,
    first_situation,
)
from tornlog.scenarios.campaigns.explore_store import RecoveringRun, situation_of_load
from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.failures.replay import is_same_run, replay
from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.mutants.known import applied_mutant
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.runs.run_of import policy_of
from tornlog.scenarios.runs.store_run import Run
from tornlog.sim.errors import ReplayDivergedError
from tornlog.sim.kernel import Kernel
from tornlog.store.message_store import MessageStore
from tornlog.store.recovery.recovery import RecoveryReport


def scenario(name: str, disk: str) -> Scenario:
    """Return a scenario on one disk. Runs without attribute points are shorter."""
    narrowed = SCENARIOS[name].narrowed(disk=disk)
    return replace(narrowed, ranges=narrowed.ranges.replace(attribute_points=(False,)))


def first_situation_of(wanted: Scenario, seed: int, messages_each: int) -> Situation:
    situation, broken = first_situation(wanted, seed, first_life(wanted, seed, messages_each))
    assert situation is not None, broken
    return situation


def explore_operation(situation: Situation, number: int, settings: ExploreSettings) -> ExplorationCounts:
    return explore_operations((situation, range(number, number + 1)), settings, None)


SYNC = scenario("sync-flush-power-cut", "ext4-ordered")
SMALL = ExploreSettings(limit=24, messages_each=1)


@pytest.fixture(scope="module")
def unmodified_exploration() -> Exploration:
    return explore_seed(SYNC, 3, SMALL)


def test_the_store_keeps_every_promise_in_every_explored_crash_state(unmodified_exploration: Exploration) -> None:
    total = unmodified_exploration.found.total
    assert unmodified_exploration.failures == []
    assert total.violations == 0
    assert total.judged > 100
    assert unmodified_exploration.states_per_second > 0


def test_exploration_tries_a_crash_before_during_and_after_every_operation(unmodified_exploration: Exploration) -> None:
    situation = first_situation_of(SYNC, 3, 1)
    kinds = {kind for _, kind in unmodified_exploration.found.counts}
    assert kinds == {point.kind for point in situation.points}
    assert {"store", "msync", "sync", "sync directory", "create", "extend", "unlink"} <= kinds
    assert len(set(situation.points)) == len(situation.points)
    for (_, kind), count in unmodified_exploration.found.counts.items():
        times = sum(point.kind == kind for point in situation.points)
        least = 2 * times if kind in ("create", "extend", "unlink", "rename", "make directory") else 3 * times
        assert count.moments >= least, kind
        assert count.crashes == 2 * count.moments, "a power cut and a process kill"
        assert count.exhausted + count.cut <= 2 * count.crashes


def test_equal_crash_states_are_judged_once(unmodified_exploration: Exploration) -> None:
    found = unmodified_exploration.found
    assert len(found.judged) == found.total.judged < found.total.states
    assert len(found.images) <= len(found.judged)
    assert {image for image, _ in found.judged} == found.images
    assert len({standing for _, standing in found.judged}) > 2


@pytest.mark.slow
def test_exploring_a_seed_has_the_same_result_in_one_process_and_in_two(unmodified_exploration: Exploration) -> None:
    for jobs in (1, 2):
        again = explore_seed(SYNC, 3, SMALL, jobs=jobs)
        assert again.found.images == unmodified_exploration.found.images
        assert again.found.judged == unmodified_exploration.found.judged
        assert again.found.total.states == unmodified_exploration.found.total.states
        assert again.depths == unmodified_exploration.depths


_ONE_IN_FOUR = [
    pytest.param(name, marks=() if number % 4 == 0 else pytest.mark.slow) for number, name in enumerate(SCENARIOS)
]


@pytest.mark.ci
@pytest.mark.parametrize("name", _ONE_IN_FOUR)
def test_a_crash_in_a_run_of_any_scenario_can_be_explored(name: str) -> None:
    for seed in range(1, 20):  # a disk that fails at once leaves no operations to explore
        situation, broken = first_situation(SCENARIOS[name], seed, first_life(SCENARIOS[name], seed, 1))
        assert situation is not None, broken
        if situation.points:
            break
    else:
        raise AssertionError("no seed has an operation")

    counts = explore_operation(situation, len(situation.points) // 2, ExploreSettings(limit=1, messages_each=1))

    assert counts.judged
    assert not counts.breaches


def test_progress_is_reported_until_all_operations_are_done() -> None:
    told: list[tuple[int, int]] = []
    settings = replace(SMALL, limit=2)
    done = explore_seed(SYNC, 3, settings, on_progress=lambda found, some, all_: told.append((some, all_)))

    assert told[-1] == (done.depths[0].operations, done.depths[0].operations)
    assert [some for some, _ in told] == sorted(some for some, _ in told)


@pytest.mark.parametrize(
    ("mutant", "name", "disk", "invariants"),
    [
        pytest.param(
            *("no-dir-fsync-on-rollover", "segment-rollover-crash", "strict-posix", {"DUR", "START"}),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("checkpoint-before-data", "segment-rollover-crash", "ext4-ordered", {"CKPT"}), marks=pytest.mark.slow
        ),
        ("ack-before-flush", "sync-flush-power-cut", "ext4-ordered", {"STATUS"}),
        ("props-outside-crc", "torn-record", "strict-posix", {"PREFIX", "DUR", "READ"}),
    ],
)
def test_a_mutant_is_found_by_exploring_one_seed_and_each_failure_can_be_replayed(
    mutant: str, name: str, disk: str, invariants: set[str]
) -> None:
    found = explore_seed(scenario(name, disk), 2, ExploreSettings(limit=32, messages_each=2), mutant=mutant)

    assert found.failures
    assert {failure.violations[0].invariant for failure in found.failures} & invariants
    for failure in found.failures:
        stored = Failure.from_json(failure.to_json())
        assert stored.mutant == mutant
        with applied_mutant(mutant):
            assert is_same_run(replay(stored.original.record), stored.original)
        for crash in filter(lambda crash: crash.point, failure.original.record.crashes):
            assert str(CrashPoint.parse(crash.point)) == crash.point


class AlwaysEmptySet(set[Any]):
    """A set that seems to contain nothing, so that no state counts as seen."""

    def __contains__(self, _: object) -> bool:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [None, "no-dir-fsync-on-rollover"])
def test_a_crash_image_under_the_same_promises_always_gets_the_same_verdict(
    mutant: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: dict[tuple[str, str], list[Violation]] = {}

    class Watched(RecoveringRun):
        def __init__(self, plan: Any, promised: Any, image: Any) -> None:
            super().__init__(plan, promised, image)
            self.key = (image.digest(), promised.state)

        def signature(self, *, heal: bool) -> str:
            signature = super().signature(heal=heal)
            assert judged.setdefault(self.key, self._judge.violations) == self._judge.violations
            return signature

    monkeypatch.setattr(explore_store, "RecoveringRun", Watched)
    settings = ExploreSettings(limit=12, messages_each=1)
    with applied_mutant(mutant):
        situation = first_situation_of(scenario("segment-rollover-crash", "strict-posix"), 1, 1)
        pruned, whole = ExplorationCounts(), ExplorationCounts(judged=AlwaysEmptySet())
        numbers = range(0, len(situation.points), 2)
        for found in (pruned, whole):
            explore_operations((situation, numbers), settings, None, found)

    assert whole.total.judged == whole.total.states == pruned.total.states > pruned.total.judged
    assert set(whole.judged) == pruned.judged
    assert whole.images == pruned.images
    assert set(whole.breaches) == set(pruned.breaches)
    assert bool(pruned.breaches) is (mutant is not None)


def test_the_image_of_a_real_crash_is_among_the_explored_images() -> None:
    plan = first_life(SYNC, 3, 1)
    situation = first_situation_of(SYNC, 3, 1)
    for number in range(0, len(situation.points), 7):
        point = situation.points[number]
        for profile in ("process-kill", "ext4-ordered"):
            found = explore_operation(situation, number, ExploreSettings(limit=4096, messages_each=1))
            images: list[str] = []
            choices = draw_plan_of_seed(SYNC, 3)[0]
            crashes = (Crash("life-0", profile, "before", str(point)),)
            run = Run(plan, Simulation(choices, policy_of(plan, choices), crashes=crashes))
            run.lasting.on_image = lambda image, images=images: images.append(image.digest())  # type: ignore[misc]
            run.execute()
            if profile == "process-kill" or found.total.exhausted == found.total.crashes:
                assert images[0] in found.images


@pytest.mark.slow
def test_no_promise_is_broken_by_three_nested_crashes_in_recovery() -> None:
    found = explore_seed(SYNC, 3, ExploreSettings(limit=6, messages_each=1, nest=3))

    assert found.failures == []
    assert len(found.depths) == 4
    for depth in (1, 2, 3):
        assert 0 < found.depths[depth].situations <= NEST_SAMPLES
        states = [count.states for (deep, _), count in found.found.counts.items() if deep == depth]
        assert sum(states) > 100


@pytest.mark.slow
def test_a_bug_in_interrupted_recovery_is_found_only_with_the_nest_option(monkeypatch: pytest.MonkeyPatch) -> None:
    recover = MessageStore.recover

    def rewrites(store: MessageStore, *, clean_exit: bool) -> RecoveryReport:
        for segment in store.log.segments:
            content = bytes(segment.file.view(0, segment.size_bytes))
            segment.file.store(0, bytes(segment.size_bytes))
            segment.file.store(0, content)
        return recover(store, clean_exit=clean_exit)

    monkeypatch.setattr(MessageStore, "recover", rewrites)
    wanted, settings = (scenario("crash-in-recovery", "ext4-ordered"), ExploreSettings(limit=6, messages_each=2))
    plain = explore_seed(wanted, 2, settings)
    deeper = explore_seed(wanted, 2, replace(settings, nest=1))

    assert plain.failures == []
    assert deeper.failures
    for failure in deeper.failures:
        assert len(failure.original.record.setup.lives) == 2
        assert is_same_run(replay(failure.original.record), failure.original)


def test_a_nested_crash_has_only_the_operations_of_a_load() -> None:
    situation = first_situation_of(SYNC, 3, 1)
    found = explore_operation(situation, 40, ExploreSettings(limit=6, messages_each=1, nest=1))
    assert found.samples
    for sample in found.samples:
        inner = situation_of_load(sample, situation)
        assert inner.depth == 1
        assert inner.points
        kinds = [point.kind for point in inner.points]
        assert kinds[0] in ("create", "write", "empty", "make directory", "sync directory")
        assert not any(point.path.endswith("/abort") and point.kind == "create" for point in inner.points)


def test_sampled_states_have_the_smallest_digests_in_any_order() -> None:
    plan = first_life(SYNC, 3, 1)
    digests = [f"{(number * 7) % 11:02}" for number in range(11)]
    for order in (digests, digests[::-1]):
        found = ExplorationCounts()
        for digest in [*order, *order]:
            if found.would_sample(digest, NEST_SAMPLES):
                found.add_sample(StateSample(digest, Record((), (), (), plan)), NEST_SAMPLES)
        assert [one.digest for one in found.samples] == sorted(digests)[:NEST_SAMPLES]


@pytest.mark.slow
def test_a_bug_in_use_after_recovery_is_found_with_the_heal_option() -> None:
    settings, mutant = ExploreSettings(limit=40, messages_each=2), "cq-redispatch-duplicates"
    wanted = scenario("crash-in-recovery", "ext4-ordered")
    plain = explore_seed(wanted, 2, settings, mutant=mutant)
    healed = explore_seed(wanted, 2, replace(settings, heal=True), mutant=mutant)

    assert plain.failures == []
    assert [failure.violations[0].invariant for failure in healed.failures] == ["SCAN"]
    assert plain.found.judged == healed.found.judged


def test_a_crash_moment_names_its_operation() -> None:
    point = CrashPoint("store", "/store/checkpoint", 2)
    assert str(CrashMoment(point, "before")) == "before store /store/checkpoint #2"
    assert str(CrashMoment(point, "during", 3)) == "during store /store/checkpoint #2, 3 bytes missing"


@pytest.mark.slow
def test_merged_exploration_counts_keep_the_first_breach_of_each_kind() -> None:
    first, second = (
        explore_seed(
            scenario("segment-rollover-crash", "strict-posix"),
            seed,
            ExploreSettings(limit=3, messages_each=2, nest=1),
            mutant="no-dir-fsync-on-rollover",
        ).found
        for seed in (1, 2)
    )
    plan = first_life(SYNC, 3, 1)
    second.samples = [StateSample("00", Record((), (), (), plan))]
    breaches, judged, states = dict(first.breaches), set(first.judged), first.total.states
    first.add(second, NEST_SAMPLES)

    assert first.breaches == {**second.breaches, **breaches}
    assert first.judged == judged | second.judged
    assert first.images == {image for image, _ in first.judged}
    assert first.total.states == states + second.total.states
    assert first.samples[0].digest == "00"


def test_an_unreachable_crash_moment_is_an_error() -> None:
    situation = replace(first_situation_of(SYNC, 3, 1), points=(CrashPoint("store", "/store/nothing", 1),))

    with pytest.raises(ReplayDivergedError):
        explore_operation(situation, 0, SMALL)


def test_a_violation_that_the_replay_does_not_reproduce_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Suspicious(RecoveringRun):
        def signature(self, *, heal: bool) -> str:
            return "dur-a-mere-suspicion"

    monkeypatch.setattr(explore_store, "RecoveringRun", Suspicious)
    with pytest.raises(ReplayDivergedError):
        explore_seed(SYNC, 3, replace(SMALL, limit=1))


def test_a_run_that_differs_when_it_is_repeated_is_not_explored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "schedule", property(lambda kernel: [[1, "store", "life-0/flush"]]))
    with pytest.raises(ReplayDivergedError):
        first_situation_of(SYNC, 3, 1)
