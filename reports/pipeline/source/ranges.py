"""Ranges of the log, one for each task, that begin where a record is proven to begin.

A segment's first byte begins a record, and the chain of sizes leads from there to each next one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ....store.formats.message import RECORD_BYTES_MIN
from ....store.formats.scan import chain
from .directory import WINDOW_BYTES, StoreDirectory, StoreFile


@dataclass(frozen=True, slots=True)
class LogRange:
    """Bytes [start, end) of a segment, as one task reads them."""

    segment: StoreFile
    start: int
    end: int
    is_last: bool
    """Whether nothing has been written to later segments: what has not been written to this one is no damage."""


def log_ranges(
    directory: StoreDirectory, split_bytes: int, first: int = 0, to: int | None = None
) -> list[LogRange]:
    """Return the log in ranges of about split_bytes, in order; 0: one for each segment.

    first, to: log offsets where records are known to begin; what is between them is returned, to the end without `to`.
    """
    segments = directory.segments()
    begun = [segment for segment in segments if has_begun(directory, segment)]
    last = begun[-1].base_offset if begun else 0
    found: list[LogRange] = []
    for segment in segments:
        start = max(first - segment.base_offset, 0)
        end = segment.size_bytes if to is None else min(segment.size_bytes, to - segment.base_offset)
        if start < end:
            found += _ranges_of(
                directory, LogRange(segment, start, end, segment.base_offset >= last), split_bytes
            )
    return found


def has_begun(directory: StoreDirectory, segment: StoreFile) -> bool:
    """Return whether anything has been written where a segment's first record is: stores make segments in advance."""
    view, _ = directory.window(segment, 0, RECORD_BYTES_MIN)
    return bool(view[:RECORD_BYTES_MIN].tobytes().strip(b"\0"))


def _ranges_of(directory: StoreDirectory, whole: LogRange, split_bytes: int) -> Iterator[LogRange]:
    start = whole.start
    if 0 < split_bytes < whole.end - start:
        for boundary in boundaries(directory, whole.segment, start, whole.end):
            if boundary - start >= split_bytes:
                yield replace(whole, start=start, end=boundary)
                start = boundary
    if start < whole.end:
        yield replace(whole, start=start)


def boundaries(directory: StoreDirectory, segment: StoreFile, start: int, end: int) -> Iterator[int]:
    """Yield where each record behind the one at start begins, as far as the chain of sizes leads."""
    at, window_bytes = start, WINDOW_BYTES
    while at < end:
        view, origin = directory.window(segment, at, window_bytes)
        stop = min(end - origin, len(view))
        before = at
        for boundary in chain(view, at - origin, stop, segment.base_offset + origin):
            at = boundary + origin
            yield at
        if origin + stop >= end:
            return
        if at == before:
            if window_bytes >= end - at:
                return
            window_bytes *= 2  # a record that is longer, or the end of the chain
        else:
            window_bytes = WINDOW_BYTES
