"""Chance for fuzzing: one stream a seed, nothing recorded, for the record of a fuzzed input is the input."""

from collections.abc import Sequence
from typing import TypeVar

from ...sim.choices import Choices

T = TypeVar("T")

_POOL_BITS = 53


class Draw:
    """Draws of one seed, in order. The same seed draws the same on every Python."""

    __slots__ = ("unit",)

    def __init__(self, seed: str) -> None:
        self.unit = Choices(seed).stream("fuzz").raw_random
        """Draws a number in [0, 1)."""

    def below(self, options: int) -> int:
        """Draw 0 <= x < options."""
        return int(self.unit() * options)

    def between(self, low: int, high: int) -> int:
        """Draw low <= x <= high."""
        return low + int(self.unit() * (high - low + 1))

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of options, which must not be empty."""
        return options[int(self.unit() * len(options))]

    def chance(self, probability: float) -> bool:
        """Draw True with that probability."""
        return self.unit() < probability

    def raw(self, size_bytes: int) -> bytes:
        """Draw bytes."""
        pieces = [
            int(self.unit() * (1 << _POOL_BITS)).to_bytes(7, "big")[1:] for _ in range(-(-size_bytes // 6))
        ]
        return b"".join(pieces)[:size_bytes]
