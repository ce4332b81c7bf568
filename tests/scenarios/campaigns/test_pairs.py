"""Pairs: which features and faults occurred together, and which could have."""

from dataclasses import replace

import pytest

from tornlog.faults.kinds import FAULTS
from tornlog.scenarios.campaigns.pairs import (
    APART,
    FEATURES,
    LIMITS,
    NAMES,
    SINGLE,
    count_occurred_pairs,
    features_of,
    pairs_in,
    possible_pairs,
)
from tornlog.scenarios.campaigns.runner import Tally
from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed, run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS

SEEDS = 6


def test_every_name_in_a_pair_limit_or_exclusion_is_a_feature_or_a_fault() -> None:
    named = {name for limit in LIMITS for name in limit.names}
    named |= {name for apart in APART for name in (*apart.these, *apart.those)}
    assert named <= set(NAMES)
    assert set(NAMES) | SINGLE.keys() == {*FEATURES, *FAULTS}
    assert not FEATURES.keys() & FAULTS.keys()


@pytest.mark.parametrize(
    ("pair", "can"),
    [
        (("delayed messages", "failed sync"), True),
        (("delayed messages", "transactions"), True),
        (("partition", "slaves"), True),
        (("broker", "partition"), True),
        (("broker", "slaves"), True),
        (("broker", "second start"), False),
        (("bit rot", "lying sync"), False),
        (("bit rot", "slaves"), False),
        (("partition", "second start"), False),
        (("batches", "broker"), True),
        (("broker", "light queues"), True),
        (("disk full", "slaves"), True),
        (("client death", "stop under load"), True),
        (("client death", "second start"), False),
        (("failed read", "flipped bit"), True),
        (("flipped bit", "slow IO"), True),
        (("failed sync", "slaves"), True),
        (("failed removal", "slaves"), True),
        (("lost sector", "removal undone"), False),
        (("late sync error", "power cut after a stop"), True),
        (("lying sync", "power cut after a stop"), False),
    ],
)
def test_a_pair_is_possible_if_both_names_share_a_kind_of_run_and_disk(pair: tuple[str, str], can: bool) -> None:
    assert (pair in possible_pairs()) == can


def test_a_fault_that_was_not_injected_is_in_no_pair() -> None:
    found = list(pairs_in(["slaves", "consumers"], {"failed sync": 2, "bit rot": 0, "crash": 1, "crash xfs": 1}))
    assert found == [("consumers", "failed sync"), ("consumers", "slaves"), ("failed sync", "slaves")]


def test_missing_pairs_are_listed_under_the_name_with_more_missing_partners() -> None:
    met = dict.fromkeys(possible_pairs(), 1)
    del met["batches", "consumers"], met["batches", "key index"], met["clock step", "retention"]
    found = count_occurred_pairs(met)
    assert found.met == found.possible_count - 3 == len(met)
    assert found.missing_partners() == {"batches": ["consumers", "key index"], "clock step": ["retention"]}


def test_every_feature_is_drawn_by_some_scenario() -> None:
    drawn = {
        name
        for scenario in SCENARIOS.values()
        for seed in range(40)
        for name in features_of(draw_plan_of_seed(scenario, seed)[1])
    }
    assert drawn == set(FEATURES)


@pytest.mark.slow
def test_every_pair_that_occurred_counts_as_possible() -> None:
    for scenario in SCENARIOS.values():
        tally = Tally(scenario)
        for seed in range(SEEDS):
            tally.add(run_seed(scenario, seed))
        assert tally.pairs.keys() <= possible_pairs(), scenario.name


def test_a_pair_is_counted_once_per_seed() -> None:
    scenario = SCENARIOS["replica-prefix-of-master"]
    result = run_seed(scenario, 0)
    tally = Tally(scenario)
    for _ in range(2):
        tally.add(replace(result, features=("batches", "slaves"), injected={"failed sync": 9}))
    assert set(tally.pairs.values()) == {2}
    assert len(tally.pairs) == 3
