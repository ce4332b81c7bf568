"""Not of the catalogue: a pull takes any entry without a record for one that retention removed, as 4.9.8 does.

It passes over all that lies in the rest of the same log segment, which is the first one for a blank entry.
"""

from ...store.filters.message_filter import MessageFilter
from ...store.formats.consume_queue import ENTRY_BYTES, decode_entry
from ...store.get_result import GetMessageResult
from ...store.queues.consume_queue import ConsumeQueue
from ...store.queues.pull import Puller
from ..claims.catalogue import a_gap_in_the_numbers_hides_no_message
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

scan = Puller._scan


def _scan(
    self: Puller,
    result: GetMessageResult,
    queue: ConsumeQueue,
    raw: memoryview,
    max_messages: int,
    wanted: MessageFilter,
    log_limit: int,
) -> None:
    segment_bytes = self._commit_log.queue.segment_bytes
    shown, skip_until = bytearray(raw), 0
    for at in range(0, len(shown), ENTRY_BYTES):
        entry = decode_entry(raw, at)
        if entry.physical_offset < skip_until:
            shown[at : at + ENTRY_BYTES] = bytes(ENTRY_BYTES)
        elif self._commit_log.record_bytes(entry.physical_offset, entry.size_bytes, log_limit) is None:
            skip_until = (entry.physical_offset // segment_bytes + 1) * segment_bytes
        else:
            skip_until = 0
    scan(self, result, queue, memoryview(shown), max_messages, wanted, log_limit)


def _narrow(_: Ranges) -> Ranges:
    return a_gap_in_the_numbers_hides_no_message.SCENARIO.ranges


MUTANT = Mutant(
    "hole-hides-segment",
    "read path",
    "a pull that meets an entry without a record passes over the rest of a log segment",
    (Patch(Puller, "_scan", _scan),),
    _narrow,
    ("READ",),
)
