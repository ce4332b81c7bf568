"""#25 offset-table-rebuilt-early: the next queue offsets are taken from the queues before recovery has completed these.

A queue that lags behind the log gives offsets out again that records in the log have already.
"""

from ...store.formats.consume_queue import ENTRY_BYTES, is_valid
from ...store.log.recovery import RecoveryReport
from ...store.message_store import MessageStore
from ...store.queues.consume_queue import ConsumeQueue
from .mutant import Mutant, Patch

recover = MessageStore.recover


def _recover(self: MessageStore, *, clean_exit: bool) -> RecoveryReport:
    ends = {(queue.topic, queue.queue_id): _end(queue) for queue in self.queues.all()}
    report = recover(self, clean_exit=clean_exit)
    table = self.commit_log.topic_queue_table
    for key, end in table.items():
        table[key] = min(end, ends.get(key, 0))
    return report


def _end(queue: ConsumeQueue) -> int:
    segments = queue.queue.segments
    end = segments[0].base_offset // ENTRY_BYTES if segments else 0
    while (entry := queue.entry(end)) is not None and is_valid(entry):
        end += 1
    return end


MUTANT = Mutant(
    "offset-table-rebuilt-early",
    "recovery / role change",
    "after a restart, new messages get queue offsets that others in the log have",
    (Patch(MessageStore, "recover", _recover),),
    None,
    ("CQ-COMPLETE", "QOFF", "READ"),
)
