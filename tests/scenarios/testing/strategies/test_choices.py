"""Drawn choices: a function makes every draw of a run, and 0 gives the simplest run."""

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.runs.outcome import RunOutcome
from tornlog.scenarios.runs.run_of import simulation_of
from tornlog.scenarios.runs.store_run import Run
from tornlog.scenarios.testing.strategies import choices, plans, schedules
from tornlog.scenarios.testing.strategies.choices import DrawnChoices, UnusualDraws
from tornlog.sim.choices import Choices
from tornlog.sim.policies.replay import ReplayPolicy

QUICK = settings(database=None, derandomize=True, max_examples=25)


def test_choices_of_0_give_the_simplest_run(crash_plan: Plan) -> None:
    plain = Run(crash_plan, simulation_of(crash_plan, DrawnChoices(lambda options: 0), ReplayPolicy())).execute()
    replayed = Run(crash_plan, simulation_of(crash_plan, Choices.for_replay(()), ReplayPolicy())).execute()

    assert plain.violations == []
    assert plain.digest == replayed.digest


def test_choices_drawn_by_hypothesis_can_be_replayed_without_it(crash_plan: Plan) -> None:
    numbers = iter(range(1, 100_000))
    drawn = DrawnChoices(lambda options: next(numbers) % options)

    outcome = Run(crash_plan, simulation_of(crash_plan, drawn, ReplayPolicy())).execute()
    again = Choices.for_replay(drawn.decisions())

    assert len(drawn.decisions()) > 10
    assert Run(crash_plan, simulation_of(crash_plan, again, ReplayPolicy())).execute().digest == outcome.digest
    assert again.unused_decisions() == []


@pytest.mark.parametrize("probability", [0.0, 0.01, 0.3, 1.0])
def test_a_chance_is_drawn_with_about_its_probability(probability: float) -> None:
    numbers = iter(range(10_000_000))
    stream = DrawnChoices(lambda options: next(numbers) * 7 % options).stream("coins")

    hits = sum(stream.chance(probability, "coin") for _ in range(5_000))

    assert abs(hits / 5_000 - probability) < 0.005


def test_streams_with_one_subject_draw_from_the_same_function() -> None:
    numbers = iter((3, 1))
    drawn = DrawnChoices(lambda options: next(numbers))

    stream = drawn.stream("s")
    assert (stream.with_subject("a").randbelow(5, "x"), stream.randbelow(5, "y")) == (3, 1)
    assert [str(decision) for decision in drawn.decisions()] == ["s: a x #1: 3 of 5", "s: y #1: 1 of 5"]
    assert drawn.stream("s") is stream


def test_runs_of_any_generated_plan_keep_every_promise() -> None:
    @QUICK
    @given(plan=plans(), drawn=choices(), schedule=schedules())
    def check(plan: Plan, drawn: Choices, schedule: ReplayPolicy) -> None:
        assert Run(plan, simulation_of(plan, drawn, schedule)).execute().violations == []

    check()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of a whole run, before it is shrunk
def test_hypothesis_shrinks_a_failing_run_to_the_simplest_one(crash_plan: Plan) -> None:
    """The run must lose data at the crash. It shrinks to one loss without a task switch."""

    def lost(run: tuple[Choices, RunOutcome]) -> bool:
        return run[1].injected["page lost"] > 0

    @st.composite
    def runs(draw: st.DrawFn) -> tuple[Choices, RunOutcome]:
        drawn = draw(choices())
        return drawn, Run(crash_plan, simulation_of(crash_plan, drawn, draw(schedules()))).execute()

    phases = (Phase.generate, Phase.shrink)
    drawn, _ = find(runs(), lost, settings=settings(QUICK, max_examples=200, phases=phases))

    losses = [decision for decision in drawn.decisions() if "disk" in decision.stream]
    assert len([decision for decision in losses if "writes lost" in decision.label]) == 1


def test_no_surprises_draw_zeros_and_most_surprises_change_every_draw() -> None:
    hand = UnusualDraws()

    assert [hand(10) for _ in range(50)] == [0] * 50
    hand.set_surprise((4, 7))
    boldest = [hand(10) for _ in range(500)]
    hand.set_surprise((1, 7))
    mild = [hand(10) for _ in range(500)]
    assert set(boldest) == set(range(10))
    assert 360 < mild.count(0) < 440
    hand.set_surprise((4, 7))
    assert [hand(10) for _ in range(500)] == boldest
