from collections import Counter

import pytest

from tornlog.sim.choices import Choices, Decision
from tornlog.sim.magnitudes import draw_duration_ns, draw_magnitude

LANDMARKS = (20, 3_000, 5_000)


def sorted_draws(least: int, most: int, landmarks: tuple[int, ...] = (), count: int = 4_000) -> list[int]:
    stream = Choices("magnitudes").stream("latency")
    return sorted(draw_magnitude(stream, least, most, "ns", landmarks) for _ in range(count))


def test_magnitudes_are_distributed_equally_over_octaves() -> None:
    drawn = sorted_draws(1, (1 << 16) - 1)
    octaves = Counter(magnitude.bit_length() for magnitude in drawn)
    assert sorted(octaves) == list(range(1, 17))
    assert 150 < min(octaves.values()) <= max(octaves.values()) < 350


def test_magnitudes_are_distributed_equally_over_decades() -> None:
    drawn = sorted_draws(1_000, 1_000_000)
    assert drawn[0] >= 1_000
    assert drawn[-1] <= 1_000_000
    assert 1_200 < sum(magnitude < 10_000 for magnitude in drawn) < 1_450
    assert 1_200 < sum(magnitude >= 100_000 for magnitude in drawn) < 1_450


def test_a_quarter_of_drawn_magnitudes_is_at_or_next_to_a_landmark() -> None:
    drawn = Counter(sorted_draws(1, 60_000, LANDMARKS))
    near = {landmark + by for landmark in LANDMARKS for by in (-1, 0, 1)}
    assert min(drawn[magnitude] for magnitude in near) > 60
    assert 900 < sum(drawn[magnitude] for magnitude in near) < 1_300


def test_landmarks_outside_of_the_bounds_are_ignored() -> None:
    assert sorted_draws(7, 19, (3, 20, 500)).count(19) > 800
    assert max(sorted_draws(1, 10, (50, 500))) == 10


def test_landmarks_of_drawn_durations_are_in_ms() -> None:
    stream = Choices("durations").stream("latency")
    drawn = Counter(draw_duration_ns(stream, 1_000_000, 8_000, "pause", LANDMARKS) for _ in range(2_000))
    assert min(drawn[ms * 1_000_000] for ms in (19, 20, 21, 2_999, 3_000, 3_001, 4_999, 5_000, 5_001)) > 20
    assert draw_duration_ns(stream, 5_000_000, 3, "pause", ()) == 5_000_000


def test_the_default_magnitude_is_the_lower_bound() -> None:
    assert draw_magnitude(Choices.for_replay([]).stream("latency"), 7, 700, "ns", (70,)) == 7


@pytest.mark.parametrize("most", [8, 700, 60_000, 10**10])
def test_magnitudes_replay_equally_without_the_landmarks(most: int) -> None:
    choices = Choices("again")
    drawn = [draw_magnitude(choices.stream("latency"), 7, most, "ns", LANDMARKS) for _ in range(200)]
    again = Choices.for_replay(choices.decisions())
    assert [draw_magnitude(again.stream("latency"), 7, most, "ns") for _ in range(200)] == drawn


def test_the_greatest_option_gives_the_upper_bound() -> None:
    choices = Choices("greatest")
    draw_magnitude(choices.stream("latency"), 7, 700, "ns")
    (draw,) = choices.draws()
    greatest = Choices.for_replay([Decision("latency", "ns", 1, draw.options, draw.options - 1)])
    assert draw_magnitude(greatest.stream("latency"), 7, 700, "ns") == 700


def test_a_magnitude_with_one_possible_value_makes_no_draw() -> None:
    stream = Choices("magnitudes").stream("latency")
    assert draw_magnitude(stream, 5, 5, "ns", (5,)) == 5
    assert stream.draw_count == 0


@pytest.mark.parametrize(("least", "most"), [(0, 5), (6, 5), (1, 1 << 46)])
def test_invalid_magnitude_bounds_are_refused(least: int, most: int) -> None:
    with pytest.raises(AssertionError):
        draw_magnitude(Choices("magnitudes").stream("latency"), least, most, "ns")
