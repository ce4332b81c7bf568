from itertools import product
from math import comb

import pytest

from tornlog.reports.quantities import (
    confidence_bounds,
    duration_text,
    median_interval,
    nearest_ranks,
    percent_text,
    percentiles_us,
    rate_text,
)


@pytest.mark.parametrize(
    ("held", "seeds", "text"),
    [(3, 3, "100.00"), (0, 3, "0.00"), (999_999, 1_000_000, "99.99"), (1, 1_000_000, "0.01"), (2, 3, "66.66")],
)
def test_the_percentage_is_100_only_if_all_seeds_pass_and_0_only_if_none_does(held: int, seeds: int, text: str) -> None:
    assert percent_text(held, seeds) == text


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
def test_a_rate_is_shown_with_its_bounds(held: int, seeds: int, text: str) -> None:
    assert rate_text(held, seeds) == text


def test_rate_bounds_contain_the_rate_and_are_trivial_at_0_and_100_percent() -> None:
    assert confidence_bounds(5, 5)[1] == 1.0
    assert confidence_bounds(0, 5)[0] == 0.0
    for held in range(6):
        low, high = confidence_bounds(held, 5)
        assert 0 <= low <= held / 5 <= high <= 1


@pytest.mark.parametrize(
    ("us", "text"),
    [(0.25, "250 ns"), (1, "1 µs"), (250, "250 µs"), (1_500, "1.5 ms"), (12_345, "12.3 ms"), (2e6, "2 s")],
)
def test_durations_have_a_readable_unit(us: float, text: str) -> None:
    assert duration_text(us) == text


def test_a_percentile_is_the_smallest_value_not_exceeded_by_its_share() -> None:
    assert nearest_ranks({10: 500, 20: 400, 30: 90, 40: 9, 50: 1}) == {
        "p50_us": 10,
        "p90_us": 20,
        "p99_us": 30,
        "p99_9_us": 40,
    }


def test_all_percentiles_of_one_put_are_its_latency() -> None:
    assert set(nearest_ranks({7: 1}).values()) == {7}


def test_the_order_of_histogram_values_does_not_matter() -> None:
    assert nearest_ranks({3: 1, 1: 5, 2: 4}) == nearest_ranks({1: 5, 2: 4, 3: 1})


def test_percentiles_are_latencies_that_occurred() -> None:
    assert percentiles_us(range(1_000, 1_001_000, 1_000)) == [501.0, 901.0, 991.0, 1_000.0]
    assert percentiles_us([7_000]) == [7.0] * 4


def test_the_interval_of_a_median_has_the_ranks_of_the_sign_test() -> None:
    values = [float(number) for number in range(20)]

    assert median_interval(values) == (5, 14)  # ranks 6 and 15 of 20
    assert 1 - 2 * sum(comb(20, rank) for rank in range(6)) / 2**20 > 0.95


def test_the_interval_of_a_median_misses_the_true_one_in_at_most_a_twentieth_of_all_samples() -> None:
    samples = list(product([-1.0, 1.0], repeat=10))  # all equally likely; the median is 0
    missed = sum(not low <= 0 <= high for low, high in map(median_interval, samples))

    assert missed <= len(samples) / 20
