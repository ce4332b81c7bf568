"""Percentiles: the nearest rank, in whole numbers."""

from tornlog.reports.percentiles import nearest_ranks


def test_a_percentile_is_the_least_that_so_many_do_not_exceed() -> None:
    assert nearest_ranks({10: 500, 20: 400, 30: 90, 40: 9, 50: 1}) == {
        "p50_us": 10,
        "p90_us": 20,
        "p99_us": 30,
        "p99_9_us": 40,
    }


def test_of_one_put_all_percentiles_are_that() -> None:
    assert set(nearest_ranks({7: 1}).values()) == {7}


def test_the_order_of_a_histogram_does_not_matter() -> None:
    assert nearest_ranks({3: 1, 1: 5, 2: 4}) == nearest_ranks({1: 5, 2: 4, 3: 1})
