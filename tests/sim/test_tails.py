import pytest

from tornlog.sim.choices import Choices, Decision
from tornlog.sim.tails import draw_tail


def draws(least: int, most: int, count: int = 4000) -> list[int]:
    stream = Choices("tail").stream("latency")
    return sorted(draw_tail(stream, least, most, "ns") for _ in range(count))


def test_draws_lie_within_their_bounds_and_have_a_heavy_tail() -> None:
    drawn = draws(1_000, 1_000_000)

    assert drawn[0] >= 1_000
    assert drawn[-1] <= 1_000_000
    assert 1_800 < drawn[len(drawn) // 2] < 2_200
    assert 9_000 < drawn[len(drawn) * 9 // 10] < 11_000
    assert drawn[-1] > 200_000


def test_the_plain_draw_is_the_least() -> None:
    assert draw_tail(Choices.replaying([]).stream("latency"), 7, 700, "ns") == 7


def test_the_greatest_draw_falls_short_of_the_most_by_hardly_anything() -> None:
    greatest = Choices.replaying([Decision("latency", "ns", 1, 1 << 20, (1 << 20) - 1)])

    assert 699_000 < draw_tail(greatest.stream("latency"), 7_000, 700_000, "ns") <= 700_000


def test_what_cannot_vary_is_not_drawn() -> None:
    stream = Choices("tail").stream("latency")

    assert draw_tail(stream, 5, 5, "ns") == 5
    assert stream.drawn == 0


@pytest.mark.parametrize(("least", "most"), [(0, 5), (6, 5)])
def test_bounds_that_are_none_are_a_mistake(least: int, most: int) -> None:
    with pytest.raises(AssertionError):
        draw_tail(Choices("tail").stream("latency"), least, most, "ns")
