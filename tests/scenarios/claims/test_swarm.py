"""Swarms: a seed first draws the features of a run, then their values."""

from collections import Counter

import pytest

from tornlog.scenarios.campaigns.pairs import features_of
from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed, run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS, SWARM
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.sim.choices import Choices

BOTH = Ranges(delay={"chance": (0.0,)}).with_optional(
    delays={"delay": {"chance": (0.5,)}}, pool={"memory": {"transient_pool": (True,)}, "sync_flush": (False,)}
)


def test_each_optional_feature_is_enabled_in_half_of_the_seeds_independently() -> None:
    plans = [draw_plan(Choices(str(seed)).stream("plan"), BOTH) for seed in range(200)]
    met = Counter((plan.delay.chance > 0, plan.memory.transient_pool) for plan in plans)
    assert set(met) == {(delayed, pooled) for delayed in (False, True) for pooled in (False, True)}
    assert min(met.values()) > 25
    assert all(not plan.sync_flush for plan in plans if plan.memory.transient_pool)


def test_a_narrowed_setting_is_no_longer_optional() -> None:
    narrowed = BOTH.replace(delay={"chance": (0.25,)}, sync_flush=(True,))
    assert dict(narrowed.optional) == {"pool": {"memory.transient_pool": (True,)}}
    assert narrowed != BOTH
    for seed in range(20):
        plan = draw_plan(Choices(str(seed)).stream("plan"), narrowed)
        assert (plan.delay.chance, plan.sync_flush) == (0.25, True)


def test_a_late_optional_group_leaves_all_other_seeds_unchanged() -> None:
    late = BOTH.with_late_optional(0.3, slaves={"cluster": {"slaves": (1, 2)}, "sync_flush": (True,)})
    plans = [
        [draw_plan(Choices(str(seed)).stream("plan"), ranges) for ranges in (BOTH, late, late.replace(consumers=(1,)))]
        for seed in range(200)
    ]
    changed = [(plain, plan) for plain, plan, _ in plans if plan.cluster.slaves]
    assert all(plain == plan for plain, plan, _ in plans if not plan.cluster.slaves)
    assert 40 < len(changed) < 80
    assert {plan.cluster.slaves for _, plan in changed} == {1, 2}
    assert all(
        plan == plain.replace(sync_flush=True, cluster={"slaves": plan.cluster.slaves}) for plain, plan in changed
    )
    assert sum(narrowed.cluster.slaves > 0 for *_, narrowed in plans) > 40
    assert late != BOTH.with_optional(0.3, slaves={"cluster": {"slaves": (1, 2)}, "sync_flush": (True,)})


def test_ranges_without_optional_features_are_unchanged() -> None:
    assert Ranges().draw_optional(Choices("any").stream("plan")) == Ranges()
    with pytest.raises(ValueError, match=r"delay\.wait: expected a knob"):
        Ranges().with_optional(delays={"delay": {"wait": (1,)}})


@pytest.mark.parametrize("name", sorted(SWARM))
def test_seeds_of_a_swarm_scenario_have_different_features(name: str) -> None:
    drawn = [frozenset(features_of(draw_plan_of_seed(SCENARIOS[name], seed)[1])) for seed in range(60)]
    assert len(set(drawn)) > 40
    times = Counter(feature for one in drawn for feature in one)
    assert 8 < times["delayed messages"] < 45
    assert 8 < times["transactions"] < 45


@pytest.mark.ci
@pytest.mark.parametrize(
    ("wanted", "invariants"),
    [
        ({"delayed messages", "transactions", "light queues", "group progress"}, {"REP", "SCHED", "TX"}),
        ({"retention", "consumers"}, {"REP", "CLEAN"}),
    ],
)
def test_swarm_plans_combine_single_store_features_with_slaves(wanted: set[str], invariants: set[str]) -> None:
    scenario = SCENARIOS["swarm-cluster"]
    tried: set[str] = set()
    for seed in range(120):
        if wanted <= {*features_of(draw_plan_of_seed(scenario, seed)[1])}:
            result = run_seed(scenario, seed)
            assert result.outcome == "held"
            tried |= {*result.tried}
    assert invariants <= tried
