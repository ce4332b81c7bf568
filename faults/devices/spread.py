"""How a duration is spread: as many times as it was measured, or as points of its distribution say."""

from collections.abc import Iterable, Sequence

from ...sim.choices import Stream

_STEPS = 1000


class Spread:
    """Durations in ns, each as likely as any other. Invariant: ascending, so that 0, the plain draw, is the least."""

    __slots__ = ("ns",)

    def __init__(self, ns: Iterable[int]) -> None:
        self.ns = tuple(sorted(ns))
        if not self.ns or self.ns[0] < 0:
            raise ValueError("a spread: expected durations of 0 ns or more, at least one")

    @classmethod
    def through(cls, points: Sequence[tuple[float, int]]) -> "Spread":
        """Make the spread that goes through points (share of all, ns), straight in between, from share 0 to 1."""
        shares = [share for share, _ in points]
        if shares[0] != 0 or shares[-1] != 1 or shares != sorted(set(shares)):
            raise ValueError(f"shares: expected 0 to 1, ascending, found {shares}")
        found, at = [], 0
        for step in range(_STEPS):
            share = (step + 0.5) / _STEPS
            while points[at + 1][0] < share:
                at += 1
            (left, low), (right, high) = points[at], points[at + 1]
            found.append(round(low + (high - low) * (share - left) / (right - left)))
        return cls(found)

    def draw(self, stream: Stream, label: str) -> int:
        """Draw one of the durations."""
        return self.ns[stream.below(len(self.ns), label)]

    def quantile(self, share: float) -> int:
        """Return the duration that this share of them does not exceed."""
        return self.ns[min(len(self.ns) - 1, int(share * len(self.ns)))]

    def scaled(self, factor: float) -> "Spread":
        """Return the same with every duration so many times as long."""
        return Spread(round(one * factor) for one in self.ns)
