from dataclasses import replace

import pytest

from tests.fixtures import QUIET_PLAN
from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.ranges import POLICY_PARAMETERS
from tornlog.scenarios.claims.scenario import POLICIES
from tornlog.scenarios.runs.run_of import horizon_steps, policy_of, simulation_of
from tornlog.scenarios.runs.store_run import Run
from tornlog.sim.choices import Choices


def test_every_policy_in_a_plan_can_be_created() -> None:
    assert POLICY_PARAMETERS.keys() == POLICIES.keys()
    for name, (parameters, _) in POLICY_PARAMETERS.items():
        for parameter in parameters:
            plan = replace(QUIET_PLAN, policy=name, policy_parameter=parameter)
            assert policy_of(plan, Choices("1")).name == name


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="policy: expected one that plans draw, found fair"):
        policy_of(replace(QUIET_PLAN, policy="fair"), Choices("1"))


def test_a_run_repeats_exactly_under_every_policy() -> None:
    for name, (parameters, _) in POLICY_PARAMETERS.items():
        plan = replace(QUIET_PLAN, policy=name, policy_parameter=parameters[0])
        outcomes = [Run(plan, simulation_of(plan, Choices("1"))).execute() for _ in range(2)]
        assert outcomes[0].digest == outcomes[1].digest
        assert not outcomes[0].violations


@pytest.mark.ci
@pytest.mark.parametrize(
    "name", ["sync-flush-power-cut", "consumed-message-durable", "transaction-outcome", "delayed-delivery"]
)
def test_the_estimated_horizon_is_near_the_number_of_steps_of_a_run(name: str) -> None:
    """The estimate must be within a factor of 3 for most runs. Steps vary by factors of 100."""
    seeds = near = 0
    for seed in range(25):
        choices, plan = draw_plan_of_seed(SCENARIOS[name].narrowed(policy="random-walk"), seed)
        steps = Run(plan, simulation_of(plan, choices)).execute().steps
        seeds += 1
        near += steps / 3 < horizon_steps(plan) < steps * 3

    assert near >= 0.55 * seeds
