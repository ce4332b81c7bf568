"""#23 failed-put-burns-queue-offset: a put takes its queue offset before it is known whether its record can be stored.

One that is refused keeps it, and from then on the queue's slots and the offsets in the records disagree.
"""

from dataclasses import replace

from ...store.log.commit_log import CommitLog
from ...store.message import Message, MessageBatch
from ...store.put_result import PutMessageResult
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

put = CommitLog.put


def _put(self: CommitLog, message: Message | MessageBatch) -> PutMessageResult:
    result = put(self, message)
    if result.append is None:
        head = message.head if isinstance(message, MessageBatch) else message
        key = (head.topic, head.queue_id)
        with self._put_lock:
            self.topic_queue_table[key] = self.topic_queue_table.get(key, 0) + 1
    return result


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, commit_log_bytes=(2048,), body_bytes_max=(2500,))


MUTANT = Mutant(
    "failed-put-burns-queue-offset",
    "append path / queue offsets",
    "a refused message uses up a queue offset",
    (Patch(CommitLog, "put", _put),),
    _narrow,
    ("CQ-VALID", "CQ-COMPLETE", "QOFF"),
)
