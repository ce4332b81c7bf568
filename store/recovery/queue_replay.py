"""Queue replay: brings one consume queue to exactly what the log says, writing only what differs."""

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
"""Entries of one queue that are held back, to be compared and written in one piece."""

_NUMBER_MASK = (1 << 64) - 1  # queueOffset is signed: a flipped sign bit is one bit, too


class EarlierEntriesMissing(Exception):
    """The queue lacks entries of records before the scan's start: a longer scan is needed."""


class RecordMisplaced(Exception):
    """A record's place in its queue is further away than the log before it has room for."""


class Misplaced(NamedTuple):
    """A record whose queueOffset is not its place in its queue."""

    physical_offset: int
    place: int
    """Where its entry is; of one that has none, where the next one had to be."""
    queue_offset: int


class _Doubted(NamedTuple):
    """A record that does not come next in its queue by what it says, until more is known of it."""

    queue_offset: int
    physical_offset: int
    size_bytes: int
    tags_code: int


class SkippedRanges:
    """Stretches of the log that a damaged record made unreadable; entries into them are all that is left of them."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Note one stretch, [start, end), behind those that are noted."""
        starts, ends = self._starts, self._ends
        assert start < end, (start, end)
        assert not ends or ends[-1] <= start, (ends[-1], start)  # in order: `hold` bisects
        starts.append(start)
        ends.append(end)

    def hold(self, entry: QueueEntry | None) -> bool:
        """Return whether an entry points into one of them."""
        if entry is None or not is_valid(entry):
            return False
        number = bisect_right(self._starts, entry.physical_offset) - 1
        return number >= 0 and entry.physical_offset < self._ends[number]


def can_be_first(record: ScannedRecord, queues: ConsumeQueueTable) -> bool:
    """Return whether a record's place can be its own: the log before it has room for as many, or its queue reaches it.

    A queue may begin with blank entries that never had records, as one has that was made in the middle.
    """
    queue_offset = record.queue_offset
    if 0 <= queue_offset <= 1 + records_in(record.physical_offset):
        return True
    queue = queues.find(record.topic, record.queue_id)
    if queue is None or queue_offset < 0:
        return False
    before = queue.entry(queue_offset - 1)
    reaches_it = before is not None and _is_there(before) and before.physical_offset < record.physical_offset
    return reaches_it or _leads_to(queue.entry(queue_offset), record)


def witnessed_first(record: ScannedRecord, queues: ConsumeQueueTable) -> int:
    """Return the place of a queue's first record in a scan: where an entry leads to it, else as it says itself.

    No checksum covers queueOffset, and an entry that has the record's place and size has not come about by chance.
    """
    queue = queues.find(record.topic, record.queue_id)
    if queue is None or _leads_to(queue.entry(record.queue_offset), record):
        return record.queue_offset
    found = queue.index_of(record.physical_offset)
    return found if found is not None and _leads_to(queue.entry(found), record) else record.queue_offset


class QueueReplay:
    """The records of one queue, in log order, laid over the queue's entries.

    A record that says another queueOffset than the one that comes next waits for the next record of its queue: who goes
    on from what it says vouches for a gap, as 4.9.8 leaves one, and who goes on as if nothing had happened shows that
    its number alone is wrong, unless an old entry has the record where it says. Where that says nothing, an old entry
    that leads to the record does; without one a record may be alone between two gaps, a number that is one bit away
    from the right one is wrong, and a gap must fit into the log that lies before it. The last record of a queue may be
    behind a gap of any cause.

    A wrong number can also be just the one that comes next, where a gap is in front of its record. What follows shows
    a gap then, or nothing follows: only in these cases is an old entry looked for that knows better.
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
        """Begin at the first record of a scan from log offset scanned_from on.

        Raises EarlierEntriesMissing, unless the scan saw the whole log, if entries in front of it are missing or not
        what they seem, and RecordMisplaced if it cannot be the first. Nothing has changed then.
        """
        self.queue = queue
        self.changed = 0
        self.write_again = write_again
        """Whether entries are written even where they are in the page cache already: the disk may not have them."""
        self.misplaced: list[Misplaced] = []
        """Records that are not where they say, or nowhere, as far as is known."""
        self.lacks_room: OSError | None = None
        """Why no further entry was written: the disk has no room for the queue's next file."""
        self._doubted: _Doubted | None = None
        self._skipped = skipped
        self._pending = bytearray()
        self._pending_at = first.queue_offset
        self._scanned_from = scanned_from
        is_continued = self._is_continued_by(first)
        if not whole_log and (not is_continued or self._is_taken(first)):
            raise EarlierEntriesMissing
        if not is_continued:
            self._bridge_from_the_front(first)
        self._blank_the_front(first.queue_offset, whole_log=whole_log)
        self.first = first.queue_offset
        self.next = first.queue_offset

    def vouching_ends(self) -> None:
        """Write again all that is added from here on: nothing says that the disk has it.

        The last record is held back and written with those: what comes may show that its number is wrong.
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
        """Return whether the entries in front of the first record's place are there."""
        begin, _ = self._row_bounds()
        if first.queue_offset <= begin:
            return first.queue_offset == begin
        before = self.queue.entry(first.queue_offset - 1)
        return before is not None and is_valid(before) and before.physical_offset < first.physical_offset

    def _bridge_from_the_front(self, first: ScannedRecord) -> None:
        """Fill the hole in front of the first record with blanks, keeping entries into damage.

        Other entries in front are of records that have left the log: if the row ends before the record's place, it
        begins anew in the file of that.
        """
        queue_offset, row = first.queue_offset, self.queue.queue
        begin, end = self._row_bounds()
        last = self._last_into_damage(min(queue_offset, end))
        if (
            last is not None
            and queue_offset - last[0] > records_in(first.physical_offset - last[1])
            and not _leads_to(self.queue.entry(queue_offset), first)
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

    def _row_bounds(self) -> tuple[int, int]:
        """Return by entries where the queue's files begin, and where they end."""
        segments = self.queue.queue.segments
        if not segments:
            return 0, 0
        return segments[0].base_offset // ENTRY_BYTES, segments[-1].end_offset // ENTRY_BYTES

    def _last_into_damage(self, end: int) -> tuple[int, int] | None:
        """Return index and log offset of the last entry below end that leads into damage which was passed over."""
        begin, _ = self._row_bounds()
        for index in range(end - 1, begin - 1, -1):
            entry = self.queue.entry(index)
            if entry is not None and self._skipped.hold(entry):
                return index, entry.physical_offset
        return None

    def _is_taken(self, first: ScannedRecord) -> bool:
        """Return whether the first record's place has the entry of a record in front of the scan."""
        entry = self.queue.entry(first.queue_offset)
        if entry is None or not is_valid(entry):
            return False
        return _is_unscanned(entry, self._scanned_from, self._skipped)

    def _blank_the_front(self, queue_offset: int, *, whole_log: bool) -> None:
        """Blank entries in front of the first record that lead into what was scanned: it has no record of theirs."""
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
        """Take the next record."""
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
        """Take the next records, whose queueOffsets rise by one from queue_offset on, by their entries."""
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
        """Give a doubted record its place, or none; following is the next one's queueOffset, None if there is none."""
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
        """Take the last record, whose number seemed to follow, to where an old entry leads to it behind a gap."""
        if not self._pending:
            return
        entry = decode_entry(bytes(self._pending[-ENTRY_BYTES:]), 0)
        place = self.queue.index_of(entry.physical_offset)
        if place is None or not self.next <= place < self.next + GAP_ENTRIES_MAX:
            return
        if not _leads_to(self.queue.entry(place), entry) or self._leads_twice(entry, place):
            return
        self.next -= 1
        self.misplaced.append(Misplaced(entry.physical_offset, place, self.next))
        del self._pending[-ENTRY_BYTES:]
        self._bridge(place)
        self._pending += encode_entry(*entry)
        self.next = place + 1

    def _leads_twice(self, last: QueueEntry, place: int) -> bool:
        """Return whether the queue has what it leads to also between the last record's number and its place.

        That is no gap: a store that leads to records twice has entries farther on than its numbers. Others prove
        nothing. A crash while blanks were written leaves one that is half a blank, and seems to lead somewhere.
        """
        pending = bytes(self._pending[-2 * ENTRY_BYTES : -ENTRY_BYTES])
        before = decode_entry(pending, 0) if pending else self.queue.entry(self.next - 2)
        known = [last] if before is None or not is_valid(before) else [last, before]
        in_front = map(self.queue.entry, range(self.next - 1, place))
        return any(_leads_to(each, one) for each in in_front for one in known)

    def _has_more_behind(self) -> bool:
        """Return whether the queue has anything behind the last record, as far on as a gap can reach."""
        row, begin = self.queue.queue, self.next * ENTRY_BYTES
        segment = row.find(begin)
        if segment is None or segment is not row.last():
            return segment is not None
        position = begin - segment.base_offset
        end = min(segment.size_bytes, position + GAP_ENTRIES_MAX * ENTRY_BYTES)
        return first_nonzero(segment.file.view(position, end)) is not None

    def _place_of(self, doubted: _Doubted, following: int | None) -> int | None:
        """Return where a doubted record belongs, None if its place is taken, too far away, or not to be known."""
        said = doubted.queue_offset
        if said == self.next:
            return said  # it was doubted for what the last one said, which has been moved in front of it since
        is_ahead = said > self.next
        if following is not None and _leads_to(self.queue.entry(self.next), doubted):
            return self.next  # whatever comes next: a wrong number may be in front of a gap that seems to vouch for it
        if is_ahead and following == said + 1 and said - self.next <= GAP_ENTRIES_MAX:
            return said
        if is_ahead and _leads_to(self.queue.entry(said), doubted):
            return said  # the next one's number is wrong: just what it would be without the gap in front of this one
        if following == self.next + 1:
            return self.next
        for place in (said, self.next, self.queue.index_of(doubted.physical_offset)):
            if place is not None and place >= self.next and _leads_to(self.queue.entry(place), doubted):
                return place
        if following is None and 0 < said - self.next <= GAP_ENTRIES_MAX:
            return said  # a gap or not: whoever comes next goes on behind it
        if is_ahead and following is not None and said < following <= self.next + GAP_ENTRIES_MAX:
            return said  # alone between two gaps, as two restarts leave it: it takes nobody's place there
        if following != self.next and ((said ^ self.next) & _NUMBER_MASK).bit_count() == 1:
            return self.next
        is_passed_by = following is not None and self.next <= following <= said
        return said if is_ahead and not is_passed_by and self._has_room(doubted) else None

    def _has_room(self, doubted: _Doubted) -> bool:
        """Return whether the log has room for as many records as are missing in front of one, and for itself."""
        last, missing = self.queue.entry(self.next - 1), doubted.queue_offset - self.next
        return last is None or missing <= records_in(doubted.physical_offset - last.physical_offset)

    def kept_code(self, record: ScannedRecord, tags_code: int) -> int:
        """Return the code to add a record with: its tagsCode, or the address of its unit that its entry has already."""
        entry, stored_ms = QueueEntry(*record[:2], tags_code), record.store_timestamp_ms
        return self.queue.kept_code(record.queue_offset, entry, stored_ms, vouched=not self.write_again)

    def _bridge(self, queue_offset: int) -> None:
        """Pass over indexes whose records are unreadable: keep entries into damage, blank the rest."""
        self._write()
        for index in range(self.next, queue_offset):
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
        """Write the rest, and forget every entry behind the last record; syncs_zeros as `Segment.clear_from` has it.

        If the disk is full, the queue ends at the last entry that has a file.
        """
        if self._doubted is not None:
            self._settle(self._doubted, None)
        if self._has_more_behind():
            self._move_last()
        self._write()
        end = self.next if self.lacks_room is None else self._end_in_files()
        while self._skipped.hold(self.queue.entry(end)):  # all that is left of records in a damaged part of the log
            end += 1
        if self.changed:
            hit("queue rewritten")
        if self.queue.truncate(end, syncs_zeros=syncs_zeros):
            hit("queue cut")
            self.changed += 1
        self.queue.recovered(end, self.first)

    def _end_in_files(self) -> int:
        """Return the index after the last entry in the queue's files. Blanks at the end are written again with it."""
        begin, end = self._row_bounds()
        end = min(end, self.next)
        while end > begin and not ((entry := self.queue.entry(end - 1)) is not None and is_valid(entry)):
            end -= 1
        return end


def keep_trusted_entries(queue: ConsumeQueue, log_offset: int, skipped: SkippedRanges, *, syncs_zeros: bool) -> bool:
    """Recover a queue without a record in the scan, which began at log_offset; return whether anything went.

    What counts is the run of entries up to the first that points at what was scanned. Places without an entry in
    between are a gap in the numbers. Blank entries stand for records in front of the scan: behind the very beginning of
    the log there are none. syncs_zeros: as `Segment.clear_from` has it.
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


def _leads_to(entry: QueueEntry | None, record: ScannedRecord | QueueEntry | _Doubted) -> bool:
    """Return whether an entry has a record's place in the log, and its size."""
    return entry is not None and entry[:2] == (record.physical_offset, record.size_bytes)


def _is_there(entry: QueueEntry | None) -> bool:
    return entry is not None and (is_valid(entry) or is_blank(entry))
