"""Bugs of a stop: it says that it was clean, and something that it should have made durable is not."""

from ....store.formats.side_json import encode_side_json
from ....store.message_store import MessageStore
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.services.consumer_offsets import ConsumerOffsetManager
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit

_STOPS = Ranges(endings=("stop",), disk=("strict-posix", "ext4-ordered", "xfs", "btrfs"))


# stop-leaves-index-unsynced: RocketMQ 4.9 syncs an index file when the next one is begun, and at no other time. The
# one that is being filled when the store stops is in the page cache only, and the missing marker says that all is well.
def _finish_without_index(self: FlushConsumeQueueService) -> None:
    try:
        self.flush_thoroughly()
        bit(self.index is not None)
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
    bit(any(queue.queue.flushed_where.get() < queue.queue.max_offset for queue in self._queues.all()))
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
        messages_each=(24,),
        topics=(4,),
    ),
)


# stop-leaves-marker-removal-unsynced: the marker is removed, and its directory is not synced, as in RocketMQ. After a
# power cut the marker is back, and the next start takes the stop for a crash.
def _mark_stopped_unsynced(self: MessageStore) -> bool:
    try:
        self.world.files.unlink(self.config.abort_path)
        bit()
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


# stop-syncs-whole-pages: the flush of a stop is one of those that leave a page that is being filled for the next one.
def _finish_with_whole_pages(self: FlushConsumeQueueService) -> None:
    try:
        for queue in self._queues.all():
            queue.flush(1)
            bit(queue.queue.flushed_where.get() < queue.queue.max_offset)
        if self.index is not None:
            self.index.make_durable()
        self._checkpoint.flush()
    except OSError as error:
        self.last_error = error


STOP_SYNCS_WHOLE_PAGES = Mutant(
    "stop-syncs-whole-pages",
    "a clean stop leaves the page of each queue that is being filled to the page cache",
    (Patch(FlushConsumeQueueService, "finish", _finish_with_whole_pages),),
    ("CQ-COMPLETE", "CQ-VALID", "QOFF", "SCAN"),
    STOP_LEAVES_QUEUES_UNSYNCED.ranges,
)


# stop-forgets-progress: progress is persisted every so often, and a stop has nothing to add to that.
def _finish_without_progress(self: ConsumerOffsetManager) -> None:
    bit(self.file._content != encode_side_json(self.members))


STOP_FORGETS_PROGRESS = Mutant(
    "stop-forgets-progress",
    "what consumers have committed last is lost in a clean stop",
    (Patch(ConsumerOffsetManager, "finish", _finish_without_progress),),
    ("REDEL", "META"),
    _STOPS.replace(consuming={"commits_offsets": (True,)}, consumers=(2,)),
)
