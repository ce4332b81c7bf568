"""Shares as people read them, and what a sample says of the share in all seeds there could be.

The bounds are Wilson's score bounds, each one-sided at 95 %: of all samples, about one in twenty has a share that is
really below the lower bound, and as many one above the upper. 7,000 of 7,000 says 99.96 % or more, and never 100 %.
"""

from math import ceil, floor, sqrt

Z = 1.6448536269514722
"""What a normal variable exceeds with 5 % probability."""


def percent(held: int, seeds: int) -> str:
    """Return the share of seeds that held, in percent: 100 is all of them and 0 is none."""
    hundredths = 10_000 * held // seeds
    return f"{max(hundredths, 1 if held else 0) / 100:.2f}"


def bounds(held: int, seeds: int) -> tuple[float, float]:
    """Return what the true share is at least, and at most, each at 95 % confidence; 0 and 1 where nothing bounds it."""
    share, weight = held / seeds, Z * Z / seeds
    middle = (share + weight / 2) / (1 + weight)
    half = Z * sqrt(share * (1 - share) / seeds + weight / (4 * seeds)) / (1 + weight)
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
