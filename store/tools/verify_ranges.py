"""Ranges of the log: checks one segment, or a part of it, without the other ranges.

Two checks need other ranges, and `verify_log` makes them. Damage at the end of a range is a torn tail only if no record
follows. The queueOffsets of a queue must continue from range to range.

A record begins at the first byte of a segment. A range inside a segment starts at the first position with a record's
magic and the right physicalOffset; `verify_log` checks that the previous range ends there. After a damaged record the
check continues at the next position with a magic and the right physicalOffset. Memory contains only the records of one
decoding step and the records without a matching queue entry.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from struct import Struct
from typing import NamedTuple

from ..config import StoreConfig
from ..errors import CorruptFileError
from ..formats.columns import NativeCore, PlainRecords
from ..formats.consume_queue import encode_entry
from ..formats.delay_level import parse_delay_levels, record_tags_code
from ..formats.index_key import key_hashes, may_have_keys
from ..formats.light_queues import LIGHT_MARK, LIGHT_PREFIX, light_records
from ..formats.message import RECORD_BYTES_MIN
from ..formats.scan import ScannedRecord, find_record
from ..queues.dispatch import is_queued
from ..world import Files
from .verify_files import RawSegment
from .verify_index import IndexFacts, IndexFinding
from .verify_keys import KeyedRecord, KeyFindings, KeyVerifier
from .verify_settling import EntrySettling, QueueFiles, QueueKey, RangeQueue
from .violation import DirectoryPromise, DirectoryViolation, Findings

_BLANK = Struct(">ii")
_TIME = Struct("=q")  # in the byte order of the C core


class LogPart(NamedTuple):
    """The records that begin in bytes [start, end) of a segment."""

    path: str
    base_offset: int
    segment_bytes: int
    """Number of readable bytes in the file."""
    start: int
    end: int
    next_offset: int | None
    """Log offset of the next segment; None for the last segment."""
    is_known: bool
    """Whether a record certainly begins at `start`."""


@dataclass(slots=True)
class RangeFacts:
    """The result of a check of one range."""

    begin: int | None
    """Position of the first record in the segment, or None if the range has no record."""
    end: int
    """Position in the segment where the next range must begin."""
    end_offset: int = -1
    """Log offset after the last whole record, or -1 if the range has no record."""
    last_store_timestamp_ms: int = 0
    records: int = 0
    blanks: int = 0
    record_bytes: int = 0
    found: list[DirectoryViolation] = field(default_factory=list)
    """Violations that do not depend on later ranges."""
    zero_tail: DirectoryViolation | None = None
    """Zeros to the segment's end, which are damage only if a whole record follows."""
    doubtful: list[tuple[int, DirectoryViolation]] = field(default_factory=list)
    """Log offsets and violations. If no whole record follows, the violations are part of a torn tail."""
    queues: dict[QueueKey, RangeQueue] = field(default_factory=dict)
    keys: KeyFindings | None = None


def ranges_of(segments: Sequence[RawSegment], split_bytes: int) -> list[LogPart]:
    """Divide the log into ranges of split_bytes, or into whole segments if split_bytes is 0."""
    assert split_bytes >= 0, split_bytes
    found = []
    followers = [segment.base_offset for segment in segments[1:]]
    for segment, next_offset in zip_longest(segments, followers):
        size_bytes = segment.size_bytes
        for start in range(0, size_bytes, split_bytes or size_bytes) if size_bytes else [0]:
            end = min(start + split_bytes, size_bytes) if split_bytes else size_bytes
            place = segment.path, segment.base_offset, size_bytes, start, end
            found.append(LogPart(*place, next_offset, is_known=start == 0))
    return found


@dataclass(frozen=True, slots=True)
class RangeJudgement:
    """Checks one range of the log."""

    root: str
    config: StoreConfig
    topics: frozenset[str]
    """Topics that have a queue directory. Light queues without a directory are not checked."""
    index: IndexFacts

    def __call__(self, files: Files, core: NativeCore | None, log_range: LogPart) -> RangeFacts:
        segment = RawSegment(log_range.path, log_range.base_offset, files.map(log_range.path, log_range.segment_bytes))
        begin: int | None = log_range.start
        if not log_range.is_known:
            begin = _first_record(segment, log_range, self.config.mapped_file_size_commit_log)
        if begin is None:
            return RangeFacts(None, log_range.end)
        return _RangeVerifier(self, files, core, log_range, segment, begin).verify(begin)

    def keys_without_log(self, files: Files) -> list[IndexFinding]:
        if not self.index.exists:
            return []
        keys = KeyVerifier(files, self.index, Findings(self.root, unclean_exit=False), ("", 0), 0)
        return keys.finish(None).if_log_ends


def _first_record(segment: RawSegment, log_range: LogPart, segment_bytes: int) -> int | None:
    inside = segment.view[: min(log_range.end + RECORD_BYTES_MIN, segment.size_bytes)]
    found = find_record(inside, log_range.start, segment.base_offset, segment_bytes)
    return found if found is not None and found < log_range.end else None


class _RangeVerifier:
    def __init__(
        self,
        judgement: RangeJudgement,
        files: Files,
        core: NativeCore | None,
        log_range: LogPart,
        segment: RawSegment,
        begin: int,
    ) -> None:
        self.facts = RangeFacts(begin, begin)
        self._segment = segment
        self._range = log_range
        self._segment_bytes = judgement.config.mapped_file_size_commit_log
        self._topics = judgement.topics
        self._has_light = any(topic.startswith(LIGHT_PREFIX) for topic in judgement.topics)
        self._delays_ms = parse_delay_levels(judgement.config.message_delay_level)
        self._findings = Findings(judgement.root, unclean_exit=False)  # only shortens file names
        self._settling = EntrySettling(QueueFiles(files, judgement.config))
        self._keys: KeyVerifier | None = None
        if judgement.index.exists:
            begin_offset = segment.base_offset + begin
            place = segment.path, segment.base_offset
            self._keys = KeyVerifier(files, judgement.index, self._findings, place, begin_offset)
        self._plain = None if core is None else PlainRecords(core)

    def verify(self, begin: int) -> RangeFacts:
        facts, segment = self.facts, self._segment
        facts.end = self._read_records(begin)
        assert begin <= facts.end <= segment.size_bytes, (begin, facts.end, segment.size_bytes)
        self._settling.finish()
        facts.queues = self._settling.queues
        if self._keys is not None:
            is_through = facts.end == segment.size_bytes
            end_offset = self._range.next_offset if is_through else segment.base_offset + facts.end
            facts.keys = self._keys.finish(end_offset)
        return facts

    def _read_records(self, at: int) -> int:
        """Check all records of the range. Returns the position of the next record after the range."""
        segment, end, through = self._segment, self._range.end, self._segment.size_bytes
        limit = None if self._plain is None else 1
        while at < end:
            try:
                begin = at = at if self._plain is None else self._handle_plain_records(self._plain, at)
                if at >= end:
                    break
                for record in islice(segment.records_from(at, through, check_crc=True), limit):
                    at = record.physical_offset - segment.base_offset + record.size_bytes
                    self._handle_whole_record(record)
                    if at >= end:
                        return at
                if limit is None or at == begin:
                    self._handle_blank(at)
                    return through
            except CorruptFileError as error:
                if segment.zeros_from(at):
                    expected = "a record, because records follow"
                    self.facts.zero_tail = self._violation(at, "magicCode", expected, "zeros")
                    return through
                following = self._handle_damage(at, error)
                if following is None:
                    return through
                at = following
        return at

    # -- records -----------------------------------------------------------------------------------

    def _handle_plain_records(self, plain: PlainRecords, at: int) -> int:
        """Check plain records in batches, like `_handle_whole_record`. Returns the position after the last record."""
        facts, segment, end = self.facts, self._segment, self._range.end
        inside = segment.view[:end]
        while at < end and plain.scan(inside, at, segment.base_offset, check_crc=True):
            assert at < plain.end <= end, (at, plain.end, end)
            facts.records += plain.count
            facts.record_bytes += plain.end - at
            facts.end_offset = segment.base_offset + plain.end
            facts.last_store_timestamp_ms = max(facts.last_store_timestamp_ms, *plain.column("store_timestamp_ms"))
            for number, first, entries, times in plain.runs():
                self._settling.add(plain.queues[number], first, entries, times)
            if self._keys is not None:
                self._keys.add_plain(plain)
            segment.file.advise_dont_need(at, plain.end)
            at = plain.end
        return at

    def _handle_whole_record(self, record: ScannedRecord) -> None:
        facts = self.facts
        facts.records += 1
        facts.record_bytes += record.size_bytes
        facts.end_offset = record.physical_offset + record.size_bytes
        facts.last_store_timestamp_ms = max(facts.last_store_timestamp_ms, record.store_timestamp_ms)
        self._add_queued_record(record, damaged=False)
        if self._keys is not None:
            self._keys.add_whole(_keyed_record_of(record))

    def _add_queued_record(self, record: ScannedRecord, *, damaged: bool) -> None:
        if not is_queued(record):
            return
        tags_code = record_tags_code(record, self._delays_ms)
        entry = encode_entry(record.physical_offset, record.size_bytes, tags_code)
        times = _TIME.pack(record.store_timestamp_ms)
        for queued in (record, *self._light_queue_records(record)):
            queue = queued.topic, queued.queue_id
            is_new = queue not in self._settling.queues
            if is_new and self._plain is not None:
                self._plain.register_queue(*queue)
            is_light = queued is not record
            self._settling.add(queue, queued.queue_offset, entry, times, is_light=is_light, damaged=damaged)

    def _light_queue_records(self, record: ScannedRecord) -> Iterator[ScannedRecord]:
        """Yield a copy of the record for each of its existing light queues."""
        if LIGHT_MARK in record.properties:
            for light in light_records(record, lmq=True):
                if light.topic in self._topics or (self._has_light and light.topic.startswith(LIGHT_PREFIX)):
                    yield light

    def _handle_blank(self, at: int) -> None:
        segment = self._segment
        if at == segment.size_bytes:
            return
        self.facts.blanks += 1
        size_bytes, _ = _BLANK.unpack_from(segment.view, at)
        if size_bytes != self._segment_bytes - at:
            expected = f"{self._segment_bytes - at}, the rest of the segment"
            self.facts.found.append(self._violation(at, "totalSize", expected, size_bytes))

    def _handle_damage(self, at: int, error: CorruptFileError) -> int | None:
        """Report damage. Returns the position of the next record in the segment, or None."""
        segment = self._segment
        violation = self._violation(error.offset, error.field, error.expected, error.found)
        self.facts.doubtful.append((segment.base_offset + at, violation))
        # If only the body is damaged, the record's size gives the position of the next record. A search could find a
        # copy of a record inside the body.
        if error.field == "bodyCRC":
            with suppress(CorruptFileError):  # other fields can be damaged too
                for record in segment.records_from(at, segment.size_bytes, check_crc=False):
                    self._add_queued_record(record, damaged=True)
                    keyed = _keyed_record_of(record)
                    if self._keys is not None and keyed is not None:
                        self._keys.add_damaged(keyed)
                    return at + record.size_bytes
        return find_record(segment.view, at + 1, segment.base_offset, self._segment_bytes)

    def _violation(self, at: int, name: str, expected: object, found: object) -> DirectoryViolation:
        return self._findings.violation(DirectoryPromise.LOG, self._segment.path, at, name, expected, found)


def _keyed_record_of(record: ScannedRecord) -> KeyedRecord | None:
    hashes = key_hashes(record.topic, record.properties) if may_have_keys(record) else ()
    return KeyedRecord(record.physical_offset, record.store_timestamp_ms, hashes) if hashes else None
