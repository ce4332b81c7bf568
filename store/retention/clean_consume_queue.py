"""Removes what leads to messages that have left the log: RocketMQ's CleanConsumeQueueService.

It follows the log and never leads it: entries go only after the removal of their records is durable.
"""

from collections.abc import Callable
from contextlib import suppress

from ..config import StoreConfig
from ..formats.consume_queue import is_valid
from ..formats.delay_level import SCHEDULE_TOPIC
from ..log.commit_log import CommitLog
from ..log.segment_queue import SegmentQueue
from ..marks import hit
from ..queues.consume_queue import ConsumeQueue
from ..queues.consume_queue_table import ConsumeQueueTable

Expirer = Callable[[int], object]
"""Removes what leads to log offsets below the one it is given. Raises OSError if it cannot."""


class CleanConsumeQueue:
    """Removes expired segments of queues, and whole queues when told to."""

    def __init__(
        self,
        config: StoreConfig,
        log: SegmentQueue,
        commit_log: CommitLog,
        queues: ConsumeQueueTable,
        pause: Callable[[int], bool],
    ) -> None:
        """pause waits, and says False if there is to be an end."""
        self.expirers: list[Expirer] = []
        """Who else has something that leads into the log, to be called after the queues."""
        self._config = config
        self._log = log
        self._commit_log = commit_log
        self._queues = queues
        self._pause = pause
        self._cleaned_to = 0

    def run(self) -> None:
        """Do one pass if the log has lost something since the last whole one.

        Raises the last OSError there was after all else is done, and the next pass tries again.
        """
        log_min_offset = self._log.min_offset
        if log_min_offset <= self._cleaned_to:
            return
        failure: OSError | None = None
        whole = True
        for queue in self._queues.all():
            try:
                removed = queue.remove_expired_segments(log_min_offset)
            except OSError as error:
                failure = error
                continue
            whole = whole and not queue.has_expired_segment(log_min_offset)
            if removed and not self._pause(self._config.delete_consume_queue_files_interval_ms):
                return
        for expire in self.expirers:
            try:
                expire(log_min_offset)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure
        if whole:
            self._cleaned_to = log_min_offset

    def remove_expired_queues(self) -> None:
        """Remove the queues whose newest message has left the log; the next message in one begins it at 0 again.

        A queue that a message is on its way to stays, and so do those of delayed messages. Raises OSError if a file
        does not go.
        """
        log_min_offset = self._log.min_offset
        for queue in self._queues.all():
            end = queue.max_offset  # before the look at what is in front of it: there may be more by then
            newest = queue.entry(end - 1)
            if newest is None or not is_valid(newest) or queue.topic == SCHEDULE_TOPIC:
                continue
            if newest.physical_offset >= log_min_offset:
                continue
            self._remove(queue, end)

    def _remove(self, queue: ConsumeQueue, end: int) -> None:
        """Remove one queue if it ends there, all of it under the put lock.

        A put in between would be dispatched to what is forgotten.
        """

        def remove() -> None:
            queue.remove()
            self._queues.forget(queue)

        with self._queues.names_lock:
            gone = self._commit_log.forget_queue(queue.topic, queue.queue_id, end, remove)
        if gone:
            hit("queue removed")
            with suppress(OSError):  # an empty directory, or one that fills again, does no harm
                self._queues.remove_directories(queue)
