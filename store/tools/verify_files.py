"""Verifier of files in one row of segments: names, sizes, no gaps. Only files are opened.

They are mapped for as long as they are verified, and may be larger than memory: whoever goes through one from end to
end tells the system what it has read, as `RawSegment` does.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..formats.scan import ScannedRecord, scan_records
from ..log.segment import first_nonzero, is_segment_name, segment_name
from ..log.segment_queue import name_of
from ..world import Files, MappedFile
from .violation import DirectoryPromise, DirectoryViolation, Findings

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


def read_segments(
    files: Files,
    directories: Sequence[str],
    segment_bytes: int,
    promise: DirectoryPromise,
    findings: Findings,
) -> list[RawSegment]:
    """Return what can be read of the segments in directories, by offset, and report everything odd about the files.

    Files at the end that allocation left unborn (too short or behind a gap, and all zero) are not in the result.
    """
    segments: list[RawSegment] = []
    for path in _paths(files, directories, promise, findings):
        name = name_of(path)
        if not is_segment_name(name) and (promise is not DirectoryPromise.LOG or _is_directory(files, path)):
            findings.stray(promise, path, "file name", "20 digits", name)
            continue
        if not is_segment_name(name) or int(name) % segment_bytes:
            findings.violated(
                promise, path, 0, "file name", f"20 digits, a multiple of {segment_bytes}", name
            )
            continue
        file = _map(files, path, promise, findings)
        if file is None:
            continue
        segment = RawSegment(path, int(name), file.view(0, file.size_bytes), file)
        if segments and segments[-1].base_offset == segment.base_offset:
            segment = _keep_one(segments.pop(), segment, promise, findings)
        segments.append(segment)
    _drop_unborn(segments, segment_bytes, promise, findings)
    _check_row(segments, segment_bytes, promise, findings)
    return segments


def _paths(
    files: Files, directories: Sequence[str], promise: DirectoryPromise, findings: Findings
) -> list[str]:
    found = []
    for directory in directories:
        try:
            found += [f"{directory}/{name}" for name in files.list_directory(directory)]
        except OSError as error:
            findings.unreadable(promise, directory, error)
    return sorted(found, key=name_of)


def _is_directory(files: Files, path: str) -> bool:
    status = files.status(path)
    return status is not None and status.is_directory


def _keep_one(
    first: RawSegment, second: RawSegment, promise: DirectoryPromise, findings: Findings
) -> RawSegment:
    """Report two files of one name; return the one that has something in it."""
    twin, kept = (first, second) if first.zeros_from(0) else (second, first)
    violation = DirectoryViolation(
        promise,
        findings.relative(twin.path),
        0,
        "file name",
        "a name that no other directory has",
        f"{findings.relative(kept.path)} too",
    )
    if twin.zeros_from(0):
        findings.explained(violation, "remove the one that is all zero")
    else:
        findings.violations.append(violation)
    return kept


def _map(files: Files, path: str, promise: DirectoryPromise, findings: Findings) -> MappedFile | None:
    status = files.status(path)
    if status is None or status.is_directory:
        found = "nothing behind the name" if status is None else "a directory"
        findings.violated(promise, path, 0, "file", "a file", found)
        return None
    try:
        return files.map(path, status.size_bytes)
    except OSError as error:
        findings.unreadable(promise, path, error)
        return None


def _drop_unborn(
    segments: list[RawSegment], segment_bytes: int, promise: DirectoryPromise, findings: Findings
) -> None:
    while segments:
        last = segments[-1]
        size_bytes = len(last.view)
        behind_gap = len(segments) > 1 and last.base_offset != segments[-2].base_offset + segment_bytes
        if (size_bytes >= segment_bytes and not behind_gap) or not last.zeros_from(0):
            return
        segments.pop()
        violation = DirectoryViolation(
            promise,
            findings.relative(last.path),
            0,
            "file size",
            str(segment_bytes),
            f"{size_bytes}, all zero",
        )
        findings.explained(violation, "remove the unborn segment")


def _check_row(
    segments: list[RawSegment], segment_bytes: int, promise: DirectoryPromise, findings: Findings
) -> None:
    expected = segments[0].base_offset if segments else 0
    for path, base_offset, view, _ in segments:
        if len(view) != segment_bytes:
            found = DirectoryViolation(
                promise, findings.relative(path), 0, "file size", str(segment_bytes), str(len(view))
            )
            if promise is not DirectoryPromise.LOG and len(view) < segment_bytes:
                findings.explained(found, "make it anew from the log")
            else:
                findings.violations.append(found)
        if base_offset != expected:
            next_name = f"the next segment, {segment_name(expected)}"
            findings.violated(promise, path, 0, "base offset", next_name, segment_name(base_offset))
        expected = base_offset + segment_bytes
