"""Magnitudes: draws durations so that all orders of magnitude are equally likely.

Code changes its behaviour at timeouts, margins and intervals from a millisecond to hours. So draws are log-uniform. One
draw in four returns a landmark instead: a duration that the code under test compares with, or one unit less or more, to
find off-by-one mistakes.

The record contains the position on a logarithmic scale. So a replay needs no landmarks, and shrinking, which halves a
position, reduces a magnitude to its square root.
"""

from collections.abc import Sequence

from .choices import Stream

_FRACTION_BITS = 46
"""Bits of a position within an octave. A magnitude has as many bits, so each magnitude has its own position."""
_OCTAVE = 1 << _FRACTION_BITS
_LANDMARK_CHANCE = 0.25
_NEIGHBOURS = (-1, 0, 1)
_NS_PER_MS = 1_000_000


def draw_magnitude(
    stream: Stream, least: int, most: int, label: str, landmarks: Sequence[int] = (), *, unit: int = 1
) -> int:
    """Draw least <= x <= most, for 0 < least and most < 2**46. The plain outcome is least.

    landmarks: multiples of unit that are drawn more often, like their neighbours. Landmarks out of bounds are ignored.
    """
    assert 0 < least <= most < _OCTAVE, (least, most)
    if least == most:
        return least
    lowest = _logarithmic_position(least)
    places = _logarithmic_position(most + 1) - lowest
    proposed = int(stream.raw_random() * places)
    if landmarks and stream.raw_random() < _LANDMARK_CHANCE:
        near = [(landmark + by) * unit for landmark in landmarks for by in _NEIGHBOURS]
        near = [magnitude for magnitude in near if least <= magnitude <= most]
        if near:
            proposed = _logarithmic_position(near[int(stream.raw_random() * len(near))]) - lowest
    return _magnitude_at_position(lowest + stream.record_draw(places, label, proposed))


def draw_duration_ns(stream: Stream, least_ns: int, most_ms: int, label: str, landmarks_ms: Sequence[int]) -> int:
    """Draw a duration from least_ns to most_ms, or least_ns if most_ms is shorter. The plain outcome is least_ns."""
    most_ns = max(least_ns, most_ms * _NS_PER_MS)
    return draw_magnitude(stream, least_ns, most_ns, label, landmarks_ms, unit=_NS_PER_MS)


def _logarithmic_position(magnitude: int) -> int:
    """Return the position: the octave in the high bits, the linear position within the octave in the low bits."""
    octave = magnitude.bit_length() - 1
    return (octave << _FRACTION_BITS) + (magnitude << (_FRACTION_BITS - octave)) - _OCTAVE


def _magnitude_at_position(place: int) -> int:
    """Return the magnitude, rounded down. Uses only integers, because floats may differ between machines."""
    octave, fraction = divmod(place, _OCTAVE)
    return (_OCTAVE + fraction) >> (_FRACTION_BITS - octave)
