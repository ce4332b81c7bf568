"""Magnitudes: how long something takes, or how far a clock jumps, drawn so that no order of magnitude is rare.

Code does otherwise beyond its time-outs, margins and intervals, which lie anywhere from a millisecond to hours. So a
draw is log-uniform: each octave within its bounds is as likely as any other. One in four is a landmark instead: a
duration that the code under test compares with, one unit less, or one more. Off-by-one mistakes show there only.

The record has the place on the scale of magnitudes, so that a replay needs no landmarks, and shrinking halves places,
which takes the root of a magnitude.
"""

from collections.abc import Sequence

from .choices import Stream

_FRACTION_BITS = 46
"""Of places within an octave: at least as many as a magnitude has bits, so that each has a place of its own."""
_OCTAVE = 1 << _FRACTION_BITS
_LANDMARK_CHANCE = 0.25
_AROUND = (-1, 0, 1)
_NS_PER_MS = 1_000_000


def draw_magnitude(
    stream: Stream, least: int, most: int, label: str, landmarks: Sequence[int] = (), *, unit: int = 1
) -> int:
    """Draw least <= x <= most, for 0 < least and most < 2**46; least is the plain one.

    landmarks: multiples of unit that are of interest with their neighbours; those out of bounds do not count.
    """
    assert 0 < least <= most < _OCTAVE, (least, most)
    if least == most:
        return least
    lowest = _place_of(least)
    places = _place_of(most + 1) - lowest
    proposed = int(stream.raw_random() * places)
    if landmarks and stream.raw_random() < _LANDMARK_CHANCE:
        near = [(landmark + by) * unit for landmark in landmarks for by in _AROUND]
        near = [magnitude for magnitude in near if least <= magnitude <= most]
        if near:
            proposed = _place_of(near[int(stream.raw_random() * len(near))]) - lowest
    return _magnitude_at(lowest + stream.record(places, label, proposed))


def draw_duration_ns(stream: Stream, least_ns: int, most_ms: int, label: str, landmarks_ms: Sequence[int]) -> int:
    """Draw a duration in ns, at most most_ms, or least_ns if that is longer; least_ns is the plain one."""
    most_ns = max(least_ns, most_ms * _NS_PER_MS)
    return draw_magnitude(stream, least_ns, most_ns, label, landmarks_ms, unit=_NS_PER_MS)


def _place_of(magnitude: int) -> int:
    """Return where a magnitude is on the scale: its octave, and evenly how far it is into that."""
    octave = magnitude.bit_length() - 1
    return (octave << _FRACTION_BITS) + (magnitude << (_FRACTION_BITS - octave)) - _OCTAVE


def _magnitude_at(place: int) -> int:
    """Return the magnitude at a place, rounded down. In whole numbers: floats need not give the same on any machine."""
    octave, fraction = divmod(place, _OCTAVE)
    return (_OCTAVE + fraction) >> (_FRACTION_BITS - octave)
