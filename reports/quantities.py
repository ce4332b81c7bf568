"""Quantities: formats counts, shares with bounds, durations and percentiles.

The bounds of a share are Wilson's score bounds, each one-sided at 95 %: in one of twenty samples the true share is
below the lower bound, and in another one of twenty above the upper bound. 7,000 of 7,000 gives 99.96 % or more, never
100 %.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, comb, floor, sqrt

_Z = 1.6448536269514722
"""A standard normal variable exceeds this value with a probability of 5 %."""
_UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"))
PER_MILLE = {"p50_us": 500, "p90_us": 900, "p99_us": 990, "p99_9_us": 999}
"""Percentile -> share of puts in per mille."""
LATENCY_SHARES = (0.5, 0.9, 0.99, 0.999)
LATENCY_COLUMNS = tuple(f"p{100 * share:g}" for share in LATENCY_SHARES)


def percent_text(held: int, seeds: int) -> str:
    """Return the share in percent: 100 only if `held` equals `seeds`, 0 only if `held` is 0."""
    assert 0 <= held <= seeds, f"{held} of {seeds} seeds held"
    hundredths = 10_000 * held // seeds
    return f"{max(hundredths, 1 if held else 0) / 100:.2f}"


def confidence_bounds(held: int, seeds: int) -> tuple[float, float]:
    """Return the bounds of the true share; 0 and 1 if `seeds` is 0."""
    assert 0 <= held <= seeds, f"{held} of {seeds} seeds held"
    share, weight = held / seeds, _Z * _Z / seeds
    middle = (share + weight / 2) / (1 + weight)
    half = _Z * sqrt(share * (1 - share) / seeds + weight / (4 * seeds)) / (1 + weight)
    return (0.0 if held == 0 else middle - half), (1.0 if held == seeds else middle + half)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return bounds that contain the median of the distribution with at least 95 %, if there are 6 values or more."""
    ordered, count = sorted(values), len(values)
    below, rank = 0.0, 0
    # The true median is below the value of rank k with the probability of at most k heads in `count` tosses.
    while below + comb(count, rank) / 2**count <= 0.025:
        below += comb(count, rank) / 2**count
        rank += 1
    first = max(rank - 1, 0)
    return ordered[first], ordered[count - 1 - first]


def rate_text(held: int, seeds: int) -> str:
    """Return a share in percent with its bounds, such as `99.50 (98.24-99.87)`; 0 % and 100 % have one bound."""
    low, high = confidence_bounds(held, seeds)
    low_text, high_text = f"{floor(low * 10_000) / 100:.2f}", f"{ceil(high * 10_000) / 100:.2f}"
    if held == seeds:
        return f"≥ {low_text}"
    if not held:
        return f"≤ {high_text}"
    return f"{percent_text(held, seeds)} ({low_text}-{high_text})"


def duration_text(us: float) -> str:
    """Return a duration with at most three digits: 250 µs, 1.5 ms, 2 s."""
    for factor, unit in _UNITS:
        if us >= factor:
            return f"{us / factor:.3g} {unit}"
    return f"{us * 1_000:.3g} ns"


def nearest_ranks(puts: Mapping[int, int]) -> dict[str, int]:
    """Return the percentiles of a non-empty histogram, µs -> puts, by the nearest-rank method."""
    total = sum(puts.values())
    assert total > 0, "a histogram without puts has no percentile"
    found: dict[str, int] = {}
    rank = 0
    for us, count in sorted(puts.items()):
        rank += count
        for name, share in PER_MILLE.items():
            # integers, because a float may round up to the next rank
            if name not in found and rank * 1000 >= total * share:
                found[name] = us
    return found


def percentiles_us(latencies_ns: Iterable[int], shares: Iterable[float] = LATENCY_SHARES) -> list[float]:
    """Return percentiles in µs, by the nearest-rank method."""
    ordered = sorted(latencies_ns)
    return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1_000 for share in shares]


def count_text(number: int, one: str, several: str = "") -> str:
    """Return a number with its noun. several: the plural; default: `one` with an s."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def first_names_text(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
