"""Queue replay: rewrites one queue to match the log, where it differs."""

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
from ..formats.message import records_in
from ..formats.scan import ScannedRecord
from ..log.segment import first_nonzero
from ..marks import hit
from ..queues.consume_queue import GAP_ENTRIES_MAX, ConsumeQueue
from ..queues.consume_queue_table import ConsumeQueueTable

_CHUNK_ENTRIES = 4096
"""Entries of one queue that are buffered, compared and written together."""

_NUMBER_MASK = (1 << 64) - 1  # queueOffset is signed, and a flipped sign bit is one bit too


class EarlierEntriesMissing(Exception):
    """The queue lacks entries of records before the scan. A longer scan is needed."""


class RecordMisplaced(Exception):
    """A record's queueOffset is larger than the log before it allows."""


class Misplaced(NamedTuple):
    """A record with a queueOffset that is not its place in the queue."""

    physical_offset: int
    place: int
    """Index of its entry. Without an entry, the index at which the next record was due."""
    queue_offset: int


class _Doubted(NamedTuple):
    """A record with an unexpected queueOffset. The following records decide its place."""

    queue_offset: int
    physical_offset: int
    size_bytes: int
    tags_code: int


class SkippedRanges:
    """Parts of the log that are unreadable because of damage. Entries that point into them are the last trace of their
    records.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Add the range [start, end), after all others."""
        starts, ends = self._starts, self._ends
        assert start < end, (start, end)
        assert not ends or ends[-1] <= start, (ends[-1], start)  # sorted, because `hold` bisects
        starts.append(start)
        ends.append(end)

    def hold(self, entry: QueueEntry | None) -> bool:
        if entry is None or not is_valid(entry):
            return False
        number = bisect_right(self._starts, entry.physical_offset) - 1
        return number >= 0 and entry.physical_offset < self._ends[number]


def can_be_first(record: ScannedRecord, queues: ConsumeQueueTable) -> bool:
    """Return whether a record's queueOffset is possible: the log before it has room for so many, or its queue reaches
    there.

    A queue that was created in the middle begins with blank entries that never had records.
    """
    queue_offset = record.queue_offset
    if 0 <= queue_offset <= 1 + records_in(record.physical_offset):
        return True
    queue = queues.find(record.topic, record.queue_id)
    if queue is None or queue_offset < 0:
        return False
    before = queue.entry(queue_offset - 1)
    reaches_it = before is not None and _is_there(before) and before.physical_offset < record.physical_offset
    return reaches_it or _matches(queue.entry(queue_offset), record)


def witnessed_first(record: ScannedRecord, queues: ConsumeQueueTable) -> int:
    """Return the place of a queue's first record in a scan: the index of an entry that matches it, else its
    queueOffset.

    No checksum covers queueOffset, but an entry with the record's position and size cannot be a coincidence.
    """
    queue = queues.find(record.topic, record.queue_id)
    if queue is None or _matches(queue.entry(record.queue_offset), record):
        return record.queue_offset
    found = queue.index_of(record.physical_offset)
    return found if found is not None and _matches(queue.entry(found), record) else record.queue_offset


class QueueReplay:
    """Writes the records of one queue, in log order, over the queue's entries.

    queueOffset has no checksum, so a record with an unexpected queueOffset is *doubted* until the next record of its
    queue arrives. If that one continues from the doubted number, there is a gap, as 4.9.8 leaves one. If it continues
    as if there were no gap, only the doubted number is wrong, unless an old entry has the record at that number. If the
    next record does not decide, an old entry that matches the record decides. Without such an entry, these rules apply:
    a record may stand alone between two gaps; a number that differs in one bit from the expected one is wrong; a gap
    must fit into the log before it. The last record of a queue may follow any gap.

    A wrong number can also equal the next one by chance, when a gap precedes its record. Then a gap follows, or no
    record. Only in these two cases is an old entry searched that contradicts the number.
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
        """Start at the first record of a scan that begins at log offset scanned_from.

        Raises EarlierEntriesMissing if the entries before it are missing or wrong, unless the scan covers the whole
        log. Raises RecordMisplaced if it cannot be the first. Neither changes the queue.
        """
        self.queue = queue
        self.changed = 0
        self.write_again = write_again
        """Whether unchanged entries are written too, because the disk may not have them."""
        self.misplaced: list[Misplaced] = []
        """Records without an entry at their queueOffset."""
        self.lacks_room: OSError | None = None
        """Disk-full error after which no entry was written."""
        self._doubted: _Doubted | None = None
        self._skipped = skipped
        self._pending = bytearray()
        self._pending_at = first.queue_offset
        self._scanned_from = scanned_from
        is_continued = self._is_continued_by(first)
        if not whole_log and (not is_continued or self._is_taken(first)):
            raise EarlierEntriesMissing
        if not is_continued:
            self._bridge_to_first(first)
        self._blank_before_first(first.queue_offset, whole_log=whole_log)
        self.first = first.queue_offset
        self.next = first.queue_offset

    def vouching_ends(self) -> None:
        """From here on also write unchanged entries, because they may not be durable.

        The last record is kept back and written with those: the next one may show that its number is wrong.
        """
        held = bytes(self._pending[-ENTRY_BYTES:])
        if held:
            del self._pending[-ENTRY_BYTES:]
            self.next -= 1
        self._write()
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

    def _bridge_to_first(self, first: ScannedRecord) -> None:
        """Fill the hole before the first record with blanks, except for entries that point into damage.

        Other earlier entries belong to expired records. If the files end before the record's place, the queue restarts
        in the file that contains it.
        """
        queue_offset, row = first.queue_offset, self.queue.queue
        begin, end = self._file_bounds()
        last = self._last_in_damage(min(queue_offset, end))
        if (
            last is not None
            and queue_offset - last[0] > records_in(first.physical_offset - last[1])
            and not _matches(self.queue.entry(queue_offset), first)
        ):
            raise RecordMisplaced
        if last is None and not begin <= queue_offset < end:
            row.remove_all()
            hole = queue_offset - queue_offset % (row.segment_bytes // ENTRY_BYTES)
        else:
            hole = min(queue_offset, end)
            while hole > begin and not _is_there(self.queue.entry(hole - 1)):
                hole -= 1
        hit("hole in a queue")
        for start in range(hole, queue_offset, _CHUNK_ENTRIES):
            self._place(start, BLANK_ENTRY_BYTES * min(_CHUNK_ENTRIES, queue_offset - start))

    def _file_bounds(self) -> tuple[int, int]:
        """Return the first index of the queue's files and the index after the last."""
        segments = self.queue.queue.segments
        if not segments:
            return 0, 0
        return segments[0].base_offset // ENTRY_BYTES, segments[-1].end_offset // ENTRY_BYTES

    def _last_in_damage(self, end: int) -> tuple[int, int] | None:
        """Return index and log offset of the last entry below `end` that points into skipped damage."""
        begin, _ = self._file_bounds()
        for index in range(end - 1, begin - 1, -1):
            entry = self.queue.entry(index)
            if entry is not None and self._skipped.hold(entry):
                return index, entry.physical_offset
        return None

    def _is_taken(self, first: ScannedRecord) -> bool:
        """Return whether a record before the scan has its entry at the first record's place."""
        entry = self.queue.entry(first.queue_offset)
        if entry is None or not is_valid(entry):
            return False
        return _is_unscanned(entry, self._scanned_from, self._skipped)

    def _blank_before_first(self, queue_offset: int, *, whole_log: bool) -> None:
        """Blank earlier entries that point into the scanned log, because the scan found no such record of this
        queue.
        """
        segments = self.queue.queue.segments
        begin = segments[0].base_offset // ENTRY_BYTES if segments else queue_offset
        for index in range(queue_offset - 1, begin - 1, -1):
            entry = self.queue.entry(index)
            if entry is None or (entry.physical_offset < self._scanned_from and not is_blank(entry)):
                return
            if not is_blank(entry) and not self._skipped.hold(entry):
                if not whole_log:
                    raise EarlierEntriesMissing
                hit("hole in a queue")
                self._place(index, BLANK_ENTRY_BYTES)

    def add(self, queue_offset: int, physical_offset: int, size_bytes: int, tags_code: int) -> None:
        """Add the next record."""
        if queue_offset != self.next or self._doubted is not None:
            doubted, self._doubted = self._doubted, None
            if doubted is not None:
                self._settle(doubted, queue_offset)
            if queue_offset != self.next:
                self._doubted = _Doubted(queue_offset, physical_offset, size_bytes, tags_code)
                return
        if not queue_offset % _CHUNK_ENTRIES:
            self._write()
        self._pending += encode_entry(physical_offset, size_bytes, tags_code)
        self.next = queue_offset + 1

    def add_run(self, queue_offset: int, entries: bytes) -> None:
        """Add records with consecutive queueOffsets, by their entries."""
        at = 0
        while at < len(entries) and (queue_offset != self.next or self._doubted is not None):
            self.add(queue_offset, *decode_entry(entries, at))
            queue_offset += 1
            at += ENTRY_BYTES
        if at < len(entries):
            if len(self._pending) >= _CHUNK_ENTRIES * ENTRY_BYTES:
                self._write()
            self._pending += entries[at:]
            self.next += (len(entries) - at) // ENTRY_BYTES

    def _settle(self, doubted: _Doubted, following: int | None) -> None:
        """Decide the place of a doubted record. `following` is the next record's queueOffset, None if there is none."""
        self._move_last()
        self._write()
        place = self._place_of(doubted, following)
        if place != doubted.queue_offset:
            expected = self.next if place is None else place
            self.misplaced.append(Misplaced(doubted.physical_offset, expected, doubted.queue_offset))
        if place is not None:
            self._bridge(place)
            self._pending += encode_entry(doubted.physical_offset, doubted.size_bytes, doubted.tags_code)
            self.next = place + 1

    def _move_last(self) -> None:
        """Move the last record, if an old entry matches it after a gap although its number seemed right."""
        if not self._pending:
            return
        entry = decode_entry(bytes(self._pending[-ENTRY_BYTES:]), 0)
        place = self.queue.index_of(entry.physical_offset)
        if place is None or not self.next <= place < self.next + GAP_ENTRIES_MAX:
            return
        if not _matches(self.queue.entry(place), entry) or self._is_indexed_twice(entry, place):
            return
        self.next -= 1
        self.misplaced.append(Misplaced(entry.physical_offset, place, self.next))
        del self._pending[-ENTRY_BYTES:]
        self._bridge(place)
        self._pending += encode_entry(*entry)
        self.next = place + 1

    def _is_indexed_twice(self, last: QueueEntry, place: int) -> bool:
        """Return whether an entry between the last record's number and `place` matches one of the last two records.

        Then there is no gap: a store that indexed records twice has entries beyond their numbers. Entries that match
        neither prove nothing, because a crash during the writing of blanks can leave half a blank, which looks like an
        entry.
        """
        pending = bytes(self._pending[-2 * ENTRY_BYTES : -ENTRY_BYTES])
        before = decode_entry(pending, 0) if pending else self.queue.entry(self.next - 2)
        known = [last] if before is None or not is_valid(before) else [last, before]
        in_front = map(self.queue.entry, range(self.next - 1, place))
        return any(_matches(each, one) for each in in_front for one in known)

    def _has_data_after_last(self) -> bool:
        row, begin = self.queue.queue, self.next * ENTRY_BYTES
        segment = row.find(begin)
        if segment is None or segment is not row.last():
            return segment is not None
        position = begin - segment.base_offset
        end = min(segment.size_bytes, position + GAP_ENTRIES_MAX * ENTRY_BYTES)
        return first_nonzero(segment.file.view(position, end)) is not None

    def _place_of(self, doubted: _Doubted, following: int | None) -> int | None:
        """Return the place of a doubted record, or None if it is taken, too far away or unknown."""
        said = doubted.queue_offset
        if said == self.next:
            return said  # doubted because of the previous record's number, which has been moved since
        is_ahead = said > self.next
        if following is not None and _matches(self.queue.entry(self.next), doubted):
            return self.next  # even if the next number fits: a wrong number may precede a gap that seems to confirm it
        if is_ahead and following == said + 1 and said - self.next <= GAP_ENTRIES_MAX:
            return said
        if is_ahead and _matches(self.queue.entry(said), doubted):
            return said  # the next record's number is wrong: it ignores the gap before this record
        if following == self.next + 1:
            return self.next
        for place in (said, self.next, self.queue.index_of(doubted.physical_offset)):
            if place is not None and place >= self.next and _matches(self.queue.entry(place), doubted):
                return place
        if following is None and 0 < said - self.next <= GAP_ENTRIES_MAX:
            return said  # a gap or not: the next record continues after it
        if is_ahead and following is not None and said < following <= self.next + GAP_ENTRIES_MAX:
            return said  # alone between two gaps, as two restarts leave it; its place is free
        if following != self.next and ((said ^ self.next) & _NUMBER_MASK).bit_count() == 1:
            return self.next
        is_passed_by = following is not None and self.next <= following <= said
        return said if is_ahead and not is_passed_by and self._has_room(doubted) else None

    def _has_room(self, doubted: _Doubted) -> bool:
        """Return whether the log has room for as many records as are missing before this one."""
        last, missing = self.queue.entry(self.next - 1), doubted.queue_offset - self.next
        return last is None or missing <= records_in(doubted.physical_offset - last.physical_offset)

    def kept_code(self, record: ScannedRecord, tags_code: int) -> int:
        """Return the code for a record's entry: its tagsCode, or the address of its unit in the existing entry."""
        entry, stored_ms = QueueEntry(*record[:2], tags_code), record.store_timestamp_ms
        return self.queue.kept_code(record.queue_offset, entry, stored_ms, vouched=not self.write_again)

    def _bridge(self, queue_offset: int) -> None:
        """Skip the indexes of unreadable records. Entries that point into damage are kept, others are blanked."""
        self._write()
        begin = self.next
        assert begin <= queue_offset, (begin, queue_offset)  # lower places have their records
        for index in range(begin, queue_offset):
            if not self._skipped.hold(self.queue.entry(index)):
                hit("hole in a queue")
                self._place(index, BLANK_ENTRY_BYTES)
        self.next = self._pending_at = queue_offset

    def _write(self) -> None:
        at, pending = self._pending_at, self._pending
        self._place(at, pending)
        following = self.next
        assert (following - at) * ENTRY_BYTES == len(pending), (following, at, len(pending))
        self._pending_at = following
        self._pending = bytearray()

    def _place(self, queue_offset: int, raw: bytes | bytearray) -> None:
        if self.lacks_room is not None:
            return
        try:
            self.changed += self.queue.place(queue_offset, raw, write_again=self.write_again)
        except OSError as error:
            if not is_disk_full(error):
                raise
            hit("load without a file")
            self.lacks_room = error

    def end(self, *, syncs_zeros: bool) -> None:
        """Write the rest, and remove all entries after the last record. syncs_zeros: see `Segment.clear_from`.

        If the disk is full, the queue ends at the last entry that has a file.
        """
        if self._doubted is not None:
            self._settle(self._doubted, None)
        if self._has_data_after_last():
            self._move_last()
        self._write()
        end = self.next if self.lacks_room is None else self._end_in_files()
        while self._skipped.hold(self.queue.entry(end)):  # entries of records in damaged log
            end += 1
        if self.changed:
            hit("queue rewritten")
        if self.queue.truncate(end, syncs_zeros=syncs_zeros):
            hit("queue cut")
            self.changed += 1
        self.queue.recovered(end, self.first)

    def _end_in_files(self) -> int:
        """Return the index after the last real entry in the files. Blanks after it are written again later."""
        begin, end = self._file_bounds()
        end = min(end, self.next)
        while end > begin and not ((entry := self.queue.entry(end - 1)) is not None and is_valid(entry)):
            end -= 1
        return end


def keep_trusted_entries(queue: ConsumeQueue, log_offset: int, skipped: SkippedRanges, *, syncs_zeros: bool) -> bool:
    """Recover a queue that has no record in the scan, which began at log_offset. Returns whether entries were removed.

    Kept are the entries before the first one that points into the scanned log. Indexes without an entry among them are
    a gap. Blank entries stand for records before the scan, so if the scan covers the whole log, blanks do not count.
    syncs_zeros: see `Segment.clear_from`.
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
    queue.recovered(end, end)
    return changed


def _is_unscanned(entry: QueueEntry | None, log_offset: int, skipped: SkippedRanges) -> bool:
    if entry is None or not _is_there(entry):
        return False
    if is_blank(entry):
        return log_offset > 0
    return entry.physical_offset < log_offset or skipped.hold(entry)


def _matches(entry: QueueEntry | None, record: ScannedRecord | QueueEntry | _Doubted) -> bool:
    """Return whether an entry has a record's log position and size."""
    return entry is not None and entry[:2] == (record.physical_offset, record.size_bytes)


def _is_there(entry: QueueEntry | None) -> bool:
    return entry is not None and (is_valid(entry) or is_blank(entry))
