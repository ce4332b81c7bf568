"""Promotion: after the loss of its master a slave takes puts as the new master, stops, and is read again.

The puts go to queues that the slave has, and to a new one. `rep.check_promoted` compares both reads.
"""

from collections.abc import Sequence

from ....faults.disk.disk import Disk
from ....store.formats.messages import Message
from ....store.message_store import MessageStore
from ...oracle.invariants.rep import PromotedPut
from ...oracle.recovered import RecoveredStore
from ...workload.drawing import topic_of_users
from ..settling import Settling

_QUEUES_MAX = 3
_PUTS_EACH = 2
_NEW_QUEUE = ("promoted", 0)
_BODY_BYTES = 60


def put_as_master(
    store: MessageStore, disk: Disk, settling: Settling, before: RecoveredStore, topics: int
) -> Sequence[PromotedPut]:
    """Put messages to a started store, and stop it. topics: the number of users' topics."""
    of_users = [topic_of_users(number) for number in range(topics)]
    known = dict.fromkeys((each.record.topic, each.record.queue_id) for each in before.records)
    places = [*[place for place in known if place[0] in of_users][:_QUEUES_MAX], _NEW_QUEUE]
    puts = []
    for number in range(_PUTS_EACH):
        for topic, queue_id in places:
            body = f"{topic}/{queue_id} promoted {number} ".encode().ljust(_BODY_BYTES, b".")
            result = store.put_message(Message.create(topic, body, queue_id=queue_id))
            puts.append(PromotedPut(topic, queue_id, body, result))
    if not store.shutdown():
        settling.judge.judge_unclean_stop(store, disk, has_room=True)
    return puts
