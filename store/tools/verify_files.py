"""Verifier of files: checks names, sizes and gaps of segments, extension files, and JSON files below `config/`.

Files may be larger than memory, because `RawSegment` releases pages after reading. An extension file must contain whole
units up to an end mark or to zeros.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..config import StoreConfig
from ..delivery.schedule import decoded_offsets
from ..errors import CorruptFileError
from ..formats.consume_queue import END_MARK, ExtUnit, decode_unit, ext_offset_of, unit_bytes_at
from ..formats.scan import ScannedRecord, scan_records
from ..formats.side_json import SIDE_JSON_BYTES_MAX, decode_side_json
from ..log.segment import first_nonzero, is_segment_name, segment_name
from ..log.segment_queue import file_name_of
from ..services.consumer_offsets import decoded_consumer_offsets
from ..world import Files, MappedFile
from .violation import DirectoryPromise, DirectoryViolation, Findings, relative_to

_GIVE_BACK_BYTES = 16 << 20
_NEAR_BYTES = 64 << 10


class RawSegment:
    """A mapped segment file, which may be truncated."""

    def __init__(self, path: str, base_offset: int, file: MappedFile, file_bytes: int | None = None) -> None:
        self.path = path
        self.base_offset = base_offset
        self.size_bytes = file.size_bytes
        """Number of mapped bytes, at most the segment size."""
        self.file_bytes = file.size_bytes if file_bytes is None else file_bytes
        self.file = file
        self._near = memoryview(b"")
        self._near_at = 0

    @cached_property
    def view(self) -> memoryview:
        """The whole file. The first access requests all of it at once, because remote files are slow."""
        return self.file.view(0, self.size_bytes)

    def bytes_at(self, position: int, size_bytes: int) -> memoryview:
        """Return size_bytes from `position` on, fewer at the end of the file. Reads only nearby pages."""
        assert 0 <= position <= self.size_bytes, (position, self.size_bytes)
        begin = position - self._near_at
        if not 0 <= begin <= begin + size_bytes <= len(self._near):
            end = min(position + max(size_bytes, _NEAR_BYTES), self.size_bytes)
            self._near_at, begin = position, 0
            self._near = self.file.view(position, end)
        return self._near[begin : begin + size_bytes]

    def zeros_from(self, position: int) -> bool:
        for at in range(position, self.size_bytes, _GIVE_BACK_BYTES):
            end = min(at + _GIVE_BACK_BYTES, self.size_bytes)
            if first_nonzero(self.view[at:end]) is not None:
                return False
            self.file.advise_dont_need(at, end)
        return True

    def records_from(self, position: int, end: int, *, check_crc: bool) -> Iterator[ScannedRecord]:
        """Scan records like `scan_records`, and release pages after reading."""
        given_back = at = position
        try:
            for record in scan_records(
                self.view, position, end, file=self.path, base_offset=self.base_offset, check_crc=check_crc
            ):
                yield record
                at = record.physical_offset - self.base_offset
                if at - given_back >= _GIVE_BACK_BYTES:
                    self.file.advise_dont_need(given_back, at)
                    given_back = at
        finally:
            self.file.advise_dont_need(given_back, at)


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads the segments of the log or a queue, and reports defects of their files."""

    files: Files
    segment_bytes: int
    promise: DirectoryPromise
    findings: Findings

    def read(self, directories: Sequence[str]) -> list[RawSegment]:
        """Return all readable segments, ordered by offset.

        The result does not contain unfinished files at the end: all-zero files that are too short or after a gap.
        """
        segments: list[RawSegment] = []
        for path in self._segment_paths(directories):
            name = file_name_of(path)
            if not is_segment_name(name) and (self._is_rebuilt_from_log or self._is_directory(path)):
                self.findings.add_stray_note(self.promise, path, "file name", "20 digits", name)
                continue
            if not is_segment_name(name) or int(name) % self.segment_bytes:
                self._report_violation(path, "file name", f"20 digits, a multiple of {self.segment_bytes}", name)
                continue
            segment = self._map_segment(path, int(name))
            if segment is None:
                continue
            if segments and segments[-1].base_offset == segment.base_offset:
                segment = self._keep_file_with_data(segments.pop(), segment)
            segments.append(segment)
        self._drop_unfinished(segments)
        self._check_segment_order(segments)
        return segments

    @property
    def _is_rebuilt_from_log(self) -> bool:
        return self.promise is not DirectoryPromise.LOG

    def _report_violation(self, path: str, name: str, expected: object, found: object) -> None:
        self.findings.violations.append(self._violation(path, name, expected, found))

    def _violation(self, path: str, name: str, expected: object, found: object) -> DirectoryViolation:
        return self.findings.violation(self.promise, path, 0, name, expected, found)

    def _segment_paths(self, directories: Sequence[str]) -> list[str]:
        found = []
        for directory in directories:
            try:
                found += [f"{directory}/{name}" for name in self.files.list_directory(directory)]
            except OSError as error:
                self.findings.add_unreadable(self.promise, directory, error)
        return sorted(found, key=file_name_of)

    def _is_directory(self, path: str) -> bool:
        status = self.files.status(path)
        return status is not None and status.is_directory

    def _keep_file_with_data(self, first: RawSegment, second: RawSegment) -> RawSegment:
        """Report two files of the same name. Returns the file that is not all zero."""
        duplicate, kept = (first, second) if self._is_file_all_zero(first) else (second, first)
        found = f"the same name as {relative_to(self.findings.root, kept.path)}"
        violation = self._violation(duplicate.path, "file name", "a unique name", found)
        if self._is_file_all_zero(duplicate):
            self.findings.add_explained(violation, "remove the file that is all zero")
        else:
            self.findings.violations.append(violation)
        return kept

    def _is_file_all_zero(self, segment: RawSegment) -> bool:
        return segment.file_bytes <= self.segment_bytes and segment.zeros_from(0)

    def _map_segment(self, path: str, base_offset: int) -> RawSegment | None:
        status = self.files.status(path)
        if status is None or status.is_directory:
            found = "a dangling symbolic link" if status is None else "a directory"
            self._report_violation(path, "file", "a file", found)
            return None
        try:
            file = self.files.map(path, min(status.size_bytes, self.segment_bytes))
            return RawSegment(path, base_offset, file, status.size_bytes)
        except OSError as error:
            self.findings.add_unreadable(self.promise, path, error)
            return None

    def _drop_unfinished(self, segments: list[RawSegment]) -> None:
        while segments:
            last = segments[-1]
            size_bytes, expected = last.file_bytes, self.segment_bytes
            follows_gap = len(segments) > 1 and last.base_offset != segments[-2].base_offset + expected
            if (size_bytes >= expected and not follows_gap) or not self._is_file_all_zero(last):
                return
            segments.pop()
            found = f"{size_bytes}, all zero"
            violation = self._violation(last.path, "file size", expected, found)
            self.findings.add_explained(violation, "remove the unfinished segment")

    def _check_segment_order(self, segments: list[RawSegment]) -> None:
        expected = segments[0].base_offset if segments else 0
        for segment in segments:
            path, base_offset, size_bytes = segment.path, segment.base_offset, segment.file_bytes
            if self._is_rebuilt_from_log and size_bytes < self.segment_bytes:
                violation = self._violation(path, "file size", self.segment_bytes, size_bytes)
                self.findings.add_explained(violation, "rebuild it from the log")
            elif size_bytes != self.segment_bytes:
                self._report_violation(path, "file size", self.segment_bytes, size_bytes)
            if base_offset != expected:
                next_name = f"the next segment, {segment_name(expected)}"
                self._report_violation(path, "base offset", next_name, segment_name(base_offset))
            expected = base_offset + self.segment_bytes


_VALID = DirectoryPromise.CQ_VALID


class ExtVerifier:
    """Reads the extension files of one queue at a time."""

    def __init__(self, files: Files, config: StoreConfig, findings: Findings) -> None:
        self.file_count = 0
        self.unit_count = 0
        self._files = files
        self._directory = config.consume_queue_ext_directory
        self._reader = RowReader(files, config.mapped_file_size_consume_queue_ext, _VALID, findings)
        self._findings = findings
        self._segments: list[RawSegment] = []

    def read(self, topic: str, queue_id: int) -> None:
        directory = f"{self._directory}/{topic}/{queue_id}"
        self._segments = [] if self._files.status(directory) is None else self._reader.read([directory])
        for segment in self._segments:
            self._verify_file(segment, is_last=segment is self._segments[-1])
        self.file_count += len(self._segments)

    def _unit_at(self, address: int) -> ExtUnit | None:
        offset = ext_offset_of(address)
        for segment in self._segments:
            at = offset - segment.base_offset
            if 0 <= at < segment.size_bytes:
                try:
                    return decode_unit(segment.view, at, segment.size_bytes, file=segment.path)
                except CorruptFileError:
                    return None
        return None

    def _verify_file(self, segment: RawSegment, *, is_last: bool) -> None:
        path, view, at = segment.path, segment.view, 0
        try:
            while size_bytes := unit_bytes_at(view, at, len(view), file=path):
                at += size_bytes
                self.unit_count += 1
        except CorruptFileError as error:
            self._report_explained(path, error.offset, error.field, error.expected, error.found)
            return
        if view[at : at + len(END_MARK)] == END_MARK:
            return
        if not is_last:
            self._report_explained(path, at, "size", "a unit or an end mark, because a file follows", "zeros")
        elif (nonzero_at := first_nonzero(view[at:])) is not None:
            self._report_explained(path, at + nonzero_at, "size", "zeros after the last unit", "other bytes")

    def _report_explained(self, path: str, at: int, name: str, expected: str, found: str) -> None:
        violation = self._findings.violation(_VALID, path, at, name, expected, found)
        self._findings.add_explained(violation, "write the plain tagsCode into entries that refer to it")

    def compare(self, entry_file: str, at: int, address: int, tags_code: int, store_timestamp_ms: int) -> None:
        """Check that an entry's address refers to the unit of its record. `at` is the position in entry_file."""
        unit = self._unit_at(address)
        expected = f"the address of a unit with tagsCode {tags_code} and storeTimestamp {store_timestamp_ms}"
        if unit is None:
            self._report_explained(entry_file, at, "tagsCode", expected, "an address without a unit")
        elif unit[:2] != (tags_code, store_timestamp_ms):
            found = f"one with {unit.tags_code} and {unit.store_timestamp_ms}"
            self._report_explained(entry_file, at, "tagsCode", expected, found)


def _decode_side_file(raw: bytes, file: str) -> object:
    return decode_side_json(raw, file=file)


_DECODERS: Mapping[str, Callable[[bytes, str], Any]] = {
    "delayOffset.json": decoded_offsets,
    "consumerOffset.json": decoded_consumer_offsets,
    "lmqConsumerOffset.json": decoded_consumer_offsets,
}
"""The decoder of each file name. All other files, for example `topics.json`, must only be valid JSON."""


def damaged_side_files(files: Files, config: StoreConfig) -> Iterator[CorruptFileError]:
    """Yield an error for each invalid side file. A service then uses the `.bak` file or starts without a file.

    Raises OSError for unreadable files.
    """
    directory = config.config_directory
    status = files.status(directory)
    if status is None or not status.is_directory:
        return
    for name in files.list_directory(directory):
        path = f"{directory}/{name}"
        found = files.status(path)
        # An empty file is not damage: a crash can leave a new file empty, and a service then uses the backup.
        if not name.endswith(".json") or found is None or found.is_directory or not found.size_bytes:
            continue
        if found.size_bytes > SIDE_JSON_BYTES_MAX:
            yield CorruptFileError(path, 0, "file size", f"{SIDE_JSON_BYTES_MAX} or less", found.size_bytes)
            continue
        try:
            _DECODERS.get(name, _decode_side_file)(files.read(path), path)
        except CorruptFileError as error:
            yield error
