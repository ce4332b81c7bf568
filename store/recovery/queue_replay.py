"""Queue replay: rewrites the entries of one queue that do not match the log."""

from bisect import bisect_right
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
"""Entries that are buffered, compared and written together."""

_NUMBER_MASK = (1 << 64) - 1  # queueOffset is signed; with the mask a flipped sign bit counts as one bit


class EarlierEntriesMissing(Exception):
    """A longer scan is needed, because the queue lacks entries of records before the scan."""


class RecordMisplaced(Exception):
    """The queueOffset of a record is larger than the number of records that fit into the log before it."""


class MisplacedCallback(NamedTuple):
    """A record whose queue entry is not at the record's queueOffset."""

    physical_offset: int
    place: int
    """Index of the record's entry. For a record without an entry, the index at which the next entry was expected."""
    queue_offset: int


class _DoubtfulRecord(NamedTuple):
    """A record with an unexpected queueOffset.

    The next records of the same queue decide where this entry is written.
    """

    queue_offset: int
    physical_offset: int
    size_bytes: int
    tags_code: int


class SkippedRanges:
    """Parts of the log that are unreadable because of damage. Records there are known only from queue entries."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """The range [start, end) must be after all earlier ranges."""
        starts, ends = self._starts, self._ends
        assert start < end, (start, end)
        assert not ends or ends[-1] <= start, (ends[-1], start)  # sorted, because `contain` bisects
        starts.append(start)
        ends.append(end)

    def contain(self, entry: QueueEntry | None) -> bool:
        if entry is None or not is_valid(entry):
            return False
        number = bisect_right(self._starts, entry.physical_offset) - 1
        return number >= 0 and entry.physical_offset < self._ends[number]


def can_record_be_first(record: ScannedRecord, queues: ConsumeQueueTable) -> bool:
    """Return whether so many records fit into the log before this one, or its queue has entries up to there.

    A queue can have more entries than records in the log, because it may begin with blank entries.
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
    """Return the index of the entry that matches the first scanned record of a queue, else the record's queueOffset.

    A matching entry is better evidence than queueOffset, which no checksum protects.
    """
    queue = queues.find(record.topic, record.queue_id)
    if queue is None or _has_offset_and_size_of(queue.entry(record.queue_offset), record):
        return record.queue_offset
    found = queue.index_of(record.physical_offset)
    return found if found is not None and _has_offset_and_size_of(queue.entry(found), record) else record.queue_offset


class QueueReplay:
    """Overwrites the entries of one queue with those of its records, in log order.

    No checksum protects queueOffset, so a record with an unexpected queueOffset is *doubted* until the next record of
    its queue is scanned. If the next queueOffset follows the doubted one, the queue has a gap, as RocketMQ 4.9.8 can
    leave one. If the next queueOffset is the one expected without a gap, the doubted queueOffset is wrong, unless an
    old entry there matches the record. Without such a match, an old entry that matches the record decides. If there is
    no such entry, three rules apply. A record may be alone between two gaps. A queueOffset is wrong if it differs in
    one bit from the expected queueOffset. As many records as are missing in a gap must fit into the log before the
    record. The last record of a queue may come after any gap of up to GAP_ENTRIES_MAX.

    A wrong queueOffset after a gap can by chance equal the expected one. A gap, or no further record, then follows in
    the queue. Only after a gap or at the end is an old entry searched that matches the record elsewhere.
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
    ) -> None:
        """`first` is the first record of the queue in a scan that begins at log offset scanned_from.

        Raises EarlierEntriesMissing if the entries before `first` are missing or wrong, unless the scan covers the
        whole log. Raises RecordMisplaced if the queueOffset of `first` is impossible. Both errors leave the queue
        unchanged.
        """
        self.queue = queue
        self.changed = 0
        self.write_again = write_again
        """Whether to write unchanged entries too, because they may not be on the disk."""
        self.misplaced: list[MisplacedCallback] = []
        self.lacks_room: OSError | None = None
        """Error of a full disk, after which no entry is written."""
        self._doubted: _DoubtfulRecord | None = None
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
        """Start to write unchanged entries too: the entries from here on may not be durable.

        The entry of the last record stays buffered, because the next record can still change the index of this entry.
        """
        held = bytes(self._pending[-ENTRY_BYTES:])
        if held:
            del self._pending[-ENTRY_BYTES:]
            self.next -= 1
        self._write_buffered()
        self.write_again = True
        if held:
            self._pending += held
            self.next += 1

    def _is_continued_by(self, first: ScannedRecord) -> bool:
        begin, _ = self._file_bounds()
        if first.queue_offset <= begin:
            return first.queue_offset == begin
        before = self.queue.entry(first.queue_offset - 1)
        return before is not None and is_valid(before) and before.physical_offset < first.physical_offset

    def _blank_up_to_first(self, first: ScannedRecord) -> None:
        """Write blank entries before the entry of the first record.

        Entries that point into damage are kept.

        All other earlier entries belong to expired records. If no file of the queue contains the index of the first
        record, the queue restarts in a new file.
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
        count_mark("hole in a queue")
        for start in range(hole, queue_offset, _CHUNK_ENTRIES):
            self._overwrite_entries(start, BLANK_ENTRY_BYTES * min(_CHUNK_ENTRIES, queue_offset - start))

    def _file_bounds(self) -> tuple[int, int]:
        """Return the index of the first entry in the queue's files, and the index after the last entry."""
        segments = self.queue.queue.segments
        if not segments:
            return 0, 0
        return segments[0].base_offset // ENTRY_BYTES, segments[-1].end_offset // ENTRY_BYTES

    def _last_entry_in_damage(self, end: int) -> tuple[int, int] | None:
        """Return index and log offset of the last entry before `end` that points into skipped damage."""
        begin, _ = self._file_bounds()
        for index in range(end - 1, begin - 1, -1):
            entry = self.queue.entry(index)
            if entry is not None and self._skipped.contain(entry):
                return index, entry.physical_offset
        return None

    def _is_index_taken(self, first: ScannedRecord) -> bool:
        """Return whether a record before the scan already has the first record's queueOffset."""
        entry = self.queue.entry(first.queue_offset)
        if entry is None or not is_valid(entry):
            return False
        return _is_unscanned(entry, self._scanned_from, self._skipped)

    def _blank_before_first(self, queue_offset: int, *, whole_log: bool) -> None:
        """Blank earlier entries that point into the scanned part of the log, where the queue has no record."""
        segments = self.queue.queue.segments
        begin = segments[0].base_offset // ENTRY_BYTES if segments else queue_offset
        for index in range(queue_offset - 1, begin - 1, -1):
            entry = self.queue.entry(index)
            if entry is None or (entry.physical_offset < self._scanned_from and not is_blank(entry)):
                return
            if not is_blank(entry) and not self._skipped.contain(entry):
                if not whole_log:
                    raise EarlierEntriesMissing
                count_mark("hole in a queue")
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
        """The records have consecutive queueOffsets. `entries` are encoded."""
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
        """Decide the index of a doubted record. `following` is the queueOffset of the next record."""
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
        """Move the last record to a later index after a gap, if an old entry there matches it."""
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
        """Return whether an entry between the last record's index and `place` matches one of the last two records.

        If so, there is no gap: the store added each record twice. An entry that matches neither record proves
        nothing: a crash during the write of a blank entry can leave half of it, which looks like a real entry.
        """
        pending = bytes(self._pending[-2 * ENTRY_BYTES : -ENTRY_BYTES])
        before = decode_entry(pending, 0) if pending else self.queue.entry(self.next - 2)
        known = [last] if before is None or not is_valid(before) else [last, before]
        in_front = map(self.queue.entry, range(self.next - 1, place))
        return any(_has_offset_and_size_of(each, one) for each in in_front for one in known)

    def _has_data_after_last(self) -> bool:
        segment_queue, begin = self.queue.queue, self.next * ENTRY_BYTES
        segment = segment_queue.find(begin)
        if segment is None or segment is not segment_queue.last_segment():
            return segment is not None
        position = begin - segment.base_offset
        end = min(segment.size_bytes, position + GAP_ENTRIES_MAX * ENTRY_BYTES)
        return first_nonzero(segment.file.view(position, end)) is not None

    def _index_of_doubted(self, doubted: _DoubtfulRecord, following: int | None) -> int | None:
        """Return None if the index is already used, too far away or unknown."""
        recorded = doubted.queue_offset
        if recorded == self.next:
            return recorded  # no longer unexpected, because the previous record has been moved
        is_ahead = recorded > self.next
        if following is not None and _has_offset_and_size_of(self.queue.entry(self.next), doubted):
            return self.next  # the entry decides, because a following gap can make a wrong queueOffset look right
        if is_ahead and following == recorded + 1 and recorded - self.next <= GAP_ENTRIES_MAX:
            return recorded
        if is_ahead and _has_offset_and_size_of(self.queue.entry(recorded), doubted):
            return recorded  # the next record's queueOffset is wrong: it does not count the gap before this record
        if following == self.next + 1:
            return self.next
        for place in (recorded, self.next, self.queue.index_of(doubted.physical_offset)):
            if place is not None and place >= self.next and _has_offset_and_size_of(self.queue.entry(place), doubted):
                return place
        if following is None and 0 < recorded - self.next <= GAP_ENTRIES_MAX:
            return recorded  # last record of the queue: new records continue after it, whether there is a gap or not
        if is_ahead and following is not None and recorded < following <= self.next + GAP_ENTRIES_MAX:
            return recorded  # alone between two gaps, which two restarts can leave
        if following != self.next and ((recorded ^ self.next) & _NUMBER_MASK).bit_count() == 1:
            return self.next
        is_passed_by = following is not None and self.next <= following <= recorded
        return recorded if is_ahead and not is_passed_by and self._has_room_for_missing(doubted) else None

    def _has_room_for_missing(self, doubted: _DoubtfulRecord) -> bool:
        """Return whether all missing records of the queue fit into the log before this record."""
        last, missing = self.queue.entry(self.next - 1), doubted.queue_offset - self.next
        return last is None or missing <= records_max_in(doubted.physical_offset - last.physical_offset)

    def tags_code_to_keep(self, record: ScannedRecord, tags_code: int) -> int:
        """Return the record's tagsCode, or the unit address in the existing entry."""
        entry, stored_ms = QueueEntry(*record[:2], tags_code), record.store_timestamp_ms
        return self.queue.tags_code_to_keep(record.queue_offset, entry, stored_ms, vouched=not self.write_again)

    def _skip_indexes_to(self, queue_offset: int) -> None:
        """Blank the entries up to queue_offset, but keep entries that point into damage."""
        self._write_buffered()
        begin = self.next
        assert begin <= queue_offset, (begin, queue_offset)  # the entries before it are already written
        for index in range(begin, queue_offset):
            if not self._skipped.contain(self.queue.entry(index)):
                count_mark("hole in a queue")
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
            self.changed += self.queue.overwrite_entries(queue_offset, raw, write_again=self.write_again)
        except OSError as error:
            if not is_disk_full(error):
                raise
            count_mark("load without a file")
            self.lacks_room = error

    def finish_replay(self, *, syncs_zeros: bool) -> None:
        """Write the buffered entries, and remove all entries after the last record.

        If the disk is full, the queue ends at the last entry that fitted into its files. syncs_zeros: see
        `Segment.zero_from`.
        """
        if self._doubted is not None:
            self._settle_doubted(self._doubted, None)
        if self._has_data_after_last():
            self._move_last_record()
        self._write_buffered()
        end = self.next if self.lacks_room is None else self._end_in_files()
        while self._skipped.contain(self.queue.entry(end)):  # keep the entries of records in damaged parts of the log
            end += 1
        if self.changed:
            count_mark("queue rewritten")
        if self.queue.truncate(end, syncs_zeros=syncs_zeros):
            count_mark("queue cut")
            self.changed += 1
        self.queue.set_recovered_end(end, self.first)

    def _end_in_files(self) -> int:
        """Return the index after the last valid entry. Blank entries after this index are written again later."""
        begin, end = self._file_bounds()
        end = min(end, self.next)
        while end > begin and not ((entry := self.queue.entry(end - 1)) is not None and is_valid(entry)):
            end -= 1
        return end


def truncate_to_trusted_entries(
    queue: ConsumeQueue, log_offset: int, skipped: SkippedRanges, *, syncs_zeros: bool
) -> bool:
    """Recover a queue without a record in the scan, which began at log_offset. Returns whether entries were removed.

    Entries before the first entry that points into the scanned log are kept. All-zero entries among the kept entries
    are a gap. Blank entries are kept too, but not if the scan covers the whole log. syncs_zeros: see
    `Segment.zero_from`.
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
    queue.set_recovered_end(end, end)
    return changed


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
