from dataclasses import replace

from tornlog.scenarios.campaigns.seeds import draw
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.crash_points import CrashPoints
from tornlog.scenarios.claims.plan import Life, LifeEnding, Plan
from tornlog.scenarios.runs.outcome import RunOutcome
from tornlog.scenarios.runs.store_run import Run
from tornlog.sim.choices import Choices

TRAFFIC = Life(LifeEnding.CRASH_IN_TRAFFIC, "process-kill", 25, "before", 6)


def run(plan: Plan, crash_points: CrashPoints | None = None) -> RunOutcome:
    return Run(plan, Choices("1"), crash_points=crash_points).execute()


def test_a_name_ends_a_life_where_its_number_does(delayed_plan: Plan) -> None:
    plan = replace(delayed_plan, lives=(TRAFFIC, replace(TRAFFIC, operation=5)))
    points = CrashPoints(naming=True)
    first = run(plan, points)
    named = points.named(plan)
    second = run(named)

    assert [one.operation for one in named.lives] == [-1, -1]
    assert all(one.crash_point for one in named.lives)
    assert first.crashes == 2
    assert (second.digest, second.fired) == (first.digest, first.fired)
    assert run(plan).digest == first.digest


def test_an_operation_is_named_from_when_progress_is_persisted_if_its_number_counts_from_there() -> None:
    named_lives = []
    for seed in range(12):
        choices, plan = draw(SCENARIOS["progress-survives-every-crash"], seed)
        points = CrashPoints(naming=True)
        first = Run(plan, choices, crash_points=points).execute()
        again, plan = draw(SCENARIOS["progress-survives-every-crash"], seed)
        named = points.named(plan)
        assert Run(named, again).execute().digest == first.digest
        named_lives += [life for life in named.lives if life.ending == "crash in persist"]
    assert any("/config/" in life.crash_point for life in named_lives)


def test_an_operation_that_was_never_met_has_no_name(crash_plan: Plan) -> None:
    late = replace(crash_plan, lives=(replace(TRAFFIC, operation=10**6),))
    points = CrashPoints(naming=True)
    first = run(late, points)
    named = points.named(late)

    assert named.lives == (replace(late.lives[0], operation=-1),)
    assert run(named).digest == first.digest


def test_a_plan_without_numbers_stays_as_it_is(crash_plan: Plan) -> None:
    assert CrashPoints(naming=True).named(crash_plan) == crash_plan
