"""Shares: 100 is all and 0 is none, whatever rounding would make of it."""

import pytest

from tornlog.reports.shares import bounds, percent, rate


@pytest.mark.parametrize(
    ("held", "seeds", "text"),
    [
        (3, 3, "100.00"),
        (0, 3, "0.00"),
        (999_999, 1_000_000, "99.99"),
        (1, 1_000_000, "0.01"),
        (2, 3, "66.66"),
    ],
)
def test_only_all_is_a_hundred_and_only_none_is_nothing(held: int, seeds: int, text: str) -> None:
    assert percent(held, seeds) == text


@pytest.mark.parametrize(
    ("held", "seeds", "text"),
    [
        (7000, 7000, "≥ 99.96"),
        (1, 1, "≥ 26.98"),
        (0, 7000, "≤ 0.04"),
        (2, 3, "66.66 (25.35-92.18)"),
        (6999, 7000, "99.98 (99.93-100.00)"),
    ],
)
def test_a_rate_says_what_so_many_seeds_can_say(held: int, seeds: int, text: str) -> None:
    assert rate(held, seeds) == text


def test_of_all_and_of_none_one_bound_says_nothing() -> None:
    assert bounds(5, 5)[1] == 1.0
    assert bounds(0, 5)[0] == 0.0
    for held in range(6):
        low, high = bounds(held, 5)
        assert 0 <= low <= held / 5 <= high <= 1
