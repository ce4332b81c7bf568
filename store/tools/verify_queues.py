"""Verifier of consume queues: compares entries with the records of the log, and reads extensions as they are.

An extension must have whole units up to an end mark or to zeros, in every file.
"""

from collections.abc import Iterator

from ..config import StoreConfig
from ..errors import CorruptFileError
from ..formats.consume_queue import (
    END_MARK,
    ENTRY_BYTES,
    ExtUnit,
    QueueEntry,
    decode_entry,
    decode_unit,
    is_blank,
    is_ext_address,
    is_valid,
    offset_of,
    queue_id_of,
    unit_bytes_at,
)
from ..log.segment import first_nonzero
from ..log.segment_queue import SegmentDirectories
from ..world import Files, FileStatus
from .verify_files import RawSegment, RowReader
from .verify_log import LogFacts, QueuedRecords
from .violation import DirectoryPromise, DirectoryViolation, Findings

_VALID = DirectoryPromise.CQ_VALID
_ZEROS = bytes(ENTRY_BYTES)
_CHUNK_BYTES = 1024 * ENTRY_BYTES


class ExtVerifier:
    """Reads extensions, one queue's at a time."""

    def __init__(self, files: Files, config: StoreConfig, findings: Findings) -> None:
        self.file_count = 0
        self.unit_count = 0
        self._files = files
        self._directory = config.consume_queue_ext_directory
        self._reader = RowReader(files, config.mapped_file_size_consume_queue_ext, _VALID, findings)
        self._findings = findings
        self._segments: list[RawSegment] = []
        """Of the queue that was read last."""

    def read(self, topic: str, queue_id: int) -> None:
        """Check the extension of a queue, which may have none."""
        directory = f"{self._directory}/{topic}/{queue_id}"
        self._segments = [] if self._files.status(directory) is None else self._reader.read([directory])
        for segment in self._segments:
            self._verify_file(segment, is_last=segment is self._segments[-1])
        self.file_count += len(self._segments)

    def _unit(self, address: int) -> ExtUnit | None:
        offset = offset_of(address)
        for path, base_offset, view, _ in self._segments:
            if base_offset <= offset < base_offset + len(view):
                try:
                    return decode_unit(view, offset - base_offset, len(view), file=path)
                except CorruptFileError:
                    return None
        return None

    def _verify_file(self, segment: RawSegment, *, is_last: bool) -> None:
        path, _, view, _ = segment
        at = 0
        try:
            while size_bytes := unit_bytes_at(view, at, len(view), file=path):
                at += size_bytes
                self.unit_count += 1
        except CorruptFileError as error:
            self._explained(path, error.offset, error.field, error.expected, error.found)
            return
        if view[at : at + len(END_MARK)] == END_MARK:
            return
        if not is_last:
            self._explained(path, at, "size", "a unit or an end mark, as a file follows", "zeros")
        elif (behind := first_nonzero(view[at:])) is not None:
            self._explained(path, at + behind, "size", "zeros behind the last unit", "something else")

    def _explained(self, path: str, at: int, name: str, expected: str, found: str) -> None:
        violation = self._findings.violation(_VALID, path, at, name, expected, found)
        self._findings.explained(violation, "write the plain tagsCode into entries that lead there")

    def compare(self, entry_file: str, at: int, address: int, tags_code: int, store_timestamp_ms: int) -> None:
        """Check that an entry's address, which is at position at of its file, leads to its record's unit."""
        unit = self._unit(address)
        expected = f"the address of a unit with tagsCode {tags_code} and storeTimestamp {store_timestamp_ms}"
        if unit is None:
            self._explained(entry_file, at, "tagsCode", expected, "one that leads nowhere")
        elif unit[:2] != (tags_code, store_timestamp_ms):
            found = f"that of one with {unit.tags_code} and {unit.store_timestamp_ms}"
            self._explained(entry_file, at, "tagsCode", expected, found)


class QueueVerifier:
    """One pass over all queues of a store."""

    def __init__(
        self,
        files: Files,
        config: StoreConfig,
        log_directories: SegmentDirectories,
        facts: LogFacts,
        durable_ms: int,
        findings: Findings,
    ) -> None:
        self.queues = self.entries = self.blanks = 0
        self.expired = 0
        """Entries whose records are no longer in the log."""
        self.ext = ExtVerifier(files, config, findings)
        self._files = files
        self._directory = config.consume_queue_directory
        self._reader = RowReader(files, config.mapped_file_size_consume_queue, _VALID, findings)
        self._log_directories = log_directories
        self._log_bytes = config.mapped_file_size_commit_log
        self._facts = facts
        self._durable_ms = durable_ms
        """Store time up to which no unclean exit can have taken an entry."""
        self._findings = findings

    def verify(self) -> None:
        """Check every queue there is, and every queue there should be."""
        for topic, queue_id, directory in self._queue_directories():
            self._verify_queue(topic, queue_id, directory)
        for (topic, queue_id), records in sorted(self._facts.queues.items()):
            if len(records):
                self._complete(topic, queue_id, records, bytearray(len(records)), end=0)

    def _queue_directories(self) -> list[tuple[str, int, str]]:
        found: list[tuple[str, int, str]] = []
        for topic, status in self._named_in(self._directory):
            path = f"{self._directory}/{topic}"
            if status is None or not status.is_directory:
                self._findings.stray(_VALID, path, "topic", "a directory", _no_directory(status))
                continue
            for name, status in self._named_in(path):
                queue_id = queue_id_of(name)
                if queue_id is None:
                    self._findings.stray(_VALID, f"{path}/{name}", "queueId", "a number", name)
                elif status is None or not status.is_directory:
                    self._violated(f"{path}/{name}", 0, "queueId", "a directory", _no_directory(status))
                else:
                    found.append((topic, queue_id, f"{path}/{name}"))
        return found

    def _named_in(self, path: str) -> list[tuple[str, FileStatus | None]]:
        """Return the names in a directory that may be missing, each with what is behind it."""
        try:
            if self._files.status(path) is None:
                return []
            names = self._files.list_directory(path)
            return [(name, self._files.status(f"{path}/{name}")) for name in names]
        except OSError as error:
            self._findings.unreadable(_VALID, path, error)
        return []

    def _violated(self, file: str, offset: int, field: str, expected: object, found: object) -> None:
        self._findings.violated(_VALID, file, offset, field, expected, found)

    # -- one queue ---------------------------------------------------------------------------------

    def _verify_queue(self, topic: str, queue_id: int, directory: str) -> None:
        self.queues += 1
        segments = self._reader.read([directory])
        self.ext.read(topic, queue_id)
        records = self._facts.queues.pop((topic, queue_id), None) or QueuedRecords()
        covered = bytearray(len(records))
        end = beyond = 0
        hole: tuple[RawSegment, int] | None = None
        first_beyond: DirectoryViolation | None = None
        for segment in segments:
            used = _used_bytes(segment.view)
            for at in self._doubtful(segment, used, records, covered):
                if segment.view[at : at + ENTRY_BYTES] == _ZEROS:
                    hole = hole or (segment, at)
                    continue
                if hole is not None:
                    self._violated(hole[0].path, hole[1], "entry", "no hole, as entries follow", "zeros")
                    hole = None
                index = (segment.base_offset + at) // ENTRY_BYTES
                dangling = self._verify_entry(segment, at, index, records, covered)
                if dangling is None:
                    end = index + 1
                else:
                    beyond += 1
                    first_beyond = first_beyond or dangling
            if used < len(segment.view) and hole is None:
                hole = (segment, used)
        if first_beyond is not None:
            self._findings.explained(first_beyond, f"cut {_entries(beyond)} behind the log's end")
        self._complete(topic, queue_id, records, covered, end=end)

    def _doubtful(self, segment: RawSegment, used: int, records: QueuedRecords, covered: bytearray) -> Iterator[int]:
        """Yield where entries are that are to be looked at: of a chunk that is as the records say only the last one."""
        for begin in range(0, used, _CHUNK_BYTES):
            end = min(begin + _CHUNK_BYTES, used)
            chunk = segment.view[begin:end]
            if len(chunk) == end - begin:
                index = (segment.base_offset + begin) // ENTRY_BYTES
                position = records.position_of(decode_entry(chunk, 0).physical_offset)
                if records.are(position, index, chunk):
                    count = len(chunk) // ENTRY_BYTES - 1
                    covered[position : position + count] = b"\1" * count
                    self.entries += count
                    begin += count * ENTRY_BYTES
            yield from range(begin, end, ENTRY_BYTES)

    def _verify_entry(
        self, segment: RawSegment, at: int, index: int, records: QueuedRecords, covered: bytearray
    ) -> DirectoryViolation | None:
        """Check one entry; return it as a violation if it points behind the log's end."""
        self.entries += 1
        if len(segment.view) - at < ENTRY_BYTES:
            self._violated(segment.path, at, "entry", f"{ENTRY_BYTES} bytes", f"{len(segment.view) - at}")
            return None
        entry = decode_entry(segment.view, at)
        if is_blank(entry):
            self.blanks += 1
        elif not is_valid(entry):
            field, offset = ("phyOffset", at) if entry.physical_offset < 0 else ("size", at + 8)
            self._violated(segment.path, offset, field, "more than 0", min(entry[:2]))
        elif entry.physical_offset < self._facts.min_offset:
            self.expired += 1
        else:
            position = records.position_of(entry.physical_offset)
            if position < len(records) and records.entry(position).physical_offset == entry.physical_offset:
                covered[position] = 1
                self._compare(segment, at, index, entry, records, position)
            elif entry.physical_offset >= self._facts.end_offset:
                place = _VALID, segment.path, at
                expected = f"below {self._facts.end_offset}, the log's end"
                return self._findings.violation(*place, "phyOffset", expected, entry.physical_offset)
            else:
                expected = "where a record of this queue begins"
                self._violated(segment.path, at, "phyOffset", expected, entry.physical_offset)
        return None

    def _compare(
        self,
        segment: RawSegment,
        at: int,
        index: int,
        entry: QueueEntry,
        records: QueuedRecords,
        position: int,
    ) -> None:
        _, size_bytes, code = records.entry(position)
        if entry.size_bytes != size_bytes:
            self._violated(segment.path, at + 8, "size", size_bytes, entry.size_bytes)
        if is_ext_address(entry.tags_code) and entry.tags_code != code:
            stored_ms = records.stored_ms[position]
            self.ext.compare(segment.path, at + 12, entry.tags_code, code, stored_ms)
        elif entry.tags_code != code:
            self._violated(segment.path, at + 12, "tagsCode", code, entry.tags_code)
        if index != records.queue_offsets[position]:
            expected = f"the record with queueOffset {index}"
            found = f"{entry.physical_offset}, with queueOffset {records.queue_offsets[position]}"
            self._violated(segment.path, at, "phyOffset", expected, found)

    def _complete(self, topic: str, queue_id: int, records: QueuedRecords, covered: bytearray, *, end: int) -> None:
        """Report every record without an entry; behind the queue's end an unclean exit explains it."""
        missing = 0
        first: DirectoryViolation | None = None
        position = covered.find(0)
        while position >= 0:
            if position not in records.damaged:
                violation = self._without_entry(topic, queue_id, records, position)
                is_late = records.stored_ms[position] > self._durable_ms
                is_tail = is_late and records.queue_offsets[position] >= end
                if is_tail:
                    first = first or violation
                    missing += 1
                if not (is_tail and self._findings.unclean_exit):
                    self._findings.violations.append(violation)
            position = covered.find(0, position + 1)
        if first is not None and self._findings.unclean_exit:
            self._findings.explained(first, f"add {_entries(missing)} to the queue")

    def _without_entry(self, topic: str, queue_id: int, records: QueuedRecords, position: int) -> DirectoryViolation:
        physical_offset = records.entry(position).physical_offset
        at = physical_offset % self._log_bytes
        base_offset = physical_offset - at
        path = self._log_directories.path(base_offset, self._log_bytes)
        expected = f"entry {records.queue_offsets[position]} in consumequeue/{topic}/{queue_id}"
        place = DirectoryPromise.CQ_COMPLETE, path, at
        return self._findings.violation(*place, "queue entry", expected, "none")


def _used_bytes(view: memoryview) -> int:
    """Return where the zero entries at a segment's end begin."""
    end = len(view)
    while end and not view[end - 1]:
        block = max(0, end - 65536)
        kept = len(bytes(view[block:end]).rstrip(b"\0"))
        end = block + kept
    return -(-end // ENTRY_BYTES) * ENTRY_BYTES


def _no_directory(status: FileStatus | None) -> str:
    return "nothing behind the name" if status is None else "a file"


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"
