"""Bugs of names: files and directories whose names or removals are not synced."""

from collections.abc import Callable

from ....store.directories import directory_of
from ....store.index.index_service import IndexFiles
from ....store.log.segment import Segment
from ....store.log.segment_queue import SegmentQueue
from ....store.queues.consume_queue_table import ConsumeQueueTable
from ....store.side_file import SideFile
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.disturbances import SLOW_CREATIONS
from ...claims.catalogue.recovery import KILLED_REMOVALS
from ..mutant import bit, bug, needs


# apache/fluss#4012: segments that a start truncated come back. apache/kafka#10405: directories are not synced.
@bug("emptied-directory-not-synced", SegmentQueue, "make_durable", found_by=("POS",))
@needs(SCENARIOS["crash-in-log-truncation"].ranges, **KILLED_REMOVALS)
def sync_directories_in_use(self: SegmentQueue, first: int) -> None:
    """A start does not sync a log directory that lost its last segment, so a power cut may restore this segment."""
    self.flush_all()
    for segment in self.segments[first:]:
        self._world.files.sync(segment.file.path)
    in_use = {directory_of(segment.file.path) for segment in self.segments}
    bit(not in_use.issuperset(self._directories.found))
    for directory in sorted(in_use):
        self._world.files.sync_directory(directory)


# google/leveldb#196: the name of a new file must be durable before other data depends on the file.
@bug("queue-file-marked-before-creation", SegmentQueue, "create", found_by=("CKPT",))
@needs(SCENARIOS["checkpoint-order"].ranges, **SLOW_CREATIONS)
def create_after_mark(self: SegmentQueue, base_offset: int) -> Segment:
    """A flush during the creation of a queue file clears the directory's mark, and the new name is never synced."""
    self.directory_is_durable = False
    path = self.path(base_offset)
    self._world.files.make_directories(self.directory)
    file = self._world.files.map(path, self.segment_bytes)
    segment = self.add(Segment(self._world.tasks, file, base_offset, self._label))
    bit(self.directory_is_durable)
    return segment


@bug("queue-topic-not-synced", ConsumeQueueTable, "make_durable", found_by=("CKPT",))
@needs(SCENARIOS["checkpoint-order"].ranges)
def sync_queue_directories_only(self: ConsumeQueueTable) -> None:
    """The name of a new queue file is synced, but not the directories of its queue and topic."""
    with self.names_lock:
        for queue in self.all_queues():
            queue.flush(0)
            row = queue.queue
            if row.segments and not row.directory_is_durable:
                bit()
                row.directory_is_durable = True
                self._world.files.sync_directory(row.directory)


# The new process does not know which names its predecessor had not synced.
@bug("loaded-queues-count-as-synced", SegmentQueue, "load", found_by=("CKPT",))
@needs(SCENARIOS["process-kill"].ranges, disk=("process-kill",), consume_queue_bytes=(1000,), lives=(3,))
def load_as_durable(self: SegmentQueue, *, before_loss: Callable[[], None] | None = None) -> None:
    """After a process kill, a start does not sync the names of the queue files that it finds."""
    load_as_durable.original(self, before_loss=before_loss)
    self.directory_is_durable = bit(bool(self.segments))


@bug("index-names-not-synced", IndexFiles, "sync_names", found_by=("CKPT", "IDX"))
@needs(index={"slots": (5,), "entries": (5,), "keys_chance": (0.5,)}, messages_each=(16,))
def leave_names_unsynced(self: IndexFiles) -> None:
    """The names of index files are not synced."""
    bit()


@bug("side-file-directory-not-synced", SideFile, "_make_directory", found_by=("META",))
@needs(consuming={"commits_offsets": (True,)}, consumers=(1, 2), endings=("crash at rest",), disk=("strict-posix",))
def make_unsynced_directory(self: SideFile) -> None:
    """The new directory of a progress file is not synced, so a power cut removes it with all progress."""
    if bit(self._files.status(self._directory) is None):
        self._files.make_directories(self._directory)
