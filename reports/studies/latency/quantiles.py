"""Percentiles of latencies."""

from collections.abc import Iterable

SHARES = (0.5, 0.9, 0.99, 0.999)
"""The percentiles that tables have."""


def percentiles_us(latencies_ns: Iterable[int], shares: Iterable[float] = SHARES) -> list[float]:
    """Return, in µs, the latency that each share of them does not exceed. There is at least one."""
    ordered = sorted(latencies_ns)
    return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1_000 for share in shares]
