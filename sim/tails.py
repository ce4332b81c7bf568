"""Draws with a heavy tail: mostly little, now and then a great deal, as latencies and pauses are in the field."""

from .choices import Stream

_OPTIONS = 1 << 20


def draw_tail(stream: Stream, least: int, most: int, label: str) -> int:
    """Draw least <= x <= most from a bounded Pareto distribution with exponent 1; least is the plain one.

    Half of the draws are below about twice the least, one in ten above ten times that, if most leaves the room. It is
    the inverse of the distribution in whole numbers, so that it gives the same on any machine.
    """
    assert 0 < least <= most, (least, most)
    if least == most:
        return least
    drawn = stream.below(_OPTIONS, label)
    return least * most * _OPTIONS // (most * _OPTIONS - drawn * (most - least))
