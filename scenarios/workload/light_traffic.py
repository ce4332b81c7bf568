"""Messages that enter light queues beside their own, as producers put them, and who reads these queues.

A few queues are shared by all producers and all primary queues: two that have one queue for all queue ids, one that
has as many as there are, and one that is a topic with messages of its own.
"""

from ...sim.choices import Stream
from ..claims.plan import Plan
from ..oracle.ledger import LIGHT_OFFSETS
from ..oracle.light_places import LIGHT_PREFIX, QueueKey, light_queue
from ..oracle.put_entry import PutEntry

NAMES = (f"{LIGHT_PREFIX}L0", f"{LIGHT_PREFIX}L1", "M0", "T0")
_NAMES_MAX = 3
_OFFSET_DIGITS_MAX = 19
_READS_CHANCE = 0.6


def draw_names(stream: Stream, plan: Plan) -> tuple[str, ...]:
    """Draw the light queues of a message, none of most; one may come twice."""
    if not stream.chance(plan.light_queues.chance, "light"):
        return ()
    count = stream.between(1, _NAMES_MAX, "light queues")
    return tuple(stream.pick(NAMES, "light queue") for _ in range(count))


def widest_bytes(put: PutEntry) -> int:
    """Return the size that the store must be able to give a put's record, and the one it becomes if it waits first.

    Places are known only when it is stored, so that they count as the longest there can be.
    """
    if not put.light_names:
        return put.record_bytes
    added = f"\2{LIGHT_OFFSETS}\1" + ",".join("9" * _OFFSET_DIGITS_MAX for _ in put.light_names)
    if put.detour is not None:
        added += f"\2REAL_TOPIC\1{put.topic}\2REAL_QID\1{put.queue_id}"
    entering = put.given.record_bytes(put.body, put.topic, put.properties + added.encode())
    return entering if put.detour is None else max(entering, put.record_bytes)


def draw_queue(stream: Stream, plan: Plan, own: QueueKey) -> QueueKey:
    """Draw what a consumer reads: its own queue, or a light one."""
    if not plan.light_queues.chance or not stream.chance(_READS_CHANCE, "reads light"):
        return own
    return light_queue(stream.pick(NAMES, "light queue"), own[1])
