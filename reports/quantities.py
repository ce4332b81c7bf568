"""Shares with confidence bounds, durations and percentiles, as tables, pages and pictures have them.

The bounds of a share are Wilson's score bounds, each one-sided at 95 %: of all samples, about one in twenty has a share
that is really below the lower bound, and as many one above the upper. 7,000 of 7,000 says 99.96 % or more, and never
100 %.
"""

from collections.abc import Iterable, Mapping
from math import ceil, floor, sqrt

_Z = 1.6448536269514722
"""What a normal variable exceeds with 5 % probability."""
_UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"))
PER_MILLE = {"p50_us": 500, "p90_us": 900, "p99_us": 990, "p99_9_us": 999}
"""The share of the puts each percentile stands for."""
LATENCY_SHARES = (0.5, 0.9, 0.99, 0.999)
LATENCY_COLUMNS = tuple(f"p{100 * share:g}" for share in LATENCY_SHARES)
"""The percentiles of a series of latencies that tables have."""


def percent(held: int, seeds: int) -> str:
    """Return the share of seeds that held, in percent: 100 is all of them and 0 is none."""
    assert 0 <= held <= seeds, f"{held} of {seeds} seeds held"
    hundredths = 10_000 * held // seeds
    return f"{max(hundredths, 1 if held else 0) / 100:.2f}"


def bounds(held: int, seeds: int) -> tuple[float, float]:
    """Return what the true share is at least, and at most, each at 95 % confidence; 0 and 1 where nothing bounds it."""
    assert 0 <= held <= seeds, f"{held} of {seeds} seeds held"
    share, weight = held / seeds, _Z * _Z / seeds
    middle = (share + weight / 2) / (1 + weight)
    half = _Z * sqrt(share * (1 - share) / seeds + weight / (4 * seeds)) / (1 + weight)
    return (0.0 if held == 0 else middle - half), (1.0 if held == seeds else middle + half)


def rate(held: int, seeds: int) -> str:
    """Return a share in percent with its bounds, as in `99.50 (98.24-99.87)`; of all or none, the one bound."""
    low, high = bounds(held, seeds)
    low_text, high_text = f"{floor(low * 10_000) / 100:.2f}", f"{ceil(high * 10_000) / 100:.2f}"
    if held == seeds:
        return f"≥ {low_text}"
    if not held:
        return f"≤ {high_text}"
    return f"{percent(held, seeds)} ({low_text}-{high_text})"


def duration(us: float) -> str:
    """Return µs in three figures: 250 µs, 1.5 ms, 2 s."""
    for factor, unit in _UNITS:
        if us >= factor:
            return f"{us / factor:.3g} {unit}"
    return f"{us * 1_000:.3g} ns"


def nearest_ranks(puts: Mapping[int, int]) -> dict[str, int]:
    """Return each percentile of a histogram, µs -> puts, that is not empty: what that share did not exceed."""
    total = sum(puts.values())
    assert total > 0, "a histogram without puts has no percentile"
    found: dict[str, int] = {}
    rank = 0
    for us, count in sorted(puts.items()):
        rank += count
        for name, share in PER_MILLE.items():
            # whole numbers: a float may round past a rank
            if name not in found and rank * 1000 >= total * share:
                found[name] = us
    return found


def percentiles_us(latencies_ns: Iterable[int], shares: Iterable[float] = LATENCY_SHARES) -> list[float]:
    """Return, in µs, the latency that each share of them does not exceed. There is at least one."""
    ordered = sorted(latencies_ns)
    return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1_000 for share in shares]
