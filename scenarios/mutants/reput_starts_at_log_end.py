"""#17 reput-starts-at-log-end: recovery keeps the queue entries it finds and leaves the missing ones to the dispatcher.

But that begins at the log's end, so what lies between the queues' ends and the log's is in no queue for ever.
"""

from ...store.formats.consume_queue import ENTRY_BYTES, is_valid
from ...store.log.recovery import Recovery
from ...store.queues.consume_queue import ConsumeQueue
from .mutant import Mutant, Patch


def keep_entries(queue: ConsumeQueue, log_end: int) -> None:
    """Recover a queue to the run of its own entries that lie below the log's end."""
    segments = queue.queue.segments
    end = segments[0].base_offset // ENTRY_BYTES if segments else 0
    while (entry := queue.entry(end)) is not None and is_valid(entry) and entry.physical_offset < log_end:
        end += 1
    queue.truncate(end)
    queue.recovered(end, 0)


def _finish_queues(self: Recovery) -> None:
    for queue in self._queues.all():
        keep_entries(queue, self._report.end_offset)
        queue.correct_min_offset(max(self._log.min_offset, 0))


MUTANT = Mutant(
    "reput-starts-at-log-end",
    "startup / dispatch",
    "after a restart, records that were stored and not dispatched are never dispatched",
    (Patch(Recovery, "finish_queues", _finish_queues),),
    None,
    ("CQ-COMPLETE", "CQ-VALID"),
)
