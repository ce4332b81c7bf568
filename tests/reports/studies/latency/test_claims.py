from itertools import product
from math import comb

import pytest

from tornlog.reports.studies.claims import median_interval
from tornlog.reports.studies.latency.claims import COMPARISONS, SeedCase


def test_the_interval_of_a_median_has_the_ranks_of_the_sign_test() -> None:
    values = [float(number) for number in range(20)]

    assert median_interval(values) == (5, 14)  # ranks 6 and 15 of 20
    assert 1 - 2 * sum(comb(20, rank) for rank in range(6)) / 2**20 > 0.95


def test_the_interval_of_a_median_misses_the_true_one_in_at_most_a_twentieth_of_all_samples() -> None:
    samples = list(product([-1.0, 1.0], repeat=10))  # all equally likely; the median is 0
    missed = sum(not low <= 0 <= high for low, high in map(median_interval, samples))

    assert missed <= len(samples) / 20


@pytest.mark.slow
@pytest.mark.parametrize("comparison", COMPARISONS, ids="-".join)
def test_both_variants_of_a_claim_are_measured_with_the_same_seed(comparison: tuple[str, ...]) -> None:
    (plain, variant), causes = SeedCase(comparison, 3).measure()  # type: ignore[arg-type]

    assert plain == sorted(plain)
    assert variant == sorted(variant)
    assert len(causes) == 2
