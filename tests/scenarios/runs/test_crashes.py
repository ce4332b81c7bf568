"""The crash points of a plan's lives: drawn as a number, recorded and replayed by name."""

from dataclasses import replace

import pytest

from tornlog.faults.simulation.simulation import Crash, Simulation
from tornlog.scenarios.campaigns.failures.replay import run_plan
from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.plan import Life, LifeEnding, Plan
from tornlog.scenarios.runs.run_of import policy_of, simulation_of
from tornlog.sim.choices import Choices

TRAFFIC = Life(LifeEnding.CRASH_IN_TRAFFIC, "process-kill", 25, "before", 6)


def simulation_with_drawn_crashes(plan: Plan) -> Simulation:
    return simulation_of(plan, Choices("1"))


def simulation_with_recorded_crashes(
    plan: Plan, crashes: tuple[Crash, ...], choices: Choices | None = None
) -> Simulation:
    choices = choices or Choices("1")
    return Simulation(choices, policy_of(plan, choices), crashes=crashes)


def test_a_crash_point_ends_a_life_at_the_same_operation_as_its_number(delayed_plan: Plan) -> None:
    plan = replace(delayed_plan, lives=(TRAFFIC, replace(TRAFFIC, operation=5)))
    simulation = simulation_with_drawn_crashes(plan)
    first = run_plan(plan, simulation)
    other_numbers = replace(plan, lives=tuple(replace(life, operation=1) for life in plan.lives))
    second = run_plan(other_numbers, simulation_with_recorded_crashes(plan, simulation.crashes))

    assert [crash.life for crash in simulation.crashes] == ["life-0", "life-1"]
    assert all(crash.point for crash in simulation.crashes)
    assert first.crash_points == 2
    assert (second.digest, second.injected) == (first.digest, first.injected)


@pytest.mark.ci
def test_a_crash_point_counts_from_the_persisting_of_offsets_if_its_number_does() -> None:
    points = []
    for seed in range(12):
        choices, plan = draw_plan_of_seed(SCENARIOS["consumer-offset-durable"], seed)
        simulation = simulation_of(plan, choices)
        first = run_plan(plan, simulation)
        again, plan = draw_plan_of_seed(SCENARIOS["consumer-offset-durable"], seed)
        assert run_plan(plan, simulation_with_recorded_crashes(plan, simulation.crashes, again)).digest == first.digest
        in_persist = {
            f"life-{number}" for number, life in enumerate(plan.lives) if life.ending is LifeEnding.CRASH_IN_PERSIST
        }
        points += [crash.point for crash in simulation.crashes if crash.life in in_persist]
    assert any("/config/" in point for point in points)


def test_a_life_that_does_not_reach_its_crash_operation_crashes_at_its_end(crash_plan: Plan) -> None:
    late = replace(crash_plan, lives=(replace(TRAFFIC, operation=10**6),))
    simulation = simulation_with_drawn_crashes(late)
    first = run_plan(late, simulation)

    assert simulation.crashes == (Crash("life-0", "process-kill", "before", ""),)
    assert run_plan(late, simulation_with_recorded_crashes(late, simulation.crashes)).digest == first.digest


def test_a_recorded_crash_replaces_the_crash_of_the_plan(crash_plan: Plan) -> None:
    plan = replace(crash_plan, lives=(TRAFFIC,))
    kinder = Crash("life-0", "nothing-lost", "after", "")
    simulation = simulation_with_recorded_crashes(plan, (kinder,))
    run_plan(plan, simulation)

    assert simulation.crashes == (kinder,)
