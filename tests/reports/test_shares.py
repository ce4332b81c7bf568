"""Shares: 100 is all and 0 is none, whatever rounding would make of it."""

import pytest

from tornlog.reports.shares import percent


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
