"""#26 cq-redispatch-duplicates: dispatch replays the log from where recovery began, and queues take what they have.

Its mark of the highest indexed log offset restarts from nothing, and the exact test, whether the slot of this queue
offset is filled, is not there.
"""

from ...store.formats.consume_queue import encode_entry
from ...store.log.recovery import RecoveryReport
from ...store.message_store import MessageStore
from ...store.queues.consume_queue import ConsumeQueue
from .mutant import Mutant, Patch

recover = MessageStore.recover
recovered = ConsumeQueue.recovered


def _recover(self: MessageStore, *, clean_exit: bool) -> RecoveryReport:
    report = recover(self, clean_exit=clean_exit)
    self.dispatch.reput_from.set(report.start_offset)
    return report


def _recovered(self: ConsumeQueue, end: int, durable: int) -> None:
    recovered(self, end, durable)
    self.max_physical_offset = -1


def _put(
    self: ConsumeQueue, physical_offset: int, size_bytes: int, tags_code: int, queue_offset: int
) -> None:
    if physical_offset + size_bytes <= self.max_physical_offset:
        return
    if queue_offset > self.max_offset:
        self.fill_blank(queue_offset)
    self.append_entries(encode_entry(physical_offset, size_bytes, tags_code))
    self.max_physical_offset = physical_offset + size_bytes


MUTANT = Mutant(
    "cq-redispatch-duplicates",
    "consume queue",
    "records that are replayed after a crash are in their queues twice",
    (
        Patch(MessageStore, "recover", _recover),
        Patch(ConsumeQueue, "recovered", _recovered),
        Patch(ConsumeQueue, "put", _put),
    ),
    None,
    ("CQ-COMPLETE", "READ", "CQ-VALID", "CKPT"),
)
