"""Verifier of consume queues: compares entries with the records of the log.

The verifier checks one queue after another, and skips *settled* entries, which `verify_settling` has compared.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from ..config import StoreConfig
from ..formats.columns import NativeCore
from ..formats.consume_queue import (
    ENTRY_BYTES,
    QueueEntry,
    decode_entry,
    is_blank,
    is_ext_address,
    is_valid,
    queue_id_of,
)
from ..formats.message import RECORD_BYTES_MIN
from ..formats.scan import store_timestamp_ms_at
from ..log.segment_queue import SegmentDirectories
from ..world import Files, FileStatus
from .verify_files import ExtVerifier, RawSegment, RowReader
from .verify_settling import QueuedRecords, QueueFiles, QueueKey, SettledSpan
from .violation import DirectoryPromise, DirectoryViolation, Findings

_VALID = DirectoryPromise.CQ_VALID
_ZEROS = bytes(ENTRY_BYTES)
_BLOCK_BYTES = 1 << 20
_ZERO_BLOCK = bytes(_BLOCK_BYTES)


class QueueToJudge(NamedTuple):
    """A queue directory and the queue's records in the log."""

    topic: str
    queue_id: int
    directory: str
    settled: list[SettledSpan]
    unsettled: QueuedRecords


class QueueFacts(NamedTuple):
    """The result of a check of some queues."""

    findings: Findings
    queues: int
    entries: int
    blanks: int
    expired: int
    """Number of entries of records that have expired from the log."""
    ext_files: int
    ext_units: int


@dataclass(frozen=True, slots=True)
class QueueJudgement:
    """Checks some queues of a store."""

    root: str
    unclean_exit: bool
    config: StoreConfig
    min_offset: int
    end_offset: int
    """Log offset after the last whole record."""
    durable_ms: int
    """Entries of messages up to this store time must exist, also after an unclean exit."""

    def __call__(self, files: Files, core: NativeCore | None, queues: Sequence[QueueToJudge]) -> QueueFacts:
        """Check all entries of each queue, and report missing entries."""
        verifier = _QueueVerifier(self, files)
        for queue in queues:
            verifier.verify(queue)
        ext = verifier.ext
        counts = verifier.entries, verifier.blanks, verifier.expired, ext.file_count, ext.unit_count
        return QueueFacts(verifier.findings, len(queues), *counts)

    def without_directory(self, files: Files, queues: Mapping[QueueKey, QueuedRecords]) -> Findings:
        verifier = _QueueVerifier(self, files)
        for (topic, queue_id), records in sorted(queues.items()):
            verifier.report_missing_entries(topic, queue_id, records, bytearray(len(records)), end=0)
        return verifier.findings


def queue_directories(files: Files, config: StoreConfig, findings: Findings) -> list[tuple[str, int, str]]:
    """Return topic, queueId and directory of every queue. Reports unknown directory entries."""
    return _QueueListing(files, findings).list_in(config.consume_queue_directory)


class _QueueListing:
    def __init__(self, files: Files, findings: Findings) -> None:
        self._files = files
        self._findings = findings

    def list_in(self, directory: str) -> list[tuple[str, int, str]]:
        found: list[tuple[str, int, str]] = []
        for topic, status in self._list_names(directory):
            path = f"{directory}/{topic}"
            if status is None or not status.is_directory:
                self._findings.add_stray_note(_VALID, path, "topic", "a directory", _missing_directory_text(status))
                continue
            for name, status in self._list_names(path):
                queue_id = queue_id_of(name)
                if queue_id is None:
                    self._findings.add_stray_note(_VALID, f"{path}/{name}", "queueId", "a number", name)
                elif status is None or not status.is_directory:
                    self._findings.add_violation(
                        _VALID, f"{path}/{name}", 0, "queueId", "a directory", _missing_directory_text(status)
                    )
                else:
                    found.append((topic, queue_id, f"{path}/{name}"))
        return found

    def _list_names(self, path: str) -> list[tuple[str, FileStatus | None]]:
        try:
            if self._files.status(path) is None:
                return []
            names = self._files.list_directory(path)
            return [(name, self._files.status(f"{path}/{name}")) for name in names]
        except OSError as error:
            self._findings.add_unreadable(_VALID, path, error)
        return []


class _SettledRecords:
    def __init__(self, files: QueueFiles, queue: QueueToJudge) -> None:
        self._files = files
        self._queue = queue.topic, queue.queue_id
        self._spans = queue.settled
        """Settled spans in log order."""
        self._by_number = sorted(queue.settled)

    def find(self, physical_offset: int) -> tuple[int, QueueEntry] | None:
        """Return number and entry of the record at a log offset, or None."""
        which = bisect_right(self._spans, physical_offset, key=attrgetter("first_offset")) - 1
        if which < 0 or self._spans[which].last_offset < physical_offset:
            return None
        span = self._spans[which]
        assert span.first_offset <= physical_offset <= span.last_offset, (span, physical_offset)
        numbers = range(span.first, span.first + span.entries)
        number = numbers[bisect_left(numbers, physical_offset, key=lambda number: self._entry(number).physical_offset)]
        entry = self._entry(number)
        return (number, entry) if entry.physical_offset == physical_offset else None

    def settled_bounds(self, segment: RawSegment, segment_bytes: int) -> list[tuple[int, int]]:
        """Return begin and end positions of the file's settled spans in ascending order."""
        begin = segment.base_offset // ENTRY_BYTES
        end = begin + min(segment.size_bytes, segment_bytes) // ENTRY_BYTES
        found = []
        for span in self._by_number[max(bisect_right(self._by_number, begin, key=attrgetter("first")) - 1, 0) :]:
            first, last = max(span.first, begin), min(span.first + span.entries, end)
            if first < last:
                found.append(((first - begin) * ENTRY_BYTES, (last - begin) * ENTRY_BYTES))
            elif span.first >= end:
                break
        return found

    def _entry(self, number: int) -> QueueEntry:
        return decode_entry(self._files.entries(self._queue, number, 1), 0)


class _QueueVerifier:
    def __init__(self, judgement: QueueJudgement, files: Files) -> None:
        self.entries = self.blanks = self.expired = 0
        self.findings = Findings(judgement.root, judgement.unclean_exit)
        self.ext = ExtVerifier(files, judgement.config, self.findings)
        self._judgement = judgement
        self._segment_bytes = judgement.config.mapped_file_size_consume_queue
        self._reader = RowReader(files, self._segment_bytes, _VALID, self.findings)
        self._queue_files = QueueFiles(files, judgement.config)
        self._log_directories = SegmentDirectories.of_commit_log(files, judgement.config)
        self._log_bytes = judgement.config.mapped_file_size_commit_log
        self._files = files

    def _report_violation(self, file: str, offset: int, field: str, expected: object, found: object) -> None:
        self.findings.add_violation(_VALID, file, offset, field, expected, found)

    def verify(self, queue: QueueToJudge) -> None:
        segments = self._reader.read([queue.directory])
        self.ext.read(queue.topic, queue.queue_id)
        records, settled = queue.unsettled, _SettledRecords(self._queue_files, queue)
        covered = bytearray(len(records))
        end = beyond = 0
        hole: tuple[RawSegment, int] | None = None
        first_beyond: DirectoryViolation | None = None
        for segment in segments:
            passed = settled.settled_bounds(segment, self._segment_bytes)
            used = _used_bytes(segment, passed[-1][1] if passed else 0)
            for at, settled_end in _positions_to_check(used, passed):
                is_settled = settled_end > at
                if not is_settled and segment.bytes_at(at, ENTRY_BYTES) == _ZEROS:
                    hole = hole or (segment, at)
                    continue
                if hole is not None:
                    self._report_violation(hole[0].path, hole[1], "entry", "an entry, because entries follow", "zeros")
                    hole = None
                if is_settled:
                    self.entries += (settled_end - at) // ENTRY_BYTES
                    end = (segment.base_offset + settled_end) // ENTRY_BYTES
                    continue
                dangling = self._verify_entry(segment, at, records, settled, covered)
                if dangling is None:
                    end = (segment.base_offset + at) // ENTRY_BYTES + 1
                else:
                    beyond += 1
                    first_beyond = first_beyond or dangling
            if used < segment.size_bytes and hole is None:
                hole = (segment, used)
        if first_beyond is not None:
            self.findings.add_explained(first_beyond, f"remove {_entry_count_text(beyond)} past the end of the log")
        self.report_missing_entries(queue.topic, queue.queue_id, records, covered, end=end)

    def _verify_entry(
        self, segment: RawSegment, at: int, records: QueuedRecords, settled: _SettledRecords, covered: bytearray
    ) -> DirectoryViolation | None:
        """Check one entry. Returns a violation only if the entry points past the end of the log."""
        assert at < segment.size_bytes, (at, segment.size_bytes)
        self.entries += 1
        if segment.size_bytes - at < ENTRY_BYTES:
            self._report_violation(segment.path, at, "entry", f"{ENTRY_BYTES} bytes", f"{segment.size_bytes - at}")
            return None
        entry = decode_entry(segment.bytes_at(at, ENTRY_BYTES), 0)
        if is_blank(entry):
            self.blanks += 1
        elif not is_valid(entry):
            field, offset = ("phyOffset", at) if entry.physical_offset < 0 else ("size", at + 8)
            self._report_violation(segment.path, offset, field, "more than 0", min(entry[:2]))
        elif entry.physical_offset < self._judgement.min_offset:
            self.expired += 1
        else:
            position = records.position_of(entry.physical_offset)
            if position < len(records) and records.entry(position).physical_offset == entry.physical_offset:
                covered[position] = 1
                of_record = records.queue_offsets[position], records.entry(position)
                self._compare_entry(segment, at, entry, of_record, records.stored_ms[position])
            elif (of_settled := settled.find(entry.physical_offset)) is not None:
                self._compare_entry(segment, at, entry, of_settled, None)
            elif entry.physical_offset >= self._judgement.end_offset:
                place = _VALID, segment.path, at
                expected = f"less than {self._judgement.end_offset}, the end of the log"
                return self.findings.violation(*place, "phyOffset", expected, entry.physical_offset)
            else:
                expected = "the start of a record of this queue"
                self._report_violation(segment.path, at, "phyOffset", expected, entry.physical_offset)
        return None

    def _compare_entry(
        self, segment: RawSegment, at: int, entry: QueueEntry, record: tuple[int, QueueEntry], stored_ms: int | None
    ) -> None:
        """Compare an entry with the expected number and entry in `record`. stored_ms is None if unknown."""
        number, (_, size_bytes, code) = record
        if entry.size_bytes != size_bytes:
            self._report_violation(segment.path, at + 8, "size", size_bytes, entry.size_bytes)
        if is_ext_address(entry.tags_code) and entry.tags_code != code:
            if stored_ms is None:
                stored_ms = self._stored_ms(entry.physical_offset)
            self.ext.compare(segment.path, at + 12, entry.tags_code, code, stored_ms)
        elif entry.tags_code != code:
            self._report_violation(segment.path, at + 12, "tagsCode", code, entry.tags_code)
        index = (segment.base_offset + at) // ENTRY_BYTES
        if index != number:
            expected = f"the record with queueOffset {index}"
            found = f"{entry.physical_offset}, with queueOffset {number}"
            self._report_violation(segment.path, at, "phyOffset", expected, found)

    def _stored_ms(self, physical_offset: int) -> int:
        at = physical_offset % self._log_bytes
        path = self._log_directories.path(physical_offset - at, self._log_bytes)
        return store_timestamp_ms_at(self._files.map(path, at + RECORD_BYTES_MIN).view(at, at + RECORD_BYTES_MIN), 0)

    def report_missing_entries(
        self, topic: str, queue_id: int, records: QueuedRecords, covered: bytearray, *, end: int
    ) -> None:
        """Report records without an entry. After an unclean exit, missing entries at the queue's end are only notes."""
        assert len(covered) == len(records), (len(covered), len(records))
        missing = 0
        first: DirectoryViolation | None = None
        position = covered.find(0)
        while position >= 0:
            if position not in records.damaged:
                violation = self._missing_entry_violation(topic, queue_id, records, position)
                # Before the checkpoint's time, entries must exist even after an unclean exit.
                is_late = records.stored_ms[position] > self._judgement.durable_ms
                is_tail = is_late and records.queue_offsets[position] >= end
                if is_tail:
                    first = first or violation
                    missing += 1
                if not (is_tail and self.findings.unclean_exit):
                    self.findings.violations.append(violation)
            position = covered.find(0, position + 1)
        if first is not None and self.findings.unclean_exit:
            self.findings.add_explained(first, f"add {_entry_count_text(missing)} to the queue")

    def _missing_entry_violation(
        self, topic: str, queue_id: int, records: QueuedRecords, position: int
    ) -> DirectoryViolation:
        physical_offset = records.entry(position).physical_offset
        at = physical_offset % self._log_bytes
        base_offset = physical_offset - at
        path = self._log_directories.path(base_offset, self._log_bytes)
        expected = f"entry {records.queue_offsets[position]} in consumequeue/{topic}/{queue_id}"
        place = DirectoryPromise.CQ_COMPLETE, path, at
        return self.findings.violation(*place, "queue entry", expected, "none")


def _positions_to_check(used: int, passed: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield (position, 0) for each entry to check, and (begin, end) for each settled span."""
    at = 0
    for begin, end in [*passed, (used, used)]:
        for one in range(at, begin, ENTRY_BYTES):
            yield one, 0
        if begin < end:
            yield begin, end
        at = max(at, end)


def _used_bytes(segment: RawSegment, least: int) -> int:
    """Return the position of the first trailing zero entry. The search stops at position `least`."""
    end = segment.size_bytes
    while end > least:
        block = max(least, end - _BLOCK_BYTES)
        raw = bytes(segment.file.view(block, end))
        if raw != _ZERO_BLOCK[: len(raw)]:  # this comparison is much faster than `rstrip`
            end = block + len(raw.rstrip(b"\0"))
            break
        end = block
    return -(-end // ENTRY_BYTES) * ENTRY_BYTES


def _missing_directory_text(status: FileStatus | None) -> str:
    return "a dangling symbolic link" if status is None else "a file"


def _entry_count_text(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"
