"""#17 reput-starts-at-log-end: recovery leaves entries that never reached the disk to the dispatcher.

But that begins at the log's end, so what lies between the queues' ends and the log's is in no queue for ever.
"""

from ...store.formats.consume_queue import ENTRY_BYTES
from ...store.queue_replay import QueueReplay
from .mutant import Mutant, Patch


def _write(self: QueueReplay) -> None:
    queue, end = self.queue, self.queue.queue.max_offset // ENTRY_BYTES
    while self._pending and self._pending_at < end:
        entry, self._pending = self._pending[:ENTRY_BYTES], self._pending[ENTRY_BYTES:]
        position = self._pending_at * ENTRY_BYTES
        segment = queue.queue.find(position)
        if segment is None or not any(queue.entries_from(self._pending_at)[:ENTRY_BYTES]):
            break
        self.changed += queue.place(self._pending_at, entry)
        self._pending_at += 1
    self.next = self._pending_at
    self._pending = bytearray()


MUTANT = Mutant(
    "reput-starts-at-log-end",
    "startup / dispatch",
    "after a restart, records that were stored and not dispatched are never dispatched",
    (Patch(QueueReplay, "_write", _write),),
    None,
    ("CQ-COMPLETE",),
)
