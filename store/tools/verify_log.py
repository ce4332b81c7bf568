"""Verifier of the log: every record, blank and zero tail, and where each queued record lies.

Behind damage it goes on at the next place that has a record's magic and its own physicalOffset, so one bad record
does not hide the rest. Needs 36 bytes of memory for each queued record, and some for the records that are decoded at a
time: one, or a core's table of plain ones.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from struct import Struct

from ..errors import CorruptFileError
from ..formats.columns import Core, PlainRecords
from ..formats.consume_queue import ENTRY_BYTES, QueueEntry, decode_entry, encode_entry
from ..formats.delay_level import record_tags_code
from ..formats.properties import PROPERTY_INNER_MULTI_QUEUE_OFFSET
from ..formats.scan import ScannedRecord, find_record
from ..queues.dispatch import is_queued
from ..queues.light_queues import LIGHT_MARK, LIGHT_PREFIX, light_records
from .verify_files import RawSegment
from .violation import DirectoryPromise, DirectoryViolation, Findings

_QUEUE_OFFSET_AT = 20
_BLANK = Struct(">ii")


class QueuedRecords:
    """The records of one queue, in log order."""

    def __init__(self, first: int | None = None) -> None:
        """Begin without records; first is the queueOffset the first one has to have, None if any will do."""
        self.queue_offsets = array("q")
        self.stored_ms = array("q")
        self.entries = bytearray()
        """What the queue has of them, if its tagsCodes are plain."""
        self.damaged: set[int] = set()
        """Positions of records whose body is not what its checksum says."""
        self._next = first
        self._also_next: int | None = None

    def __len__(self) -> int:
        return len(self.queue_offsets)

    def add(self, record: ScannedRecord, tags_code: int, *, damaged: bool) -> int | None:
        """Add a record; return the queueOffset it should have if it has another.

        After a mismatch the count may go on from what was found or as if nothing had happened.
        """
        if damaged:
            self.damaged.add(len(self))
        self.queue_offsets.append(record.queue_offset)
        self.stored_ms.append(record.store_timestamp_ms)
        self.entries += encode_entry(record.physical_offset, record.size_bytes, tags_code)
        return self._count(record.queue_offset, 1)

    def add_run(self, queue_offset: int, entries: bytes, times: bytes) -> int | None:
        """Add records whose queueOffsets rise by one; return what `add` does for the first of them."""
        count = len(entries) // ENTRY_BYTES
        self.queue_offsets.extend(range(queue_offset, queue_offset + count))
        self.stored_ms.frombytes(times)
        self.entries += entries
        return self._count(queue_offset, count)

    def _count(self, found: int, count: int) -> int | None:
        """Go on behind that many from found on; return the queueOffset expected in place of found, if another was."""
        expected = self._next
        if expected is None or found in (expected, self._also_next):
            self._next, self._also_next = found + count, None
            return None
        if count == 1:
            self._next, self._also_next = expected + 1, found + 1
        else:
            self._next, self._also_next = found + count, None
        return expected

    def entry(self, position: int) -> QueueEntry:
        """Return what the queue has of one of them."""
        at = position * ENTRY_BYTES
        return decode_entry(bytes(self.entries[at : at + ENTRY_BYTES]), 0)

    def position_of(self, physical_offset: int) -> int:
        """Return the position of the record at a log offset, or of the first one behind it."""
        return bisect_left(range(len(self)), physical_offset, key=lambda position: self.entry(position).physical_offset)

    def are(self, position: int, queue_offset: int, entries: memoryview) -> bool:
        """Return whether entries, from index queue_offset on, are exactly those of the records from a position on."""
        count = len(entries) // ENTRY_BYTES
        at = position * ENTRY_BYTES
        return self.entries[at : at + len(entries)] == entries and self.queue_offsets[
            position : position + count
        ] == array("q", range(queue_offset, queue_offset + count))


@dataclass(slots=True)
class LogFacts:
    """What the log holds."""

    min_offset: int = 0
    end_offset: int = 0
    """Log offset behind the last whole record."""
    last_store_timestamp_ms: int = 0
    records: int = 0
    blanks: int = 0
    record_bytes: int = 0
    queues: dict[tuple[str, int], QueuedRecords] = field(default_factory=dict)


class LogVerifier:
    """One pass over a log."""

    def __init__(
        self,
        segment_bytes: int,
        delays_ms: Mapping[int, int],
        findings: Findings,
        topics: frozenset[str] = frozenset(),
        core: Core | None = None,
    ) -> None:
        """topics: names that there are queues of; a record is in the light queues it names only where these are."""
        self.facts = LogFacts()
        self._topics = topics
        self._has_light = any(topic.startswith(LIGHT_PREFIX) for topic in topics)
        self._segment_bytes = segment_bytes
        self._delays_ms = delays_ms
        self._findings = findings
        self._doubtful: list[tuple[int, DirectoryViolation]] = []
        """What is damage only if a whole record follows, with its log offset; else it is the tail."""
        self._zero_tails: list[tuple[str, int]] = []
        self._plain = None if core is None else PlainRecords(core)
        self._plain_queues: list[QueuedRecords] = []
        """By their numbers there."""

    def verify(self, segments: list[RawSegment], advance: Callable[[int], None]) -> LogFacts:
        """Read every segment; advance is called with the bytes read."""
        facts = self.facts
        if segments:
            facts.min_offset = facts.end_offset = segments[0].base_offset
        for segment in segments:
            self._read_segment(segment)
            advance(len(segment.view))
        for log_offset, violation in self._doubtful:
            if log_offset < facts.end_offset:
                self._findings.violations.append(violation)
            else:
                self._findings.explained(violation, "end the log there")
        return facts

    def _read_segment(self, segment: RawSegment) -> None:
        path, base_offset, view, _ = segment
        at: int | None = 0
        while at is not None and at < len(view):
            try:
                begin = at = at if self._plain is None else self._take_plain(self._plain, segment, at)
                limit = None if self._plain is None else 1
                for record in islice(segment.records_from(at, len(view), check_crc=True), limit):
                    at = record.physical_offset - base_offset + record.size_bytes
                    self._take_whole(segment, record)
                if limit is None or at == begin:
                    self._take_blank(segment, at)
                    return
            except CorruptFileError as error:
                if segment.zeros_from(at):
                    self._zero_tails.append((path, at))
                    return
                at = self._take_damage(segment, at, error)

    # -- taking what was read ----------------------------------------------------------------------

    def _take_plain(self, plain: PlainRecords, segment: RawSegment, at: int) -> int:
        """Do, for as many records from a position on as are plain, what `_take_whole` does for each.

        Return the position behind them.
        """
        facts, base_offset = self.facts, segment.base_offset
        while plain.scan(segment.view, at, base_offset, check_crc=True):
            self._zeros_are_damage()
            facts.records += plain.count
            facts.record_bytes += plain.end - at
            facts.end_offset = base_offset + plain.end
            facts.last_store_timestamp_ms = max(facts.last_store_timestamp_ms, *plain.column("store_timestamp_ms"))
            misplaced: list[tuple[int, int, int]] = []
            for number, found, entries, times in plain.runs():
                expected = self._plain_queues[number].add_run(found, entries, times)
                if expected is not None:
                    misplaced.append((decode_entry(entries, 0).physical_offset - base_offset, expected, found))
            for begin, expected, found in sorted(misplaced):
                self._misplaced(segment, begin + _QUEUE_OFFSET_AT, "queueOffset", expected, found)
            segment.file.advise_dont_need(at, plain.end)
            at = plain.end
        return at

    def _zeros_are_damage(self) -> None:
        """Report tails of zeros, now that something follows them."""
        expected = "a record or a blank one, as records follow"
        for path, at in self._zero_tails:
            self._findings.violated(DirectoryPromise.LOG, path, at, "magicCode", expected, "zeros")
        self._zero_tails.clear()

    def _misplaced(self, segment: RawSegment, at: int, name: str, expected: int, found: int) -> None:
        self._findings.violated(DirectoryPromise.QOFF, segment.path, at, name, expected, found)

    def _take_whole(self, segment: RawSegment, record: ScannedRecord) -> None:
        self._zeros_are_damage()
        facts = self.facts
        facts.records += 1
        facts.record_bytes += record.size_bytes
        facts.end_offset = record.physical_offset + record.size_bytes
        facts.last_store_timestamp_ms = max(facts.last_store_timestamp_ms, record.store_timestamp_ms)
        self._take_queued(segment, record, damaged=False)

    def _take_queued(self, segment: RawSegment, record: ScannedRecord, *, damaged: bool) -> None:
        if not is_queued(record):
            return
        places = [("queueOffset", _QUEUE_OFFSET_AT, record)]
        if LIGHT_MARK in record.properties:
            places += [
                (f"{PROPERTY_INNER_MULTI_QUEUE_OFFSET} for {seen.topic}", 0, seen)
                for seen in light_records(record, lmq=True)
                if seen.topic in self._topics or (self._has_light and seen.topic.startswith(LIGHT_PREFIX))
            ]
        tags_code = record_tags_code(record, self._delays_ms)
        for name, field_at, seen in places:
            queue = self.facts.queues.get((seen.topic, seen.queue_id))
            if queue is None:
                first = None if self.facts.min_offset else 0  # nothing has expired from a log that begins at 0
                queue = self.facts.queues[seen.topic, seen.queue_id] = QueuedRecords(first)
                if self._plain is not None and self._plain.know(seen.topic, seen.queue_id) is not None:
                    self._plain_queues.append(queue)
            expected = queue.add(seen, tags_code, damaged=damaged)
            if expected is not None:
                at = record.physical_offset - segment.base_offset + field_at
                self._misplaced(segment, at, name, expected, seen.queue_offset)

    def _take_blank(self, segment: RawSegment, at: int) -> None:
        if at == len(segment.view):
            return
        self.facts.blanks += 1
        size_bytes, _ = _BLANK.unpack_from(segment.view, at)
        if size_bytes != self._segment_bytes - at:
            expected = f"{self._segment_bytes - at}, all that is left"
            self._findings.violated(DirectoryPromise.LOG, segment.path, at, "totalSize", expected, size_bytes)

    def _take_damage(self, segment: RawSegment, at: int, error: CorruptFileError) -> int | None:
        """Report what is at position at; return where to go on, None if nothing readable follows in the segment."""
        path, base_offset, view, _ = segment
        place = DirectoryPromise.LOG, path, error.offset
        violation = self._findings.violation(*place, error.field, error.expected, error.found)
        self._doubtful.append((base_offset + at, violation))
        if error.field == "bodyCRC":
            with suppress(CorruptFileError):  # unless the checksum alone is wrong
                for record in segment.records_from(at, len(view), check_crc=False):
                    self._take_queued(segment, record, damaged=True)
                    return at + record.size_bytes
        return find_record(view, at + 1, base_offset, self._segment_bytes)
