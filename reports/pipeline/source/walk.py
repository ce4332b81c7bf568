"""A walk over whole records of a live log, which is read no further than it is written."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from isal.isal_zlib import crc32

from ....store.errors import CorruptFileError
from ....store.formats.message import RECORD_BYTES_MIN
from ....store.formats.scan import is_closed_at, scan_records
from .directory import WINDOW_BYTES, StoreDirectory, StoreFile
from .ranges import has_begun

_HEAD_BYTES = RECORD_BYTES_MIN - 3
"""Fixed fields of a record, its body's checksum and its store time among them: no two records have the same."""


class WalkedRecord(NamedTuple):
    """A whole record: where it is, its fingerprint, and its store time."""

    physical_offset: int
    fingerprint: int
    end: int
    stored_ms: int


class Walk:
    """A look at whole records from a log offset on, over the ends of segments."""

    def __init__(
        self,
        directory: StoreDirectory,
        segments: Sequence[StoreFile],
        begin: int,
        before_ms: int | None,
        target: int | None = None,
    ) -> None:
        """before_ms: store time of the first record to stop in front of; target: log offset to stop at."""
        self.end = begin
        """Log offset behind the last record that was yielded."""
        self._directory = directory
        self._segments = [one for one in segments if one.base_offset + one.size_bytes > begin]
        self._before_ms = before_ms
        self._target = target
        begun = [one.base_offset for one in self._segments if has_begun(directory, one)]
        self._last_begun = begun[-1] if begun else 0

    def records(self) -> Iterator[WalkedRecord]:
        """Yield whole records."""
        for segment in self._segments:
            if segment.base_offset > self.end:
                return  # a gap: the segment between is not there yet
            for seen in self._of(segment):
                if self._before_ms is not None and seen.stored_ms >= self._before_ms:
                    return
                if self._target is not None and seen.end > self._target:
                    return
                self.end = seen.end
                yield seen
            if segment.base_offset >= self._last_begun and not self._is_full(segment):
                return
            self.end = segment.base_offset + segment.size_bytes

    def _of(self, segment: StoreFile) -> Iterator[WalkedRecord]:
        """Yield those of one segment, up to a blank one, what is not there yet, or damage."""
        at, window_bytes = self.end - segment.base_offset, WINDOW_BYTES
        while at < segment.size_bytes:
            view, origin = self._directory.window(segment, at, window_bytes)
            base_offset, before = segment.base_offset + origin, at
            scan = scan_records(
                view, at - origin, len(view), file=segment.path, base_offset=base_offset, check_crc=True
            )
            try:
                for record in scan:
                    start = record.physical_offset - base_offset
                    at = origin + start + record.size_bytes
                    yield WalkedRecord(
                        record.physical_offset,
                        crc32(view[start : start + _HEAD_BYTES]),
                        segment.base_offset + at,
                        record.store_timestamp_ms,
                    )
                return
            except CorruptFileError:
                if origin + len(view) >= segment.size_bytes:
                    return
            window_bytes = WINDOW_BYTES if at > before else window_bytes * 2

    def _is_full(self, segment: StoreFile) -> bool:
        """Return whether a blank record, or the last byte, says that there is nothing more to come."""
        position = self.end - segment.base_offset
        if position >= segment.size_bytes:
            return True
        view, origin = self._directory.window(segment, position)
        return is_closed_at(view, position - origin, segment.size_bytes - origin)
