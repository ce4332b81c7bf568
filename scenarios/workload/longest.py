"""Longest properties: as many as a record can hold, one less, and one more, counted in bytes and in characters.

A record has two bytes for their length, so the limit is 32,767 bytes. A check that counts characters only accepts
properties that are too long in bytes. The filler is a character of one byte, of three, or of four (two code units).
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...sim.choices import Stream
from ..claims.plan import Plan
from ..oracle.put_entry import PROPERTIES_MAX, code_units

_FILLERS = ("p", "\N{CJK UNIFIED IDEOGRAPH-4E3B}", "\N{GRINNING FACE}")
_AROUND = (-1, 0, 1)


class Longest(NamedTuple):
    """The length of the properties of a message, and the filler that brings them to it."""

    filler: str
    by_bytes: bool
    """Whether bytes are counted, and no code units."""
    length: int

    def filling(self, pieces: Sequence[str], behind: Sequence[str]) -> str:
        """Return the property that brings all properties to the length, those before and after it included."""
        begin, (filler, by_bytes, length) = "filling\1", self
        count = _bytes_of if by_bytes else code_units
        left, width = length - count("\2".join((*pieces, begin, *behind))), count(filler)
        return begin + "p" * (left % width) + filler * (left // width)


def draw_longest(stream: Stream, plan: Plan) -> Longest | None:
    """Draw the length of the properties of a message, or of one message of a batch; None: any length."""
    if not stream.chance(plan.messages.longest_chance, "longest properties"):
        return None
    filler, by_bytes = stream.pick(_FILLERS, "filler"), stream.pick((True, False), "by bytes")
    return Longest(filler, by_bytes, PROPERTIES_MAX + stream.pick(_AROUND, "around the limit"))


def _bytes_of(text: str) -> int:
    return len(text.encode())
