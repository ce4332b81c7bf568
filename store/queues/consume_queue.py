"""Consume queue: the log positions of the messages of one topic and queue id.

Entry n is at logic offset 20 n and points to the record with queueOffset n. A missing record has a blank entry, so
later entries keep their position. Only one task writes entries: recovery, then dispatch. Any task may read. With an
extension, an entry contains the address of a unit instead of a tag code.
"""

from collections.abc import Callable

from ..errors import CorruptFileError, MisplacedRecordError
from ..formats.consume_queue import (
    ADDRESS_TOP,
    BLANK_ENTRY_BYTES,
    ENTRY_BYTES,
    NO_ADDRESS,
    TAGS_CODE_AT,
    ExtUnit,
    QueueEntry,
    decode_entry,
    encode_entry,
    is_blank,
    is_ext_address,
    is_valid,
)
from ..formats.message import records_max_in
from ..log.segment import Segment
from ..log.segment_queue import SegmentQueue
from ..world import World
from .consume_queue_ext import ConsumeQueueExt

GAP_ENTRIES_MAX = 4096
"""Maximum number of missing queue offsets between two records, even if the log between them is too short for them."""
_HOLE_ENTRIES_MAX = 1024
_SEARCHED_BYTES = 256 * ENTRY_BYTES


class QueueSegments(SegmentQueue):
    """The files of one queue. A load removes damaged files, because recovery can rebuild them from the log."""

    def is_ignored(self, path: str) -> bool:
        """Return True for any name, because recovery can rebuild lost segments."""
        return True

    def is_expendable(self, base_offset: int) -> bool:
        """Return True unless a file is too long. A crash can leave a short file with any content."""
        status = self._world.files.status(self.path(base_offset))
        return status is not None and not status.is_directory and status.size_bytes <= self.segment_bytes

    def can_extend(self, base_offset: int) -> bool:
        """Return whether a short file contains entries.

        A file is short after damage, or after an increase of `mappedFileSizeConsumeQueue`.
        """
        return 0 < self._file_bytes(base_offset) < self.segment_bytes and not self._is_file_all_zero(
            self.path(base_offset)
        )

    def require_file_sizes(self) -> None:
        """Raise CorruptFileError for a too long file. Call this before the load changes any file."""
        for base in self._find_base_offsets():
            if self._file_bytes(base) > self.segment_bytes:
                raise CorruptFileError(self.path(base), 0, "file size", self.segment_bytes, self._file_bytes(base))


class ConsumeQueue:
    """One queue of one topic.

    Invariant: entry n is at logic offset 20 n. The log offsets of non-blank entries increase, up to
    max_physical_offset.
    """

    def __init__(
        self,
        world: World,
        directory: str,
        segment_bytes: int,
        topic: str,
        queue_id: int,
        ext: ConsumeQueueExt | None = None,
    ) -> None:
        assert segment_bytes % ENTRY_BYTES == 0, segment_bytes
        self.ext = ext
        self.topic = topic
        self.queue_id = queue_id
        self.queue = QueueSegments(world, directory, segment_bytes, f"consumequeue {topic}/{queue_id}")
        self.max_physical_offset = -1
        """Log offset after the last indexed record. Only the writing task uses it."""
        self.min_logic_offset = 0

    @property
    def min_offset(self) -> int:
        return self.min_logic_offset // ENTRY_BYTES

    @property
    def max_offset(self) -> int:
        return self.queue.max_offset // ENTRY_BYTES

    # -- writing -----------------------------------------------------------------------------------

    def put(self, physical_offset: int, size_bytes: int, tags_code: int, queue_offset: int) -> None:
        """Add the entry of one record at its queueOffset, unless the queue already has the entry.

        Raises MisplacedRecordError, without a change, if another record has the queue offset or too many entries are
        missing before it.
        """
        end = physical_offset + size_bytes
        assert 0 <= physical_offset < end, (physical_offset, size_bytes)
        if end <= self.max_physical_offset:
            return
        entry = encode_entry(physical_offset, size_bytes, tags_code)
        segment = self.queue.last_segment()
        position = 0 if segment is None else segment.wrote.get()
        begin = 0 if segment is None else segment.base_offset + position
        missing_bytes = queue_offset * ENTRY_BYTES - begin
        if missing_bytes == 0 and segment is not None and position < segment.size_bytes:
            segment.append(position, entry)
        else:
            if missing_bytes:
                self._check_queue_offset(queue_offset, begin // ENTRY_BYTES, physical_offset)
                self.fill_blank(queue_offset)
            self.append_entries(entry)
        self.max_physical_offset = end

    def _check_queue_offset(self, queue_offset: int, following: int, physical_offset: int) -> None:
        """Raise MisplacedRecordError if too many queue offsets are missing between `following` and queue_offset.

        The limit is the largest of three numbers: the records that fit into the log after the last indexed record;
        GAP_ENTRIES_MAX, as in recovery; and the entries of one queue file, because RocketMQ 4.9.8 skips a whole file if
        a start finds it allocated but unused.
        """
        log_bytes = physical_offset - max(self.max_physical_offset, 0)
        of_a_file = self.queue.segment_bytes // ENTRY_BYTES
        ahead_max = max(records_max_in(log_bytes), of_a_file, GAP_ENTRIES_MAX)
        if not 0 <= queue_offset - following <= ahead_max:
            expected = f"{following} to {following + ahead_max}"
            raise MisplacedRecordError(f"{self.topic}/{self.queue_id}", expected, queue_offset)

    def put_extended(self, physical_offset: int, size_bytes: int, unit: ExtUnit, queue_offset: int) -> None:
        """Like `put`, but store a unit in the extension if possible."""
        if physical_offset + size_bytes <= self.max_physical_offset:
            return
        code = NO_ADDRESS if self.ext is None else self.ext.put(unit)
        if code == NO_ADDRESS:
            code = unit.tags_code
        self.put(physical_offset, size_bytes, code, queue_offset)

    def put_run(self, queue_offset: int, entries: bytes) -> None:
        """Append entries of records that directly follow the last indexed record.

        If the disk is full, raises OSError, possibly after some appends.
        """
        assert queue_offset == self.max_offset, (queue_offset, self.max_offset)
        while entries:
            segment, position = self._writable_segment()
            piece = entries[: segment.size_bytes - position]
            last = decode_entry(piece, len(piece) - ENTRY_BYTES)
            end = last.physical_offset + last.size_bytes
            assert end > self.max_physical_offset, (end, self.max_physical_offset)
            segment.append(position, piece)
            self.max_physical_offset = end
            entries = entries[len(piece) :]

    def append_entries(self, raw: bytes | bytearray) -> None:
        assert len(raw) % ENTRY_BYTES == 0, len(raw)
        while raw:
            segment, position = self._writable_segment()
            room = segment.size_bytes - position
            segment.append(position, raw[:room])
            raw = raw[room:]

    def _writable_segment(self) -> tuple[Segment, int]:
        segment = self.queue.last_segment()
        position = 0 if segment is None else segment.wrote.get()
        if segment is None or position == segment.size_bytes:
            return self.queue.create(0 if segment is None else segment.end_offset), 0
        return segment, position

    def fill_blank(self, queue_offset: int) -> None:
        """Append blank entries up to queue_offset. An empty queue then begins at queue_offset."""
        logic_offset = queue_offset * ENTRY_BYTES
        if self.min_offset >= self.max_offset:
            self.min_logic_offset = logic_offset  # set first, or a reader would regard blank entries as messages
        if not self.queue.segments:
            self.queue.create(logic_offset - logic_offset % self.queue.segment_bytes)
        following = self.max_offset
        assert following <= queue_offset, (following, queue_offset)
        self.append_entries(BLANK_ENTRY_BYTES * (queue_offset - following))

    def overwrite_entries(
        self,
        queue_offset: int,
        raw: bytes | bytearray,
        *,
        write_again: bool = False,
        before_change: Callable[[], None] | None = None,
    ) -> int:
        """Recovery only: overwrite entries from queue_offset on with `raw`. Returns the number of changed entries.

        write_again: write unchanged entries too, so that the next sync writes their pages to the disk.
        before_change: called before entries with addresses change, because a crash could leave half of a tag code.
        `set_recovered_end` sets the segments' positions later. queue_offset must not exceed the end of the existing
        entries.
        """
        assert queue_offset >= 0, queue_offset
        assert len(raw) % ENTRY_BYTES == 0, len(raw)
        changed = 0
        while raw:
            logic_offset = queue_offset * ENTRY_BYTES
            segment = self._segment_for(logic_offset)
            position = logic_offset - segment.base_offset
            piece = raw[: segment.size_bytes - position]
            found = bytes(segment.file.view(position, position + len(piece)))
            differs = found != piece
            if differs and before_change is not None and _has_address(found):
                before_change()
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
        last = self.queue.last_segment()
        assert last is None or logic_offset == last.end_offset, (logic_offset, last)
        return self.queue.create(logic_offset - logic_offset % self.queue.segment_bytes)

    def replace_addresses(self, end: int, log_begin: int, before_change: Callable[[], None]) -> list[int]:
        """Recovery only: replace addresses by the tags codes of their units, if the units will be removed.

        `ConsumeQueueExt.truncate_to_last_used` removes all units if that of the last address is missing. This address
        can be in an entry that points into damage, so earlier entries may still have units. Entries of expired records,
        before log_begin, have no readers and count as durable. Returns the indexes of the changed entries, all before
        index `end`.
        """
        last = None if self.ext is None else self._last_ext_address_before(end)
        if self.ext is None or last is None or self.ext.get(last) is not None:
            return []
        changed = []
        for index in range(max(self.queue.min_offset, 0) // ENTRY_BYTES, end):
            entry = self.entry(index)
            if entry is None or entry.physical_offset < log_begin or not is_ext_address(entry.tags_code):
                continue
            unit = self.ext.get(entry.tags_code)
            if unit is not None:
                raw = encode_entry(*entry[:2], unit.tags_code)
                self.overwrite_entries(index, raw, before_change=before_change)
                changed.append(index)
        return changed

    def set_recovered_end(self, end: int, durable: int) -> None:
        """Set the positions of all segments. Entries end at index `end`, durable entries at `durable`."""
        assert end >= 0, end
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
        if self.ext is not None:
            self.ext.truncate_to_last_used(self._last_ext_address_before(end))

    def tags_code_to_keep(
        self, queue_offset: int, entry: QueueEntry, store_timestamp_ms: int, *, is_durable: bool
    ) -> int:
        """Return the entry's unit address if this unit belongs to the record, else the record's tags code.

        A torn address can be that of an earlier entry's unit, which may have the same tags code and store time. Only an
        address after all earlier ones is kept. is_durable: see `ConsumeQueueExt.may_keep_address`.
        """
        if self.ext is None:
            return entry.tags_code
        found = self.entry(queue_offset)
        if found is None or not is_ext_address(found.tags_code) or found[:2] != entry[:2]:
            return entry.tags_code
        earlier = self._last_ext_address_before(queue_offset)
        if (earlier is None or earlier < found.tags_code) and self.ext.may_keep_address(
            found.tags_code, entry.tags_code, store_timestamp_ms, is_durable=is_durable
        ):
            return found.tags_code
        return entry.tags_code

    def _last_ext_address_before(self, queue_offset: int) -> int | None:
        for segment in reversed(self.queue.segments):
            stop = min(queue_offset * ENTRY_BYTES - segment.base_offset, segment.wrote.get())
            while stop > 0:  # in parts, because recovery calls this for each record, and most results are near
                start = max(stop - _SEARCHED_BYTES, 0)
                raw = bytes(segment.file.view(start, stop))
                found = raw[TAGS_CODE_AT::ENTRY_BYTES].rfind(ADDRESS_TOP)
                if found >= 0:
                    return decode_entry(raw, found * ENTRY_BYTES).tags_code
                stop = start
        return None

    def flush(self, least_pages: int) -> None:
        """Flush units before the entries that refer to them."""
        if self.ext is not None:
            self.ext.queue.flush_all(least_pages)
        self.queue.flush_all(least_pages)

    def truncate(self, queue_offset: int, *, syncs_zeros: bool = False) -> bool:
        """Durably remove the entries from queue_offset on. Returns whether the queue had such entries.

        If the queue begins after entry 0, an empty segment stays, because its name contains the queue's counter.
        syncs_zeros: see `Segment.zero_from`.
        """
        logic_offset = max(queue_offset * ENTRY_BYTES, self.queue.min_offset)
        if logic_offset == 0:
            return self.remove_all_segments()
        self.min_logic_offset = min(self.min_logic_offset, logic_offset)
        return self.queue.truncate(logic_offset, syncs_zeros=syncs_zeros)

    def remove_all_segments(self) -> bool:
        """Durably remove all segments and the queue's counter. Returns whether the queue had a segment."""
        if not self.queue.segments:
            return False
        self.queue.remove_all()
        self.min_logic_offset = 0
        return True

    def remove(self) -> None:
        """Durably remove all files, oldest first. No task may add entries during this call or later.

        After an OSError, the queue exists as long as one of its files does.
        """
        if self.ext is not None:
            self.ext.queue.remove_in_use()  # first, because no later call would remove units without entries
        self.queue.remove_in_use()

    # -- reading -----------------------------------------------------------------------------------

    def entry(self, queue_offset: int) -> QueueEntry | None:
        """Return the entry, even if it is invalid; None if no segment contains it."""
        logic_offset = queue_offset * ENTRY_BYTES
        segment = self.queue.find(logic_offset)
        if segment is None or queue_offset < 0:
            return None
        position = logic_offset - segment.base_offset
        return decode_entry(segment.file.view(position, position + ENTRY_BYTES), 0)

    def index_of(self, physical_offset: int) -> int | None:
        """Return the index of the entry with this phyOffset, or None if it is missing or the entries are out of order.

        Call this before recovery sets the segment positions. Many consecutive invalid entries count as the end of the
        queue.
        """
        low, high = 0, sum(segment.size_bytes for segment in self.queue.segments) // ENTRY_BYTES
        begin = self.queue.segments[0].base_offset // ENTRY_BYTES if high else 0
        while low < high:
            at = middle = (low + high) // 2
            stop = min(high, middle + _HOLE_ENTRIES_MAX)
            while at < stop and (entry := self.entry(begin + at)) is not None and not is_valid(entry):
                at += 1
            if at == stop or entry is None or entry.physical_offset > physical_offset:
                high = middle
            elif entry.physical_offset == physical_offset:
                # If a crash lost the page with the first 8 bytes of an entry, it seems to point to log offset 0.
                before = None if physical_offset else self.entry(begin + at - 1)
                return begin + at if before is None or is_blank(before) else None
            else:
                low = at + 1
        return None

    def ext_unit_at(self, tags_code: int) -> ExtUnit | None:
        return None if self.ext is None or not is_ext_address(tags_code) else self.ext.get(tags_code)

    def entries_from(self, queue_offset: int) -> memoryview:
        logic_offset = queue_offset * ENTRY_BYTES
        segment = self.queue.find(logic_offset)
        if segment is None:
            return memoryview(b"")
        return segment.file.view(logic_offset - segment.base_offset, segment.wrote.get())

    def correct_min_offset(self, log_min_offset: int) -> None:
        """Move the queue's start to the first entry with a record in the log, else to the queue's end.

        RocketMQ examines only the first segment. If that segment has only expired entries after a crash or failed
        removal, RocketMQ's queue begins with messages that no pull can return.
        """
        for segment in self.queue.segments:
            raw = segment.file.view(0, segment.wrote.get())
            at = _first_in_log(raw, log_min_offset)
            if at is not None:
                self.min_logic_offset = segment.base_offset + at
                if self.ext is not None:
                    self.ext.remove_before(decode_entry(raw, at).tags_code)
                return
            # The start may already be later, because `fill_blank` sets it before the first append.
            self.min_logic_offset = max(self.min_logic_offset, segment.base_offset + len(raw))

    def has_expired_segment(self, log_min_offset: int) -> bool:
        """Return whether the first segment has expired. The last segment never expires."""
        segments = self.queue.segments
        if len(segments) < 2:
            return False
        raw = segments[0].file.view(0, segments[0].size_bytes)
        for at in range(len(raw) - ENTRY_BYTES, -1, -ENTRY_BYTES):
            entry = decode_entry(raw, at)
            if is_valid(entry):  # the newest entries may be blank
                return entry.physical_offset < log_min_offset
        return True  # all entries are blank

    def remove_expired_segments(self, log_min_offset: int) -> int:
        """Remove the segments without a record in the log. Returns the number of removed segments.

        Syncs the next segment before each removal, because a crash that leaves no segment would lose the queue's
        counter. After an OSError the segment remains.
        """
        removed = 0
        try:
            while self.has_expired_segment(log_min_offset) and self.queue.first_is_removable:
                self.queue.make_second_durable()
                removed += self.queue.remove_first()
        finally:
            self.correct_min_offset(log_min_offset)
        return removed


def _has_address(raw: bytes) -> bool:
    return ADDRESS_TOP in raw[TAGS_CODE_AT::ENTRY_BYTES]


def _first_in_log(raw: memoryview, log_min_offset: int) -> int | None:
    """Return the position of the first valid entry at or after a log offset. Any entry may be blank."""
    low, high, found = 0, len(raw) // ENTRY_BYTES, None
    while low < high:
        middle = index = (low + high) // 2
        while index < high and not is_valid(decode_entry(raw, index * ENTRY_BYTES)):
            index += 1
        if index == high or decode_entry(raw, index * ENTRY_BYTES).physical_offset >= log_min_offset:
            found = found if index == high else index
            high = middle
        else:
            low = index + 1
    assert found is None or found * ENTRY_BYTES < len(raw), (found, len(raw))
    return None if found is None else found * ENTRY_BYTES
