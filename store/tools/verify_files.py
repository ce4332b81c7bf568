"""Verifier of files in one row of segments: names, sizes, no gaps. Only files are opened.

They are mapped for as long as they are verified, and may be larger than memory: whoever goes through one from end to
end advises the system of what it has read, as `RawSegment` does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..formats.scan import ScannedRecord, scan_records
from ..log.segment import first_nonzero, is_segment_name, segment_name
from ..log.segment_queue import name_of
from ..world import Files, MappedFile
from .violation import DirectoryPromise, DirectoryViolation, Findings, relative_to

_GIVE_BACK_BYTES = 16 << 20


class RawSegment(NamedTuple):
    """A segment's file, mapped; shorter than its queue's size if it was cut."""

    path: str
    base_offset: int
    view: memoryview
    file: MappedFile
    """What view is a view of."""

    def zeros_from(self, position: int) -> bool:
        """Return whether there is nothing but zeros from a position on."""
        for at in range(position, len(self.view), _GIVE_BACK_BYTES):
            end = min(at + _GIVE_BACK_BYTES, len(self.view))
            if first_nonzero(self.view[at:end]) is not None:
                return False
            self.file.advise_dont_need(at, end)
        return True

    def records_from(self, position: int, end: int, *, check_crc: bool) -> Iterator[ScannedRecord]:
        """Yield what `scan_records` does, and raise what it raises; what was read leaves the memory again."""
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
    """Reads rows of segments of one size, and reports everything odd about their files."""

    files: Files
    segment_bytes: int
    promise: DirectoryPromise
    findings: Findings

    def read(self, directories: Sequence[str]) -> list[RawSegment]:
        """Return what can be read of the segments of one row in its directories, by offset.

        Files at the end that allocation left unborn (too short or behind a gap, and all zero) are not in the result.
        """
        segments: list[RawSegment] = []
        for path in self._paths(directories):
            name = name_of(path)
            if not is_segment_name(name) and (self._is_rebuilt or self._is_directory(path)):
                self.findings.stray(self.promise, path, "file name", "20 digits", name)
                continue
            if not is_segment_name(name) or int(name) % self.segment_bytes:
                self._violated(path, "file name", f"20 digits, a multiple of {self.segment_bytes}", name)
                continue
            file = self._map(path)
            if file is None:
                continue
            segment = RawSegment(path, int(name), file.view(0, file.size_bytes), file)
            if segments and segments[-1].base_offset == segment.base_offset:
                segment = self._keep_one(segments.pop(), segment)
            segments.append(segment)
        self._drop_unborn(segments)
        self._check_row(segments)
        return segments

    @property
    def _is_rebuilt(self) -> bool:
        """Return whether recovery makes these files anew from the log."""
        return self.promise is not DirectoryPromise.LOG

    def _violated(self, path: str, name: str, expected: object, found: object) -> None:
        self.findings.violations.append(self._violation(path, name, expected, found))

    def _violation(self, path: str, name: str, expected: object, found: object) -> DirectoryViolation:
        return self.findings.violation(self.promise, path, 0, name, expected, found)

    def _paths(self, directories: Sequence[str]) -> list[str]:
        found = []
        for directory in directories:
            try:
                found += [f"{directory}/{name}" for name in self.files.list_directory(directory)]
            except OSError as error:
                self.findings.unreadable(self.promise, directory, error)
        return sorted(found, key=name_of)

    def _is_directory(self, path: str) -> bool:
        status = self.files.status(path)
        return status is not None and status.is_directory

    def _keep_one(self, first: RawSegment, second: RawSegment) -> RawSegment:
        """Report two files of one name; return the one that has something in it."""
        twin, kept = (first, second) if first.zeros_from(0) else (second, first)
        expected = "a name that no other directory has"
        found = f"{relative_to(self.findings.root, kept.path)} too"
        violation = self._violation(twin.path, "file name", expected, found)
        if twin.zeros_from(0):
            self.findings.explained(violation, "remove the one that is all zero")
        else:
            self.findings.violations.append(violation)
        return kept

    def _map(self, path: str) -> MappedFile | None:
        status = self.files.status(path)
        if status is None or status.is_directory:
            found = "nothing behind the name" if status is None else "a directory"
            self._violated(path, "file", "a file", found)
            return None
        try:
            return self.files.map(path, status.size_bytes)
        except OSError as error:
            self.findings.unreadable(self.promise, path, error)
            return None

    def _drop_unborn(self, segments: list[RawSegment]) -> None:
        while segments:
            last = segments[-1]
            size_bytes, expected = len(last.view), self.segment_bytes
            behind_gap = len(segments) > 1 and last.base_offset != segments[-2].base_offset + expected
            if (size_bytes >= expected and not behind_gap) or not last.zeros_from(0):
                return
            segments.pop()
            found = f"{size_bytes}, all zero"
            violation = self._violation(last.path, "file size", expected, found)
            self.findings.explained(violation, "remove the unborn segment")

    def _check_row(self, segments: list[RawSegment]) -> None:
        expected = segments[0].base_offset if segments else 0
        for path, base_offset, view, _ in segments:
            if self._is_rebuilt and len(view) < self.segment_bytes:
                violation = self._violation(path, "file size", self.segment_bytes, len(view))
                self.findings.explained(violation, "make it anew from the log")
            elif len(view) != self.segment_bytes:
                self._violated(path, "file size", self.segment_bytes, len(view))
            if base_offset != expected:
                next_name = f"the next segment, {segment_name(expected)}"
                self._violated(path, "base offset", next_name, segment_name(base_offset))
            expected = base_offset + self.segment_bytes
