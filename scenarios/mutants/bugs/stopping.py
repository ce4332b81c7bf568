"""Bugs of a stop: it says that it was clean, and something that it should have made durable is not."""

from ....store.message_store import MessageStore
from ....store.queues.flush_queues import FlushConsumeQueueService
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch

_STOPS = Ranges(endings=("stop",), disk=("strict-posix", "ext4-ordered", "xfs", "btrfs"))


# stop-leaves-index-unsynced: RocketMQ 4.9 syncs an index file when the next one is begun, and at no other time. The
# one that is being filled when the store stops is in the page cache only, and the missing marker says that all is well.
def _finish_without_index(self: FlushConsumeQueueService) -> None:
    try:
        self.flush_thoroughly()
    except OSError as error:
        self.last_error = error


STOP_LEAVES_INDEX_UNSYNCED = Mutant(
    "stop-leaves-index-unsynced",
    "a clean stop leaves the index file that is being filled in the page cache",
    (Patch(FlushConsumeQueueService, "finish", _finish_without_index),),
    ("IDX",),
    _STOPS.replace(index={"slots": (5, 40)}),
)


# stop-leaves-queues-unsynced: what was dispatched since the last thorough flush is not synced by the stop.
def _finish_without_queues(self: FlushConsumeQueueService) -> None:
    try:
        if self.index is not None:
            self.index.make_durable()
        self._checkpoint.flush()
    except OSError as error:
        self.last_error = error


STOP_LEAVES_QUEUES_UNSYNCED = Mutant(
    "stop-leaves-queues-unsynced",
    "a clean stop leaves the newest entries of the queues in the page cache",
    (Patch(FlushConsumeQueueService, "finish", _finish_without_queues),),
    ("CQ-COMPLETE", "CQ-VALID", "QOFF", "SCAN"),
    _STOPS.replace(  # the next start looks at the queues of three segments, and mends them
        recover_whole_log=(False,),
        commit_log_bytes=(1024,),
        messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
        messages_each=(16,),
        topics=(2,),
    ),
)


# stop-leaves-marker-removal-unsynced: the marker is removed, and its directory is not synced, as in RocketMQ. After a
# power cut the marker is back, and the next start takes the stop for a crash.
def _mark_stopped_unsynced(self: MessageStore) -> bool:
    try:
        self.world.files.unlink(self.config.abort_path)
    except OSError:
        return False
    return True


STOP_LEAVES_MARKER_REMOVAL_UNSYNCED = Mutant(
    "stop-leaves-marker-removal-unsynced",
    "the removal of the marker is not durable when a clean stop returns",
    (Patch(MessageStore, "_mark_stopped", _mark_stopped_unsynced),),
    ("START",),
    _STOPS,
)
