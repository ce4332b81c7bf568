"""Sizes: how long the body of a message is. One in four is at a boundary of the store.

    0, most   an empty body, and the maximum of the plan
    filling   for a lone producer, which knows where its last record ended: the size that fills the segment up to the
              shortest blank record, one byte less, and one byte more, which goes to the next segment
    limit     the longest body that the settings accept, one byte less, and one byte more, which is refused

With several producers the end of the log depends on the schedule, on which no request may depend.
"""

from ...sim.choices import Stream
from ...store.formats.message import BLANK_BYTES
from ..claims.plan import Plan

_BOUNDARY_CHANCE = 0.25
_AROUND = (-1, 0, 1)


def draw_body_bytes(stream: Stream, plan: Plan, log_end: int | None, other_bytes: int) -> int:
    """Draw a body's size, up to the plan's most; 0 is the plain one.

    log_end: where the last record of a lone producer ends, if there is one. other_bytes: the rest of the record.
    """
    most = plan.messages.body_bytes_max
    proposed = int(stream.raw_random() * (most + 1))
    if stream.raw_random() < _BOUNDARY_CHANCE:
        boundaries = [0, most]
        if log_end is not None:
            filling = plan.commit_log_bytes - log_end % plan.commit_log_bytes - BLANK_BYTES - other_bytes
            boundaries += [filling + by for by in _AROUND]
        if plan.messages.limit_bytes:
            boundaries += [plan.messages.limit_bytes + by for by in _AROUND]
        possible = [size for size in boundaries if 0 <= size <= most]
        proposed = possible[int(stream.raw_random() * len(possible))]
    return stream.record(most + 1, "body bytes", proposed)
