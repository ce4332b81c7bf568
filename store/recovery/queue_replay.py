"""Queue replay: rewrites the entries of one queue that do not match the log."""

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from ..errors import is_disk_full
from ..formats.consume_queue import (
    BLANK_ENTRY_BYTES,
    ENTRY_BYTES,
    QueueEntry,
    decode_entry,
    encode_entry,
    is_blank,
    is_valid,
)
from ..formats.message import records_max_in
from ..formats.scan import ScannedRecord
from ..log.segment import first_nonzero
from ..marks import count_mark
from ..queues.consume_queue import GAP_ENTRIES_MAX, ConsumeQueue
from ..queues.consume_queue_table import ConsumeQueueTable

_CHUNK_ENTRIES = 4096
"""Number of entries that are compared and written together."""

_NUMBER_MASK = (1 << 64) - 1  # makes a flipped sign bit of a queueOffset count as one bit


class EarlierEntriesMissing(Exception):
    """The scan must start earlier, because the queue lacks entries of earlier records."""


class RecordMisplaced(Exception):
    """The queueOffset of a record is impossibly large for the record's log offset."""


class MisplacedCallback(NamedTuple):
    """A record with a queue entry that is not at the record's queueOffset."""

    physical_offset: int
    place: int
    """Index of the record's entry, or the next free index if the record has no entry."""
    queue_offset: int


class _DoubtfulRecord(NamedTuple):
    """A record with an unexpected queueOffset. The queue's next record determines the index of its entry."""

    queue_offset: int
    physical_offset: int
    size_bytes: int
    tags_code: int


class SkippedRanges:
    """Damaged parts of the log. Only queue entries show which records they contained."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Add the log offsets [start, end), which must be after all earlier ranges."""
        starts, ends = self._starts, self._ends
        assert start < end, (start, end)
        assert not ends or ends[-1] <= start, (ends[-1], start)  # `contain` needs a sorted list
        starts.append(start)
        ends.append(end)

    def contain(self, entry: QueueEntry | None) -> bool:
        if entry is None or not is_valid(entry):
            return False
        number = bisect_right(self._starts, entry.physical_offset) - 1
        return number >= 0 and entry.physical_offset < self._ends[number]


def can_record_be_first(record: ScannedRecord, queues: ConsumeQueueTable) -> bool:
    """Return whether the queueOffset of a queue's first scanned record is possible.

    The log before the record must have room for that many records. Because blank entries have no record, a queue entry
    at this index or just before it is enough, too.
    """
    queue_offset = record.queue_offset
    if 0 <= queue_offset <= 1 + records_max_in(record.physical_offset):
        return True
    queue = queues.find(record.topic, record.queue_id)
    if queue is None or queue_offset < 0:
        return False
    before = queue.entry(queue_offset - 1)
    reaches_it = before is not None and _is_valid_or_blank(before) and before.physical_offset < record.physical_offset
    return reaches_it or _has_offset_and_size_of(queue.entry(queue_offset), record)


def index_of_first_record(record: ScannedRecord, queues: ConsumeQueueTable) -> int:
    """Return the index of a matching entry of a queue's first scanned record, else the record's queueOffset.

    No checksum protects queueOffset, so a matching entry is better evidence.
    """
    queue = queues.find(record.topic, record.queue_id)
    if queue is None or _has_offset_and_size_of(queue.entry(record.queue_offset), record):
        return record.queue_offset
    found = queue.index_of(record.physical_offset)
    return found if found is not None and _has_offset_and_size_of(queue.entry(found), record) else record.queue_offset


class QueueReplay:
    """Overwrites the entries of one queue with those of its records, in log order.

    No checksum protects queueOffset. So a record with an unexpected queueOffset is *doubted* until the scan reaches the
    queue's next record. If the next queueOffset follows the doubted one, the queue has a gap, which RocketMQ 4.9.8 can
    cause. If the next queueOffset continues the queue without a gap, the doubted queueOffset is wrong, unless the
    existing entry at this index matches the record. In other cases a matching entry decides, or else these rules:

    - A record may be alone between two gaps.
    - A queueOffset that differs from the expected one in one bit is wrong.
    - The missing records of a gap must fit into the log before the record.
    - The last record of a queue may follow any gap of up to GAP_ENTRIES_MAX.

    A wrong queueOffset after a gap can by chance equal the expected one. A second gap or the end of the queue then
    follows, so only in these two cases the replay searches for another matching entry.
    """

    def __init__(
        self,
        queue: ConsumeQueue,
        first: ScannedRecord,
        *,
        whole_log: bool,
        write_again: bool,
        skipped: SkippedRanges,
        scanned_from: int,
        before_change: Callable[[], None],
    ) -> None:
        """Start with `first`, the queue's first record in a scan from log offset scanned_from.

        before_change: called before entries with addresses change, which the checkpoint may cover.
        Raises EarlierEntriesMissing if earlier entries are missing or wrong, unless the scan covers the whole log.
        Raises RecordMisplaced if the queueOffset is impossible. Both errors leave the queue unchanged.
        """
        self.queue = queue
        self.changed = 0
        self.write_again = write_again
        """Whether to write unchanged entries too, because they may not be durable."""
        self.misplaced: list[MisplacedCallback] = []
        self.lacks_room: OSError | None = None
        """Error of a full disk. Later entries are not written."""
        self._doubted: _DoubtfulRecord | None = None
        self._before_change = before_change
        self._skipped = skipped
        self._pending = bytearray()
        self._pending_at = first.queue_offset
        self._scanned_from = scanned_from
        is_continued = self._is_continued_by(first)
        if not whole_log and (not is_continued or self._is_index_taken(first)):
            raise EarlierEntriesMissing
        if not is_continued:
            self._blank_up_to_first(first)
        self._blank_before_first(first.queue_offset, whole_log=whole_log)
        self.first = first.queue_offset
        self.next = first.queue_offset

    def begin_rewriting(self) -> None:
        """Write unchanged entries too from now on, because these may not be durable.

        The last record's entry stays buffered, because its index can still change.
        """
        last = bytes(self._pending[-ENTRY_BYTES:])
        if last:
            del self._pending[-ENTRY_BYTES:]
            self.next -= 1
        self._write_buffered()
        self.write_again = True
        if last:
            self._pending += last
            self.next += 1

    def _is_continued_by(self, first: ScannedRecord) -> bool:
        begin, _ = self._file_bounds()
        if first.queue_offset <= begin:
            return first.queue_offset == begin
        before = self.queue.entry(first.queue_offset - 1)
        return before is not None and is_valid(before) and before.physical_offset < first.physical_offset

    def _blank_up_to_first(self, first: ScannedRecord) -> None:
        """Write blank entries before the entry of the first record, but keep entries that point into damage.

        All other entries before the first record's index belong to expired records. If no file contains this index, the
        queue restarts in a new file.
        """
        queue_offset, segment_queue = first.queue_offset, self.queue.queue
        begin, end = self._file_bounds()
        last = self._last_entry_in_damage(min(queue_offset, end))
        if (
            last is not None
            and queue_offset - last[0] > records_max_in(first.physical_offset - last[1])
            and not _has_offset_and_size_of(self.queue.entry(queue_offset), first)
        ):
            raise RecordMisplaced
        if last is None and not begin <= queue_offset < end:
            segment_queue.remove_all()
            hole = queue_offset - queue_offset % (segment_queue.segment_bytes // ENTRY_BYTES)
        else:
            hole = min(queue_offset, end)
            while hole > begin and not _is_valid_or_blank(self.queue.entry(hole - 1)):
                hole -= 1
        count_mark("hole in queue filled")
        for start in range(hole, queue_offset, _CHUNK_ENTRIES):
            self._overwrite_entries(start, BLANK_ENTRY_BYTES * min(_CHUNK_ENTRIES, queue_offset - start))

    def _file_bounds(self) -> tuple[int, int]:
        """Return the indexes of the first entry in the queue's files and after the last entry."""
        segments = self.queue.queue.segments
        if not segments:
            return 0, 0
        return segments[0].base_offset // ENTRY_BYTES, segments[-1].end_offset // ENTRY_BYTES

    def _last_entry_in_damage(self, end: int) -> tuple[int, int] | None:
        """Return index and log offset of the last entry before index `end` that points into damage."""
        begin, _ = self._file_bounds()
        for index in range(end - 1, begin - 1, -1):
            entry = self.queue.entry(index)
            if entry is not None and self._skipped.contain(entry):
                return index, entry.physical_offset
        return None

    def _is_index_taken(self, first: ScannedRecord) -> bool:
        """Return whether the entry at the first record's queueOffset belongs to a record before the scan."""
        entry = self.queue.entry(first.queue_offset)
        if entry is None or not is_valid(entry):
            return False
        return _is_unscanned(entry, self._scanned_from, self._skipped)

    def _blank_before_first(self, queue_offset: int, *, whole_log: bool) -> None:
        """Blank earlier entries that point into the scanned log, because the scan found no record there."""
        segments = self.queue.queue.segments
        begin = segments[0].base_offset // ENTRY_BYTES if segments else queue_offset
        for index in range(queue_offset - 1, begin - 1, -1):
            entry = self.queue.entry(index)
            if entry is None or (entry.physical_offset < self._scanned_from and not is_blank(entry)):
                return
            if not is_blank(entry) and not self._skipped.contain(entry):
                if not whole_log:
                    raise EarlierEntriesMissing
                count_mark("hole in queue filled")
                self._overwrite_entries(index, BLANK_ENTRY_BYTES)

    def add(self, queue_offset: int, physical_offset: int, size_bytes: int, tags_code: int) -> None:
        if queue_offset != self.next or self._doubted is not None:
            doubted, self._doubted = self._doubted, None
            if doubted is not None:
                self._settle_doubted(doubted, queue_offset)
            if queue_offset != self.next:
                self._doubted = _DoubtfulRecord(queue_offset, physical_offset, size_bytes, tags_code)
                return
        if not queue_offset % _CHUNK_ENTRIES:
            self._write_buffered()
        self._pending += encode_entry(physical_offset, size_bytes, tags_code)
        self.next = queue_offset + 1

    def add_run(self, queue_offset: int, entries: bytes) -> None:
        """Add the encoded entries of records that have consecutive queueOffsets from queue_offset on."""
        at = 0
        while at < len(entries) and (queue_offset != self.next or self._doubted is not None):
            self.add(queue_offset, *decode_entry(entries, at))
            queue_offset += 1
            at += ENTRY_BYTES
        if at < len(entries):
            if len(self._pending) >= _CHUNK_ENTRIES * ENTRY_BYTES:
                self._write_buffered()
            self._pending += entries[at:]
            self.next += (len(entries) - at) // ENTRY_BYTES

    def _settle_doubted(self, doubted: _DoubtfulRecord, following: int | None) -> None:
        """Decide the index of a doubted record. `following` is the next record's queueOffset, or None at the end."""
        self._move_last_record()
        self._write_buffered()
        place = self._index_of_doubted(doubted, following)
        if place != doubted.queue_offset:
            expected = self.next if place is None else place
            self.misplaced.append(MisplacedCallback(doubted.physical_offset, expected, doubted.queue_offset))
        if place is not None:
            self._skip_indexes_to(place)
            self._pending += encode_entry(doubted.physical_offset, doubted.size_bytes, doubted.tags_code)
            self.next = place + 1

    def _move_last_record(self) -> None:
        """If an existing entry at a later index matches the last record, move the record to this index."""
        if not self._pending:
            return
        entry = decode_entry(bytes(self._pending[-ENTRY_BYTES:]), 0)
        place = self.queue.index_of(entry.physical_offset)
        if place is None or not self.next <= place < self.next + GAP_ENTRIES_MAX:
            return
        if not _has_offset_and_size_of(self.queue.entry(place), entry) or self._is_indexed_twice(entry, place):
            return
        self.next -= 1
        self.misplaced.append(MisplacedCallback(entry.physical_offset, place, self.next))
        del self._pending[-ENTRY_BYTES:]
        self._skip_indexes_to(place)
        self._pending += encode_entry(*entry)
        self.next = place + 1

    def _is_indexed_twice(self, last: QueueEntry, place: int) -> bool:
        """Return whether an entry between the last record and `place` matches one of the last two records.

        After a match the queue has no gap: the store added each record twice. An entry without a match is no evidence,
        because a crash can leave half of a blank entry, which looks like a real one.
        """
        pending = bytes(self._pending[-2 * ENTRY_BYTES : -ENTRY_BYTES])
        before = decode_entry(pending, 0) if pending else self.queue.entry(self.next - 2)
        known = [last] if before is None or not is_valid(before) else [last, before]
        between = map(self.queue.entry, range(self.next - 1, place))
        return any(_has_offset_and_size_of(each, one) for each in between for one in known)

    def _has_data_after_last(self) -> bool:
        segment_queue, begin = self.queue.queue, self.next * ENTRY_BYTES
        segment = segment_queue.find(begin)
        if segment is None or segment is not segment_queue.last_segment():
            return segment is not None
        position = begin - segment.base_offset
        end = min(segment.size_bytes, position + GAP_ENTRIES_MAX * ENTRY_BYTES)
        return first_nonzero(segment.file.view(position, end)) is not None

    def _index_of_doubted(self, doubted: _DoubtfulRecord, following: int | None) -> int | None:
        """Return the index of a doubted record, or None if it is used, too far away or unknown."""
        recorded = doubted.queue_offset
        if recorded == self.next:
            return recorded  # correct since `_move_last_record` moved the previous record
        is_ahead = recorded > self.next
        if following is not None and _has_offset_and_size_of(self.queue.entry(self.next), doubted):
            return self.next  # tested first, because a later gap can make a wrong queueOffset look right
        if is_ahead and following == recorded + 1 and recorded - self.next <= GAP_ENTRIES_MAX:
            return recorded
        if is_ahead and _has_offset_and_size_of(self.queue.entry(recorded), doubted):
            return recorded  # a next queueOffset that ignores the gap is wrong
        if following == self.next + 1:
            return self.next
        for place in (recorded, self.next, self.queue.index_of(doubted.physical_offset)):
            if place is not None and place >= self.next and _has_offset_and_size_of(self.queue.entry(place), doubted):
                return place
        if following is None and 0 < recorded - self.next <= GAP_ENTRIES_MAX:
            return recorded  # the queue's last record may follow a gap
        if is_ahead and following is not None and recorded < following <= self.next + GAP_ENTRIES_MAX:
            return recorded  # two restarts can leave a record alone between two gaps
        if following != self.next and ((recorded ^ self.next) & _NUMBER_MASK).bit_count() == 1:
            return self.next
        is_passed_by = following is not None and self.next <= following <= recorded
        return recorded if is_ahead and not is_passed_by and self._has_room_for_missing(doubted) else None

    def _has_room_for_missing(self, doubted: _DoubtfulRecord) -> bool:
        """Return whether the queue's missing records fit into the log before the doubted record."""
        last, missing = self.queue.entry(self.next - 1), doubted.queue_offset - self.next
        return last is None or missing <= records_max_in(doubted.physical_offset - last.physical_offset)

    def tags_code_to_keep(self, record: ScannedRecord, tags_code: int) -> int:
        """Return the address in the existing entry if it refers to the record's extension unit, else tags_code."""
        entry, stored_ms = QueueEntry(*record[:2], tags_code), record.store_timestamp_ms
        return self.queue.tags_code_to_keep(record.queue_offset, entry, stored_ms, is_durable=not self.write_again)

    def _skip_indexes_to(self, queue_offset: int) -> None:
        """Blank all entries before queue_offset, except those that point into damage."""
        self._write_buffered()
        begin = self.next
        assert begin <= queue_offset, (begin, queue_offset)  # earlier entries are already written
        for index in range(begin, queue_offset):
            if not self._skipped.contain(self.queue.entry(index)):
                count_mark("hole in queue filled")
                self._overwrite_entries(index, BLANK_ENTRY_BYTES)
        self.next = self._pending_at = queue_offset

    def _write_buffered(self) -> None:
        at, pending = self._pending_at, self._pending
        self._overwrite_entries(at, pending)
        following = self.next
        assert (following - at) * ENTRY_BYTES == len(pending), (following, at, len(pending))
        self._pending_at = following
        self._pending = bytearray()

    def _overwrite_entries(self, queue_offset: int, raw: bytes | bytearray) -> None:
        if self.lacks_room is not None:
            return
        try:
            self.changed += self.queue.overwrite_entries(
                queue_offset, raw, write_again=self.write_again, before_change=self._before_change
            )
        except OSError as error:
            if not is_disk_full(error):
                raise
            count_mark("file creation postponed")
            self.lacks_room = error

    def finish_replay(self, *, log_begin: int, syncs_zeros: bool) -> None:
        """Write the buffered entries, and remove all entries after the last record.

        If the disk is full, the queue ends at its last written entry. `Segment.zero_from` explains
        syncs_zeros, `ConsumeQueue.replace_addresses` log_begin.
        """
        if self._doubted is not None:
            self._settle_doubted(self._doubted, None)
        if self._has_data_after_last():
            self._move_last_record()
        self._write_buffered()
        end = self.next if self.lacks_room is None else self._end_in_files()
        while self._skipped.contain(self.queue.entry(end)):  # keep entries that point into damage
            end += 1
        if self.changed:
            count_mark("queue entries rewritten")
        if self.queue.truncate(end, syncs_zeros=syncs_zeros):
            count_mark("queue truncated")
            self.changed += 1
        replaced = self.queue.replace_addresses(end, log_begin, self._before_change)
        self.changed += len(replaced)
        self.queue.set_recovered_end(end, min([self.first, *replaced]))

    def _end_in_files(self) -> int:
        """Return the index after the last valid entry. Dispatch writes later blank entries again."""
        begin, end = self._file_bounds()
        end = min(end, self.next)
        while end > begin and not ((entry := self.queue.entry(end - 1)) is not None and is_valid(entry)):
            end -= 1
        return end


def truncate_to_trusted_entries(
    queue: ConsumeQueue,
    log_offset: int,
    skipped: SkippedRanges,
    *,
    log_begin: int,
    before_change: Callable[[], None],
    syncs_zeros: bool,
) -> bool:
    """Recover a queue that has no record in the scan from log_offset on. Returns whether entries changed.

    Removes the first entry that points into the scanned log, and all later entries. Blank entries at the end are kept
    unless the scan covers the whole log. log_begin, before_change: see `ConsumeQueue.replace_addresses`.
    `Segment.zero_from` explains syncs_zeros.
    """
    end = 0
    for segment in reversed(queue.queue.segments):
        first = end = segment.base_offset // ENTRY_BYTES
        used_bytes = len(bytes(segment.file.view(0, segment.size_bytes)).rstrip(b"\0"))
        for index in range(first, first + -(-used_bytes // ENTRY_BYTES)):
            entry = queue.entry(index)
            if _is_unscanned(entry, log_offset, skipped):
                end = index + 1
            elif entry is not None and is_valid(entry):
                break
        if end > first:
            break
    changed = queue.truncate(end, syncs_zeros=syncs_zeros)
    replaced = queue.replace_addresses(end, log_begin, before_change)
    queue.set_recovered_end(end, min([end, *replaced]))
    return changed or bool(replaced)


def _is_unscanned(entry: QueueEntry | None, log_offset: int, skipped: SkippedRanges) -> bool:
    if entry is None or not _is_valid_or_blank(entry):
        return False
    if is_blank(entry):
        return log_offset > 0
    return entry.physical_offset < log_offset or skipped.contain(entry)


def _has_offset_and_size_of(entry: QueueEntry | None, record: ScannedRecord | QueueEntry | _DoubtfulRecord) -> bool:
    return entry is not None and entry[:2] == (record.physical_offset, record.size_bytes)


def _is_valid_or_blank(entry: QueueEntry | None) -> bool:
    return entry is not None and (is_valid(entry) or is_blank(entry))
