"""#16 clean-exit-with-backlog: a stop does not wait for the dispatcher, and removes the marker with a backlog left.

A start without the marker takes the queues as they are, so the backlog is in no queue for ever.
"""

from dataclasses import replace

from ...store.log.recovery import Recovery
from ...store.message_store import MessageStore
from ...store.queues.dispatch import DispatchService
from ..claims.plan import Ranges
from .mutant import Mutant, Patch
from .reput_starts_at_log_end import keep_entries

finish_queues = Recovery.finish_queues


def _finish(self: DispatchService) -> None:
    """End at once: the time that the stop gives the dispatcher is over."""


def _is_clean(self: MessageStore) -> bool:
    return (
        self.flags.is_writeable
        and self.log.flushed_where.get() == self.log.max_offset
        and self.flush_queues.last_error is None
    )


def _finish_queues(self: Recovery) -> None:
    if self._clean_exit:
        for queue in self._queues.all():
            keep_entries(queue, self._report.end_offset)
    else:
        finish_queues(self)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, sync_flush=(True,), no_wait_chance=(0.5,), sync_ms_max=(10,), endings=("stop",))


MUTANT = Mutant(
    "clean-exit-with-backlog",
    "shutdown",
    "a stop counts as clean although records are not dispatched, and the next start does not dispatch them",
    (
        Patch(DispatchService, "finish", _finish),
        Patch(MessageStore, "is_clean", _is_clean),
        Patch(Recovery, "finish_queues", _finish_queues),
    ),
    _narrow,
    ("CQ-COMPLETE",),
)
