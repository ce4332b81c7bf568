"""Verifier of the log: every record, blank and zero tail, and where each queued record lies.

Behind damage it goes on at the next place that has a record's magic and its own physicalOffset, so one bad record
does not hide the rest. Needs 36 bytes of memory for each queued record, and no more than one of them decoded at a time.
"""

from array import array
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct

from ..errors import CorruptFileError
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
        self.physical_offsets = array("q")
        self.sizes = array("i")
        self.tags_codes = array("q")
        self.stored_ms = array("q")
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
        self.physical_offsets.append(record.physical_offset)
        self.sizes.append(record.size_bytes)
        self.tags_codes.append(tags_code)
        self.stored_ms.append(record.store_timestamp_ms)
        expected, found = self._next, record.queue_offset
        if expected is None or found in (expected, self._also_next):
            self._next, self._also_next = found + 1, None
            return None
        self._next, self._also_next = expected + 1, found + 1
        return expected


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
                for record in segment.records_from(at, len(view), check_crc=True):
                    at = record.physical_offset - base_offset + record.size_bytes
                    self._take_whole(segment, record)
                self._take_blank(segment, at)
                return
            except CorruptFileError as error:
                if segment.zeros_from(at):
                    self._zero_tails.append((path, at))
                    return
                at = self._take_damage(segment, at, error)

    # -- taking what was read ----------------------------------------------------------------------

    def _take_whole(self, segment: RawSegment, record: ScannedRecord) -> None:
        expected = "a record or a blank one, as records follow"
        for path, at in self._zero_tails:
            self._findings.violated(DirectoryPromise.LOG, path, at, "magicCode", expected, "zeros")
        self._zero_tails.clear()
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
            expected = queue.add(seen, tags_code, damaged=damaged)
            if expected is not None:
                at = record.physical_offset - segment.base_offset + field_at
                found = seen.queue_offset
                self._findings.violated(DirectoryPromise.QOFF, segment.path, at, name, expected, found)

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
