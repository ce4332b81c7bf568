import pytest

from tornlog.faults.devices.spread import Spread
from tornlog.sim.choices import Choices


def test_what_is_drawn_is_spread_as_what_was_measured() -> None:
    spread, stream = Spread([30, 10, 20, 10]), Choices("1").stream("disk")
    drawn = [spread.draw(stream, "sync") for _ in range(4_000)]

    assert set(drawn) == {10, 20, 30}
    assert drawn.count(10) == pytest.approx(2_000, rel=0.1)


def test_the_plain_draw_is_the_least() -> None:
    assert Spread([30, 10, 20]).draw(Choices.replaying([]).stream("disk"), "sync") == 10


def test_a_spread_goes_through_its_points() -> None:
    spread = Spread.through([(0.0, 100), (0.5, 200), (0.99, 1_000), (1.0, 5_000)])

    assert spread.quantile(0.5) == pytest.approx(200, rel=0.01)
    assert spread.quantile(0.25) == pytest.approx(150, rel=0.01)
    assert spread.quantile(0.99) == pytest.approx(1_000, rel=0.25)  # the step there is steep
    assert 4_500 < spread.quantile(1.0) <= 5_000


@pytest.mark.parametrize(
    "points", [[(0.0, 1), (0.9, 2)], [(0.1, 1), (1.0, 2)], [(0.0, 1), (0.5, 2), (0.5, 3), (1.0, 4)]]
)
def test_points_that_are_no_distribution_are_refused(points: list[tuple[float, int]]) -> None:
    with pytest.raises(ValueError, match="shares"):
        Spread.through(points)


@pytest.mark.parametrize("durations", [[], [-1, 5]])
def test_a_spread_of_nothing_or_of_less_than_nothing_is_refused(durations: list[int]) -> None:
    with pytest.raises(ValueError, match="durations"):
        Spread(durations)


def test_a_scaled_spread_is_the_same_in_another_size() -> None:
    assert Spread([10, 20]).scaled(1.5).ns == (15, 30)
