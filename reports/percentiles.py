"""Percentiles of puts, as all tables of latencies have them: the nearest rank, exact to the µs of the histograms."""

from collections.abc import Mapping

PER_MILLE = {"p50_us": 500, "p90_us": 900, "p99_us": 990, "p99_9_us": 999}
"""The share of the puts each percentile stands for."""


def nearest_ranks(puts: Mapping[int, int]) -> dict[str, int]:
    """Return each percentile of a histogram, µs -> puts, that is not empty: what that share did not exceed."""
    total = sum(puts.values())
    found: dict[str, int] = {}
    rank = 0
    for us, count in sorted(puts.items()):
        rank += count
        for name, share in PER_MILLE.items():
            if (
                name not in found and rank * 1000 >= total * share
            ):  # whole numbers: a float may round past a rank
                found[name] = us
    return found
