import pytest

from tests.sim.rigs import order_of
from tornlog.sim.errors import ReplayDivergedError
from tornlog.sim.search import BoundedPolicy, ScheduleDeviation, SwitchPoint, parse_deviations


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
def test_a_bounded_run_deviates_exactly_at_the_given_deviations(deviations: str, passed: str) -> None:
    policy = BoundedPolicy(parse_deviations(deviations))
    assert order_of(policy, "ab") == passed
    assert not policy.unused_deviations
    taken = [
        ScheduleDeviation(decision.step, decision.forced, decision.option)
        for decision in policy.decisions()
        if decision.option
    ]
    assert taken == list(parse_deviations(deviations))


def test_a_bounded_run_records_one_decision_per_quantum_among_the_same_tasks() -> None:
    policy = BoundedPolicy()
    order_of(policy, "ab")
    assert policy.decisions() == [
        SwitchPoint(0, 1, 3, 0, 3),  # a, until it ends
        SwitchPoint(3, 1, 2, 0, 6),  # b
    ]


def test_the_number_of_default_schedule_decisions_does_not_grow_with_run_length() -> None:
    short, long = BoundedPolicy(), BoundedPolicy()
    order_of(short, "ab")
    order_of(long, "ab", 300)
    assert len(short.decisions()) == len(long.decisions())


def test_before_a_run_there_are_no_bounded_decisions() -> None:
    assert BoundedPolicy().decisions() == []


@pytest.mark.parametrize(
    ("deviations", "index"),
    [
        ("2:9", 0),  # there are fewer tasks
        ("1:1 2~1:1", 1),  # no task blocks there
        ("0~2:1", 0),  # no task blocks there a second time
    ],
)
def test_an_impossible_deviation_raises_a_divergence_error(deviations: str, index: int) -> None:
    with pytest.raises(ReplayDivergedError) as caught:
        order_of(BoundedPolicy(parse_deviations(deviations)), "ab")
    assert caught.value.record == "deviations"
    assert caught.value.index == index


def test_deviations_beyond_the_end_of_a_run_are_reported_as_untaken() -> None:
    policy = BoundedPolicy(parse_deviations("2:1 999:1"))
    order_of(policy, "ab")
    assert policy.unused_deviations == (ScheduleDeviation(999, 0, 1),)


def test_deviations_survive_printing_and_parsing() -> None:
    deviations = (ScheduleDeviation(118, 0, 1), ScheduleDeviation(204, 1, 2), ScheduleDeviation(204, 12, 3))
    text = " ".join(map(str, deviations))
    assert text == "118:1 204~1:2 204~12:3"
    assert parse_deviations(text) == deviations
    assert parse_deviations("") == ()


@pytest.mark.parametrize("text", ["118", "118:0", "118~0:1", "a:1", "1:1,2:1", "-1:1"])
def test_text_that_is_not_a_deviation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected STEP:OPTION or STEP~SWITCH:OPTION"):
        parse_deviations(text)
