"""Shares as people read them."""


def percent(held: int, seeds: int) -> str:
    """Return the share of seeds that held, in percent: 100 is all of them and 0 is none."""
    hundredths = 10_000 * held // seeds
    return f"{max(hundredths, 1 if held else 0) / 100:.2f}"
