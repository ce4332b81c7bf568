"""Failures of broker runs are stored, replayed and shrunk."""

import json

import pytest

from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.failures.replay import replay
from tornlog.scenarios.campaigns.failures.shrink import shrink_failure
from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed, run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.mutants.known import applied_mutant

MUTANT = "ack-before-flush"
OF_BROKERS = [name for name, scenario in SCENARIOS.items() if scenario.ranges.has_brokers]
POWER = Scenario(
    "broker-power-cuts",
    "what was answered is there",
    SCENARIOS["broker-crash"].ranges.replace(
        sync_flush=(True,), disk=("strict-posix",), endings=("crash in traffic",), lives=(1, 2)
    ),
)


@pytest.mark.parametrize("name", OF_BROKERS)
def test_a_plan_of_a_broker_run_survives_a_round_trip_through_json(name: str) -> None:
    _, plan = draw_plan_of_seed(SCENARIOS[name], 1)
    assert plan.broker.serves
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_a_failure_of_a_broker_run_can_be_replayed_and_shrunk() -> None:
    results = (run_seed(POWER, seed, mutant=MUTANT) for seed in range(200))
    failure = next(result.failure for result in results if result.failure is not None)
    stored = Failure.from_json(failure.to_json())
    with applied_mutant(MUTANT):
        assert replay(stored.original.record).is_same(failure.original)
    small = shrink_failure(stored, tries_max=80).failure

    assert small.violations[0].invariant == failure.violations[0].invariant
    assert len(small.smallest.record.decisions) < len(failure.original.record.decisions)
    with applied_mutant(MUTANT):
        assert replay(small.smallest.record).is_same(small.smallest)
