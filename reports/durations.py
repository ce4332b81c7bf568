"""Durations as people say them."""

_UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"))


def duration(us: float) -> str:
    """Return µs in three figures: 250 µs, 1.5 ms, 2 s."""
    for factor, unit in _UNITS:
        if us >= factor:
            return f"{us / factor:.3g} {unit}"
    return f"{us * 1_000:.3g} ns"
