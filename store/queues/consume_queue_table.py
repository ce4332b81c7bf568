"""Queue table: all consume queues of a store, by topic and queue id."""

from collections.abc import Callable, Iterator

from ..directories import directory_of
from ..errors import CorruptFileError
from ..formats.consume_queue import queue_id_of
from ..formats.messages import is_storable_topic
from ..log.segment_queue import SegmentQueue
from ..marks import count_mark
from ..world import World
from .consume_queue import ConsumeQueue
from .consume_queue_ext import ConsumeQueueExt


class ConsumeQueueTable:
    """All queues of a store. A queue is created when it is first used."""

    def __init__(
        self,
        world: World,
        directory: str,
        segment_bytes: int,
        ext_directory: str | None = None,
        ext_segment_bytes: int = 0,
    ) -> None:
        self.directory = directory
        self.ext_directory = ext_directory
        self._world = world
        self._segment_bytes = segment_bytes
        self._ext_segment_bytes = ext_segment_bytes
        self.names_lock = world.tasks.lock("queue directories")
        self._lock = world.tasks.lock("consume queues")
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self.lost_entries = False
        """Whether a load removed files with entries. Only a scan of the whole log can rebuild all of these entries."""
        self.extended: list[CorruptFileError] = []
        """Short files that a load extended without loss of entries or counters."""

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self._queues.get((topic, queue_id))

    def find_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue, without files if it is new. Raises ValueError for an invalid topic."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            with self._lock:
                queue = self._queues.get((topic, queue_id))
                if queue is None:
                    queue = self._make_queue(topic, queue_id)
                    self._queues[topic, queue_id] = queue
        return queue

    def _make_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        if not is_storable_topic(topic):
            raise ValueError(f"topic: expected a valid topic name, found {topic!r}")
        ext = None
        if self.ext_directory is not None:
            path = f"{self.ext_directory}/{topic}/{queue_id}"
            ext = ConsumeQueueExt(self._world, path, self._ext_segment_bytes, topic, queue_id)
        path = f"{self.directory}/{topic}/{queue_id}"
        return ConsumeQueue(self._world, path, self._segment_bytes, topic, queue_id, ext)

    def all_queues(self) -> list[ConsumeQueue]:
        queues = self._queues
        return [queues[name] for name in sorted(queues)]

    def load(self, *, before_loss: Callable[[], None] | None = None) -> list[CorruptFileError]:
        """Map the files of all queues. Returns one error for each ignored directory entry that belongs to no queue.

        before_loss: called before files with entries are removed. Raises CorruptFileError if a file has the name of a
        queue's directory, or for the reasons of `SegmentQueue.load`.
        """
        unknown_entries: list[CorruptFileError] = []
        segment_queues = [
            self.find_or_create(*named).queue for named in self._list_queues_in(self.directory, unknown_entries)
        ]
        for segment_queue in segment_queues:
            segment_queue.require_file_sizes()  # check all sizes before any file changes
        for segment_queue in segment_queues:
            segment_queue.load(before_loss=before_loss)
            unknown_entries += segment_queue.unknown_entries
            self.extended += segment_queue.extended
            self.lost_entries |= segment_queue.lost_data
        if self.ext_directory is not None:
            for topic, queue_id in self._list_queues_in(self.ext_directory, unknown_entries):
                ext = self.find_or_create(topic, queue_id).ext
                assert ext is not None
                ext.load()
                unknown_entries += ext.queue.unknown_entries
        if unknown_entries:
            count_mark("unknown queue files ignored")
        return unknown_entries

    def _list_queues_in(self, directory: str, unknown_entries: list[CorruptFileError]) -> Iterator[tuple[str, int]]:
        files = self._world.files
        if files.status(directory) is None:
            return
        for topic in files.list_directory(directory):
            path = f"{directory}/{topic}"
            if (damage := self._not_a_directory_error(path, "topic")) is not None:
                unknown_entries.append(damage)
                continue
            for name in files.list_directory(path):
                queue_id = queue_id_of(name)
                if queue_id is None:
                    unknown_entries.append(CorruptFileError(f"{path}/{name}", 0, "queueId", "a number", name))
                    continue
                if (damage := self._not_a_directory_error(f"{path}/{name}", "queueId")) is not None:
                    raise damage
                yield topic, queue_id

    def _not_a_directory_error(self, path: str, field: str) -> CorruptFileError | None:
        status = self._world.files.status(path)
        if status is not None and status.is_directory:
            return None
        found = "a dangling symbolic link" if status is None else "a file"
        return CorruptFileError(path, 0, field, "a directory", found)

    def make_durable(self) -> None:
        """Flush all queues, and sync the directories that contain new files."""
        with self.names_lock:
            files, queues = self._world.files, self.all_queues()
            new = [
                segment_queue
                for segment_queue in _segment_queues(queues)
                if segment_queue.segments and not segment_queue.directory_is_durable
            ]
            for queue in queues:
                queue.flush(0)
            for segment_queue in new:
                segment_queue.directory_is_durable = True
                files.sync_directory(segment_queue.directory)
            topics = sorted({directory_of(segment_queue.directory) for segment_queue in new})
            for directory in (*topics, *sorted({directory_of(topic) for topic in topics})):
                files.sync_directory(directory)

    @property
    def sync_error(self) -> OSError | None:
        return next(
            (
                segment_queue.sync_error
                for segment_queue in _segment_queues(self.all_queues())
                if segment_queue.sync_error is not None
            ),
            None,
        )

    def forget_queue(self, queue: ConsumeQueue) -> None:
        with self._lock:
            del self._queues[queue.topic, queue.queue_id]

    def remove_directories(self, queue: ConsumeQueue) -> None:
        """Remove the directories of a removed queue, then the directories of its topic if they are empty.

        Raises OSError at the first directory that is not empty.
        """
        with self.names_lock:
            directories = [segment_queue.directory for segment_queue in _segment_queues([queue])]
            for directory in directories:
                if self._world.files.status(directory) is not None:
                    self._world.files.remove_directory(directory)
            for directory in directories:
                self._world.files.remove_directory(directory_of(directory))

    def close(self) -> None:
        for segment_queue in _segment_queues(self.all_queues()):
            segment_queue.close()


def _segment_queues(queues: list[ConsumeQueue]) -> list[SegmentQueue]:
    return [*(queue.queue for queue in queues), *(queue.ext.queue for queue in queues if queue.ext is not None)]
