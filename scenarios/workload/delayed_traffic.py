"""Messages that are to be delivered later, as producers put them, and users who wait for some of them.

A delayed message is a put like any other, with a DELAY in its properties. What the ledger has to know beside that:
where its record waits, for how long, and how long the record is, as the store adds where the message is to go.
"""

from ...sim.choices import Stream
from ...store.formats.delay_level import SCHEDULE_TOPIC
from ..claims.machine import DELAYS_MS
from ..claims.plan import Plan
from ..oracle.put_entry import Detour, PutEntry

_PATIENCE_MS_MAX = (1, 1_500, 4_000, max(DELAYS_MS.values()) + 2_000)


def draw_level(stream: Stream, plan: Plan) -> int:
    """Draw the level of a message, 0 for one that is to be seen at once."""
    if not stream.chance(plan.delay.chance, "delayed"):
        return 0
    return stream.pick(list(DELAYS_MS), "level")


def redirect(put: PutEntry, level: int) -> None:
    """Note where a put with a DELAY of that level waits, and for how long."""
    put.detour = Detour((SCHEDULE_TOPIC, level - 1), DELAYS_MS[level])
    added = f"\2REAL_TOPIC\1{put.topic}\2REAL_QID\1{put.queue_id}" + ("" if put.wait else "\2WAIT\1false")
    put.wrote_bytes = put.given.record_bytes(put.body, SCHEDULE_TOPIC, put.properties + added.encode())


def draw_patience_ms(stream: Stream) -> int:
    """Draw how long somebody waits for what is delayed: long enough for every level, or for some, or for none."""
    return stream.between(1, stream.pick(_PATIENCE_MS_MAX, "patience"), "patience ms")
