"""Consume queues: for each topic and queue id, where its messages are in the log, in queue order.

Entry n lies at logic offset 20 n and stands for the record whose queueOffset is n, always: a hole is filled with blank
entries, never closed up. One task writes (dispatch, or recovery before it); any task reads.
"""

from .errors import CorruptFileError
from .formats.consume_queue import (
    BLANK_ENTRY_BYTES,
    ENTRY_BYTES,
    QueueEntry,
    decode_entry,
    encode_entry,
    is_valid,
)
from .segments.segment import Segment
from .segments.segment_queue import SegmentQueue
from .world import World


class QueueSegments(SegmentQueue):
    """The files of one queue. All of them can be rebuilt from the log, so none that a crash spoilt is worth keeping."""

    def is_expendable(self, base_offset: int) -> bool:
        """Return whether a file has a size that a crash can leave: none, or all of it."""
        status = self._world.files.status(self.path(base_offset))
        return status is not None and not status.is_directory and status.size_bytes in (0, self.segment_bytes)


class ConsumeQueue:
    """One queue of one topic."""

    def __init__(self, world: World, directory: str, segment_bytes: int, topic: str, queue_id: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.queue = QueueSegments(world, directory, segment_bytes, f"consumequeue {topic}/{queue_id}")
        self.max_physical_offset = -1
        """Log offset behind the last record indexed here; only the writing task uses it."""
        self.min_logic_offset = 0
        self.directory_is_durable = False

    @property
    def min_offset(self) -> int:
        """Return the index of the first entry whose record is still in the log."""
        return self.min_logic_offset // ENTRY_BYTES

    @property
    def max_offset(self) -> int:
        """Return the index behind the last entry."""
        return self.queue.max_offset // ENTRY_BYTES

    # -- writing -----------------------------------------------------------------------------------

    def put(self, physical_offset: int, size_bytes: int, tags_code: int, queue_offset: int) -> None:
        """Index one record at its queueOffset. One that is indexed already changes nothing."""
        end = physical_offset + size_bytes
        if end <= self.max_physical_offset:
            return
        entry = encode_entry(physical_offset, size_bytes, tags_code)
        segment = self.queue.last()
        position = 0 if segment is None else segment.wrote.get()
        begin = 0 if segment is None else segment.base_offset + position
        missing_bytes = queue_offset * ENTRY_BYTES - begin
        if missing_bytes < 0:
            return
        if missing_bytes == 0 and segment is not None and position < segment.size_bytes:
            segment.append(position, entry)
        else:
            if missing_bytes:
                self.fill_blank(queue_offset)
            self.append_entries(entry)
        self.max_physical_offset = end

    def append_entries(self, raw: bytes | bytearray) -> None:
        """Put whole entries behind the last one, in as many segments as it takes."""
        while raw:
            segment, position = self._writable_segment()
            room = segment.size_bytes - position
            segment.append(position, raw[:room])
            raw = raw[room:]

    def _writable_segment(self) -> tuple[Segment, int]:
        """Return the last segment and how far it is written, or a new one if it is full or none is there."""
        segment = self.queue.last()
        if segment is None:
            return self._create(0), 0
        position = segment.wrote.get()
        if position == segment.size_bytes:
            return self._create(segment.end_offset), 0
        return segment, position

    def _create(self, base_offset: int) -> Segment:
        self.directory_is_durable = False
        return self.queue.create(base_offset)

    def fill_blank(self, queue_offset: int) -> None:
        """Fill up to queue_offset with blank entries; an empty queue begins at the segment that will hold it."""
        if not self.queue.segments:
            logic_offset = queue_offset * ENTRY_BYTES
            self._create(logic_offset - logic_offset % self.queue.segment_bytes)
            self.min_logic_offset = logic_offset
        self.append_entries(BLANK_ENTRY_BYTES * (queue_offset - self.max_offset))

    def place(self, queue_offset: int, raw: bytes | bytearray, *, write_again: bool = False) -> int:
        """Make the entries from queue_offset on be raw, for recovery; return how many were not already.

        write_again: write also what is there already, so that the next sync does not take it for clean.

        Positions are not looked at: `recovered` sets them. queue_offset follows what is there or lies in it.
        """
        changed = 0
        while raw:
            logic_offset = queue_offset * ENTRY_BYTES
            segment = self._segment_for(logic_offset)
            position = logic_offset - segment.base_offset
            piece = raw[: segment.size_bytes - position]
            differs = bytes(segment.file.view(position, position + len(piece))) != piece
            if differs or write_again:
                segment.file.store(position, piece)
            if differs:
                changed += len(piece) // ENTRY_BYTES
            raw = raw[len(piece) :]
            queue_offset += len(piece) // ENTRY_BYTES
        return changed

    def _segment_for(self, logic_offset: int) -> Segment:
        segment = self.queue.find(logic_offset)
        if segment is not None:
            return segment
        last = self.queue.last()
        if last is None:
            return self._create(logic_offset - logic_offset % self.queue.segment_bytes)
        assert logic_offset == last.end_offset, (logic_offset, last.end_offset)
        return self._create(last.end_offset)

    def recovered(self, end: int, durable: int) -> None:
        """Set every position: entries up to index end count, those up to index durable are durable."""
        for segment in self.queue.segments:
            wrote, flushed = (
                min(max(index * ENTRY_BYTES - segment.base_offset, 0), segment.size_bytes)
                for index in (end, min(durable, end))
            )
            segment.set_positions(wrote, flushed)
        self.queue.flushed_where.set(max(min(durable, end) * ENTRY_BYTES, self.queue.min_offset, 0))
        last = self.entry(end - 1)
        if last is not None and is_valid(last):
            self.max_physical_offset = last.physical_offset + last.size_bytes

    def flush(self, least_pages: int) -> None:
        """Flush what has gathered."""
        while self.queue.flush(least_pages):
            pass

    def truncate(self, queue_offset: int) -> bool:
        """Forget the entries from queue_offset on, durably; return whether there were any."""
        logic_offset = queue_offset * ENTRY_BYTES
        if self.queue.segments and logic_offset <= self.queue.min_offset:
            self.queue.remove_all()
            self.min_logic_offset = 0
            return True
        return self.queue.truncate(logic_offset)

    # -- reading -----------------------------------------------------------------------------------

    def entry(self, queue_offset: int) -> QueueEntry | None:
        """Return one entry, valid or not; None if no segment holds it."""
        logic_offset = queue_offset * ENTRY_BYTES
        segment = self.queue.find(logic_offset)
        if segment is None or queue_offset < 0:
            return None
        position = logic_offset - segment.base_offset
        return decode_entry(segment.file.view(position, position + ENTRY_BYTES), 0)

    def entries_from(self, queue_offset: int) -> memoryview:
        """Return the raw entries from queue_offset to the end of the one segment that holds it; may be empty."""
        logic_offset = queue_offset * ENTRY_BYTES
        segment = self.queue.find(logic_offset)
        if segment is None:
            return memoryview(b"")
        return segment.file.view(logic_offset - segment.base_offset, segment.wrote.get())

    def correct_min_offset(self, log_min_offset: int) -> None:
        """Let the queue begin at the first real entry of its first segment whose record is still in the log."""
        segments = self.queue.segments
        if not segments:
            return
        first = segments[0]
        raw = first.file.view(0, first.wrote.get())
        for at in range(0, len(raw), ENTRY_BYTES):
            entry = decode_entry(raw, at)
            if is_valid(entry) and entry.physical_offset >= log_min_offset:
                self.min_logic_offset = first.base_offset + at
                return
        self.min_logic_offset = max(self.min_logic_offset, first.base_offset)


class ConsumeQueueTable:
    """All queues of a store, made when they are first asked for."""

    def __init__(self, world: World, directory: str, segment_bytes: int) -> None:
        self.directory = directory
        self._world = world
        self._segment_bytes = segment_bytes
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
        return ConsumeQueue(
            self._world, f"{self.directory}/{topic}/{queue_id}", self._segment_bytes, topic, queue_id
        )

    def all(self) -> list[ConsumeQueue]:
        """Return every queue, by topic and number."""
        return [self._queues[key] for key in sorted(self._queues)]

    def load(self) -> None:
        """Map every queue in the directory. Raises CorruptFileError on a foreign name or a wrong size."""
        files = self._world.files
        if files.status(self.directory) is None:
            return
        for topic in files.list_directory(self.directory):
            path = f"{self.directory}/{topic}"
            status = files.status(path)
            if status is None or not status.is_directory:
                raise CorruptFileError(path, 0, "topic", "a directory", "a file")
            for name in files.list_directory(path):
                if not (name.isascii() and name.isdecimal()):
                    raise CorruptFileError(f"{path}/{name}", 0, "queueId", "a number", name)
                self.find_or_create(topic, int(name)).queue.load()

    def make_durable(self) -> None:
        """Flush every queue, and sync the directories of those whose files are new."""
        files = self._world.files
        new = [queue for queue in self.all() if queue.queue.segments and not queue.directory_is_durable]
        for queue in self.all():
            queue.flush(0)
        for queue in new:
            queue.directory_is_durable = True
            files.sync_directory(queue.queue.directory)
        for topic in sorted({queue.topic for queue in new}):
            files.sync_directory(f"{self.directory}/{topic}")
        if new:
            files.sync_directory(self.directory)

    def close(self) -> None:
        """Give every mapping back."""
        for queue in self.all():
            queue.queue.close()
