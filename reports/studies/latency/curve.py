"""The distribution of latencies as a curve: the share of puts that took longer than so long."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

_POINTS = 400


class Curve(NamedTuple):
    """Points of one distribution, ascending: latencies in µs, and the share of puts that took longer."""

    us: Sequence[float]
    share: Sequence[float]


def curve_of(latencies_ns: Iterable[int]) -> Curve:
    """Return the curve of latencies, at least one: a point of few, more of the slow than of the many others."""
    ordered = sorted(latencies_ns)
    count = len(ordered)
    ranks = sorted({round(count - count ** (1 - step / _POINTS)) for step in range(_POINTS + 1)})
    picked = [rank for rank in ranks if rank < count]
    return Curve([ordered[rank] / 1_000 for rank in picked], [1 - rank / count for rank in picked])
