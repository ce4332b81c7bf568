"""Sizes: chooses random lengths of bodies and properties, often at limits of the store.

A body that can fill the segment up to the shortest blank record mostly does so, or has one byte less, or one more and
goes to the next segment. Only users of a store know where its log ends, which depends on the schedule; a replay takes
the recorded lengths. One other body in four has a length at a limit:

    0, maximum  an empty body, and the longest of the plan
    limit       the longest body that the settings accept, one byte less, and one byte more, which is refused

The longest properties have 32,767 bytes, the limit of a record, which stores the length in two bytes. Some are one byte
shorter or longer. The limit is in bytes or in characters, so that a check that counts only characters accepts
properties that are too long in bytes. The filler is a character of one byte, of three, or of four (two code units).
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...sim.choices import Stream
from ...store.formats.message import BLANK_BYTES
from ..claims.plan import Plan
from ..oracle.put_entry import PROPERTIES_MAX, java_length

_BOUNDARY_CHANCE = 0.25
_FILLING_CHANCE = 0.6
_AROUND = (-1, 0, 1)
_FILLERS = ("p", "\N{CJK UNIFIED IDEOGRAPH-4E3B}", "\N{GRINNING FACE}")


def draw_body_bytes(stream: Stream, plan: Plan, log_end: int | None, other_bytes: int) -> int:
    """log_end: the end of the log, if known. other_bytes: the rest of the record."""
    most = plan.messages.body_bytes_max
    # the same number of draws in every case, so that the end of the log does not shift later draws
    proposed, is_filling, is_at_limit, chosen = (stream.raw_random() for _ in range(4))
    boundaries: list[int] = []
    if log_end is not None and is_filling < _FILLING_CHANCE:
        filling = plan.commit_log_bytes - log_end % plan.commit_log_bytes - BLANK_BYTES - other_bytes
        if 0 <= filling <= most:
            boundaries = [filling + by for by in _AROUND]
    if not boundaries and is_at_limit < _BOUNDARY_CHANCE:
        boundaries = [0, most]
        if plan.messages.limit_bytes:
            boundaries += [plan.messages.limit_bytes + by for by in _AROUND]
    possible = [one for one in boundaries if 0 <= one <= most]
    size = possible[int(chosen * len(possible))] if possible else int(proposed * (most + 1))
    return stream.record_draw(most + 1, "body bytes", size)


class LongestProperties(NamedTuple):
    """The required length of a message's properties, and the character that fills them."""

    filler: str
    by_bytes: bool
    """Whether the length is in bytes, not in UTF-16 code units."""
    length: int

    def filling_property(self, pieces: Sequence[str], after: Sequence[str]) -> str:
        begin, (filler, by_bytes, length) = "filling\1", self
        count = _encoded_bytes if by_bytes else java_length
        left, width = length - count("\2".join((*pieces, begin, *after))), count(filler)
        return begin + "p" * (left % width) + filler * (left // width)


def draw_longest(stream: Stream, plan: Plan) -> LongestProperties | None:
    """Choose the length of a message's longest properties, alone or in a batch; None: any length."""
    if not stream.chance(plan.messages.longest_chance, "longest properties"):
        return None
    filler, by_bytes = stream.choice(_FILLERS, "filler"), stream.choice((True, False), "by bytes")
    return LongestProperties(filler, by_bytes, PROPERTIES_MAX + stream.choice(_AROUND, "around the limit"))


def _encoded_bytes(text: str) -> int:
    return len(text.encode())
