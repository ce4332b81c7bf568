"""All consume queues of a store, by topic and queue id: found, made when first asked for, loaded, made durable."""

from collections.abc import Iterator

from .consume_queue import ConsumeQueue
from .consume_queue_ext import ConsumeQueueExt
from .errors import CorruptFileError
from .world import World


class ConsumeQueueTable:
    """All queues of a store, made when they are first asked for."""

    def __init__(
        self,
        world: World,
        directory: str,
        segment_bytes: int,
        ext_directory: str | None = None,
        ext_segment_bytes: int = 0,
    ) -> None:
        """ext_directory is None for queues without an extension."""
        self.directory = directory
        self.ext_directory = ext_directory
        self._world = world
        self._segment_bytes = segment_bytes
        self._ext_segment_bytes = ext_segment_bytes
        self.names_lock = world.tasks.lock("queue directories")
        """Held while directories of queues are synced, or removed."""
        self._lock = world.tasks.lock("consume queues")
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue, None if it was never asked for."""
        return self._queues.get((topic, queue_id))

    def find_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue, in memory only if it is new."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            with self._lock:
                queue = self._queues.get((topic, queue_id))
                if queue is None:
                    queue = self._make(topic, queue_id)
                    self._queues[topic, queue_id] = queue
        return queue

    def _make(self, topic: str, queue_id: int) -> ConsumeQueue:
        ext = None
        if self.ext_directory is not None:
            path = f"{self.ext_directory}/{topic}/{queue_id}"
            ext = ConsumeQueueExt(self._world, path, self._ext_segment_bytes, topic, queue_id)
        path = f"{self.directory}/{topic}/{queue_id}"
        return ConsumeQueue(self._world, path, self._segment_bytes, topic, queue_id, ext)

    def all(self) -> list[ConsumeQueue]:
        """Return every queue, by topic and number."""
        return [queue for _, queue in sorted(self._queues.items())]

    def load(self) -> None:
        """Map every queue in the directory. Raises CorruptFileError on a foreign name or a wrong size."""
        for topic, queue_id in self._named_in(self.directory):
            self.find_or_create(topic, queue_id).queue.load()
        if self.ext_directory is not None:
            for topic, queue_id in self._named_in(self.ext_directory):
                ext = self.find_or_create(topic, queue_id).ext
                assert ext is not None
                ext.load()

    def _named_in(self, directory: str) -> Iterator[tuple[str, int]]:
        """Yield the topic and number of every queue that a directory has a place for."""
        files = self._world.files
        if files.status(directory) is None:
            return
        for topic in files.list_directory(directory):
            path = f"{directory}/{topic}"
            status = files.status(path)
            if status is None or not status.is_directory:
                raise CorruptFileError(path, 0, "topic", "a directory", "a file")
            for name in files.list_directory(path):
                if not (name.isascii() and name.isdecimal()):
                    raise CorruptFileError(f"{path}/{name}", 0, "queueId", "a number", name)
                yield topic, int(name)

    def make_durable(self) -> None:
        """Flush every queue, and sync the directories of those whose files are new."""
        with self.names_lock:
            self._make_durable()

    def forget(self, queue: ConsumeQueue) -> None:
        """Forget a queue: whoever asks for it next gets a new one. Its files are gone."""
        with self._lock:
            del self._queues[queue.topic, queue.queue_id]

    def remove_directories(self, queue: ConsumeQueue) -> None:
        """Remove the directories of a queue that is forgotten, and its topic's if they are empty then.

        Raises OSError if one is not empty, which ends it.
        """
        with self.names_lock:
            for row in self._rows([queue]):
                if self._world.files.status(row.queue.directory) is not None:
                    self._world.files.remove_directory(row.queue.directory)
            for row in self._rows([queue]):
                self._world.files.remove_directory(row.queue.directory.rpartition("/")[0])

    def _make_durable(self) -> None:
        files, queues = self._world.files, self.all()
        new = [row for row in self._rows(queues) if row.queue.segments and not row.directory_is_durable]
        for queue in queues:
            queue.flush(0)
        for row in new:
            row.directory_is_durable = True
            files.sync_directory(row.queue.directory)
        topics = sorted({row.queue.directory.rpartition("/")[0] for row in new})
        for topic in topics:
            files.sync_directory(topic)
        for root in sorted({topic.rpartition("/")[0] for topic in topics}):
            files.sync_directory(root)

    def _rows(self, queues: list[ConsumeQueue]) -> list[ConsumeQueue | ConsumeQueueExt]:
        """Return every row of files of these queues, their extensions' too."""
        return [*queues, *(queue.ext for queue in queues if queue.ext is not None)]

    def close(self) -> None:
        """Give every mapping back."""
        for row in self._rows(self.all()):
            row.queue.close()
