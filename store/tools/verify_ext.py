"""Checks the extensions of the consume queues as they are: whole units up to an end mark or to zeros, in every file."""

from dataclasses import dataclass, field

from ..errors import CorruptFileError
from ..formats.consume_queue_ext import END_MARK, ExtUnit, decode_unit, offset_of, unit_bytes_at
from ..log.segment import first_nonzero
from ..world import Files
from .verify_files import RawSegment, read_segments
from .violation import DirectoryPromise, DirectoryViolation, Findings

_CONSEQUENCE = "write the plain tagsCode into entries that lead there"


@dataclass(slots=True)
class ExtFiles:
    """The extension of one queue."""

    segments: list[RawSegment] = field(default_factory=list)

    def unit(self, address: int) -> ExtUnit | None:
        """Return the unit with an address, None if there is none."""
        offset = offset_of(address)
        for path, base_offset, view, _ in self.segments:
            if base_offset <= offset < base_offset + len(view):
                try:
                    return decode_unit(view, offset - base_offset, len(view), file=path)
                except CorruptFileError:
                    return None
        return None


class ExtVerifier:
    """Reads extensions, one queue's at a time."""

    def __init__(self, files: Files, directory: str, segment_bytes: int, findings: Findings) -> None:
        self.file_count = 0
        self.unit_count = 0
        self._files = files
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._findings = findings

    def read(self, topic: str, queue_id: int) -> ExtFiles:
        """Check and return the extension of a queue, which may have none."""
        directory = f"{self._directory}/{topic}/{queue_id}"
        if self._files.status(directory) is None:
            return ExtFiles()
        segments = read_segments(
            self._files, [directory], self._segment_bytes, DirectoryPromise.CQ_VALID, self._findings
        )
        for segment in segments:
            self._verify_file(segment, is_last=segment is segments[-1])
        self.file_count += len(segments)
        return ExtFiles(segments)

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
        violation = DirectoryViolation(
            DirectoryPromise.CQ_VALID, self._findings.relative(path), at, name, expected, found
        )
        self._findings.explained(violation, _CONSEQUENCE)

    def compare(
        self, entry_file: str, at: int, unit: ExtUnit | None, tags_code: int, store_timestamp_ms: int
    ) -> None:
        """Check that an entry's address, which is at position at of its file, leads to its record's unit."""
        expected = f"the address of a unit with tagsCode {tags_code} and storeTimestamp {store_timestamp_ms}"
        if unit is None:
            self._explained(entry_file, at, "tagsCode", expected, "one that leads nowhere")
        elif unit[:2] != (tags_code, store_timestamp_ms):
            found = f"that of one with {unit.tags_code} and {unit.store_timestamp_ms}"
            self._explained(entry_file, at, "tagsCode", expected, found)
