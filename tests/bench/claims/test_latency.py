import pytest

from tests.bench.claims.latency import COMPARISONS, SeedCase


@pytest.mark.slow
@pytest.mark.parametrize("comparison", COMPARISONS, ids="-".join)
def test_both_variants_of_a_claim_are_measured_with_the_same_seed(comparison: tuple[str, ...]) -> None:
    (plain, variant), causes = SeedCase(comparison, 3).measure()  # type: ignore[arg-type]

    assert plain == sorted(plain)
    assert variant == sorted(variant)
    assert len(causes) == 2
