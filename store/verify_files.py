"""The files of one row of segments, as they are: names, sizes, no gaps. Nothing is opened that is not a file."""

from typing import NamedTuple

from .geometry import is_segment_name
from .segments.segment import first_nonzero, segment_name
from .violation import Findings, Promise, Violation
from .world import Files


class RawSegment(NamedTuple):
    """A segment's file, mapped; shorter than its queue's size if it was cut."""

    path: str
    base_offset: int
    view: memoryview


def read_segments(
    files: Files, directory: str, segment_bytes: int, promise: Promise, findings: Findings
) -> list[RawSegment]:
    """Return what can be read of a directory of segments, by offset, and report everything odd about the files.

    Files at the end that allocation left unborn (too short or behind a gap, and all zero) are not in the result.
    """
    segments = []
    for name in _names(files, directory, promise, findings):
        path = f"{directory}/{name}"
        if not is_segment_name(name) or int(name) % segment_bytes:
            findings.violated(
                promise, path, 0, "file name", f"20 digits, a multiple of {segment_bytes}", name
            )
            continue
        view = _read(files, path, promise, findings)
        if view is not None:
            segments.append(RawSegment(path, int(name), view))
    _drop_unborn(segments, segment_bytes, promise, findings)
    _check_row(segments, segment_bytes, promise, findings)
    return segments


def _names(files: Files, directory: str, promise: Promise, findings: Findings) -> list[str]:
    try:
        return files.list_directory(directory)
    except OSError as error:
        findings.unreadable(promise, directory, error)
        return []


def _read(files: Files, path: str, promise: Promise, findings: Findings) -> memoryview | None:
    status = files.status(path)
    if status is None or status.is_directory:
        found = "nothing behind the name" if status is None else "a directory"
        findings.violated(promise, path, 0, "file", "a file", found)
        return None
    try:
        return files.map(path, status.size_bytes).view(0, status.size_bytes)
    except OSError as error:
        findings.unreadable(promise, path, error)
        return None


def _drop_unborn(
    segments: list[RawSegment], segment_bytes: int, promise: Promise, findings: Findings
) -> None:
    while segments:
        path, base_offset, view = segments[-1]
        behind_gap = len(segments) > 1 and base_offset != segments[-2].base_offset + segment_bytes
        if (len(view) >= segment_bytes and not behind_gap) or first_nonzero(view) is not None:
            return
        segments.pop()
        violation = Violation(
            promise, findings.relative(path), 0, "file size", str(segment_bytes), f"{len(view)}, all zero"
        )
        findings.explained(violation, "remove the unborn segment")


def _check_row(segments: list[RawSegment], segment_bytes: int, promise: Promise, findings: Findings) -> None:
    expected = segments[0].base_offset if segments else 0
    for path, base_offset, view in segments:
        if len(view) != segment_bytes:
            findings.violated(promise, path, 0, "file size", segment_bytes, len(view))
        if base_offset != expected:
            next_name = f"the next segment, {segment_name(expected)}"
            findings.violated(promise, path, 0, "base offset", next_name, segment_name(base_offset))
        expected = base_offset + segment_bytes
