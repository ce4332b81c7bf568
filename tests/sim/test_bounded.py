import pytest

from tests.sim.rigs import order_of
from tornlog.sim.errors import ReplayDivergedError
from tornlog.sim.search import Bounded, ScheduleDeviation, SwitchPoint, parse_deviations


@pytest.mark.parametrize(
    ("deviations", "passed"),
    [
        ("", "aaabbb"),
        ("1:1", "bbbaaa"),
        ("2:1", "abbbaa"),
        ("2:1 5:1", "abbaab"),
        ("0~1:1", "bbbaaa"),
        ("3:2", "aaabbb"),
        ("2:1 3:1 4:1", "aabbba"),
    ],
)
def test_a_run_deviates_exactly_at_the_given_deviations(deviations: str, passed: str) -> None:
    policy = Bounded(parse_deviations(deviations))
    assert order_of(policy, "ab") == passed
    assert not policy.untaken
    taken = [
        ScheduleDeviation(decision.step, decision.forced, decision.option)
        for decision in policy.decisions()
        if decision.option
    ]
    assert taken == list(parse_deviations(deviations))


def test_a_quantum_among_the_same_tasks_is_noted_as_one_decision() -> None:
    policy = Bounded()
    order_of(policy, "ab")
    assert policy.decisions() == [
        SwitchPoint(0, 1, 3, 0, 3),  # a, until it ends
        SwitchPoint(3, 1, 2, 0, 6),  # b
    ]


def test_the_default_schedule_asks_no_more_often_than_tasks_block() -> None:
    short, long = Bounded(), Bounded()
    order_of(short, "ab")
    order_of(long, "ab", 300)
    assert len(short.decisions()) == len(long.decisions())


def test_there_are_no_decisions_before_a_run() -> None:
    assert Bounded().decisions() == []


@pytest.mark.parametrize(
    ("deviations", "index"),
    [
        ("2:9", 0),  # there are fewer tasks
        ("1:1 2~1:1", 1),  # no task blocks there
        ("0~2:1", 0),  # no task blocks there a second time
    ],
)
def test_a_deviation_that_cannot_happen_is_a_divergence(deviations: str, index: int) -> None:
    with pytest.raises(ReplayDivergedError) as caught:
        order_of(Bounded(parse_deviations(deviations)), "ab")
    assert caught.value.record == "deviations"
    assert caught.value.index == index


def test_deviations_beyond_the_end_of_a_run_are_left_over() -> None:
    policy = Bounded(parse_deviations("2:1 999:1"))
    order_of(policy, "ab")
    assert policy.untaken == (ScheduleDeviation(999, 0, 1),)


def test_deviations_are_read_as_they_are_printed() -> None:
    deviations = (ScheduleDeviation(118, 0, 1), ScheduleDeviation(204, 1, 2), ScheduleDeviation(204, 12, 3))
    text = " ".join(map(str, deviations))
    assert text == "118:1 204~1:2 204~12:3"
    assert parse_deviations(text) == deviations
    assert parse_deviations("") == ()


@pytest.mark.parametrize("text", ["118", "118:0", "118~0:1", "a:1", "1:1,2:1", "-1:1"])
def test_text_that_is_no_deviation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected STEP:OPTION or STEP~SWITCH:OPTION"):
        parse_deviations(text)
