"""Verifier of the extension files of consume queues.

Every extension file must contain whole units up to an end mark or to zeros.
"""

from ..config import StoreConfig
from ..errors import CorruptFileError
from ..formats.consume_queue import END_MARK, ExtUnit, decode_unit, ext_offset_of, unit_bytes_at
from ..log.segment import first_nonzero
from ..world import Files
from .verify_files import RawSegment, RowReader
from .violation import DirectoryPromise, Findings

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
            self._report_explained(path, at, "size", "a unit or an end mark, as a file follows", "zeros")
        elif (behind := first_nonzero(view[at:])) is not None:
            self._report_explained(path, at + behind, "size", "zeros after the last unit", "something else")

    def _report_explained(self, path: str, at: int, name: str, expected: str, found: str) -> None:
        violation = self._findings.violation(_VALID, path, at, name, expected, found)
        self._findings.add_explained(violation, "write the plain tagsCode into entries that lead there")

    def compare(self, entry_file: str, at: int, address: int, tags_code: int, store_timestamp_ms: int) -> None:
        """Check that an entry's address refers to the unit of its record. `at` is the position in entry_file."""
        unit = self._unit_at(address)
        expected = f"the address of a unit with tagsCode {tags_code} and storeTimestamp {store_timestamp_ms}"
        if unit is None:
            self._report_explained(entry_file, at, "tagsCode", expected, "an address without a unit")
        elif unit[:2] != (tags_code, store_timestamp_ms):
            found = f"one with {unit.tags_code} and {unit.store_timestamp_ms}"
            self._report_explained(entry_file, at, "tagsCode", expected, found)
