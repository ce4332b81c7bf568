"""Followed log: divides one log into the parts that a stream reads, and measures the lag.

A part is a range of the log. The stream offset of a part contains the range and the last records before its end, so
that the part can be read again. A stream stops before a record that the store is still writing. Recovery may truncate
records that the stream has read, and the store may then write others. The stream resumes after the last unchanged
record in its stream offset. A process kill loses no whole record. A power cut may lose all records in the offset; the
stream then ends with LogCutError. With `upTo` = `durable` the stream reads only data that recovery never truncates: up
to the checkpoint, or after a clean stop the whole log.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from isal.isal_zlib import crc32

from .checkpoint import durable_times
from .directory import StoreDirectory
from .known_records import KnownRecords, no_known_record_error, old_marks_of, record_head_at
from .log_walk import BatchLimits, LogEnd, LogWalk


class ExpiredError(Exception):
    """Retention has removed records that the stream has not read."""


class PlannedPart(NamedTuple):
    """The part of one log that a batch reads."""

    offset: dict[str, Any]
    size_bytes: int
    rows: int
    """Number of records, if a limit requires the count."""


class FollowedLog:
    """The log of one directory."""

    def __init__(self, directory: StoreDirectory, *, durable: bool) -> None:
        """durable: read only the part of the log that recovery cannot truncate."""
        self.directory = directory
        self._durable = durable
        self._log_end = LogEnd()
        self._planned: tuple[int, int] | None = None
        """The end of the last planned part, and the store time of its last record."""
        self._target: int | None = None
        """Log offset at which a query with a fixed end (Trigger.AvailableNow) stops."""

    def first_offset(self) -> dict[str, Any]:
        segments = self.directory.segments()
        begin = segments[0].base_offset if segments else 0
        return _offset_fields(begin, begin, KnownRecords())

    def plan(self, start: dict[str, Any], limits: BatchLimits) -> PlannedPart:
        """Plan the next part. Without new records, the part ends where it starts."""
        walk = LogWalk(self.directory)
        begin, oldest = self._find_resume_offset(walk, start)
        if walk.segments and begin < walk.segments[0].base_offset:
            raise ExpiredError(
                f"the log begins at {walk.segments[0].base_offset}, after the stream's position {begin}: the records"
                " between were removed unread. A stream with a new checkpointLocation starts where the log begins"
            )
        end, rows = walk.end_of_batch(begin, replace(limits, before_ms=self._durable_before_ms(), target=self._target))
        assert end >= begin, f"a batch from {begin} to {end}"
        if end == begin == start["to"]:
            self._planned = end, start.get("latest_ms", 0)
            return PlannedPart(start, 0, 0)
        known = KnownRecords.before(walk, end, oldest)
        self._planned = end, known.latest_ms
        return PlannedPart(_offset_fields(begin, end, known), end - begin, rows)

    def backlog_bytes(self, start: dict[str, Any]) -> int:
        """Return the approximate number of log bytes after an offset."""
        end, _ = self._log_end.find(LogWalk(self.directory))
        return max(end - int(start["to"]), 0)

    def lag(self) -> dict[str, int]:
        """Return the end of the log, and the lag of the last planned part.

        lag_ms is the difference between the store times of the last record in the log and in the part. lag_ms is absent
        if one of these times is unknown.
        """
        end, stored_ms = self._log_end.find(LogWalk(self.directory))
        lag = {"to": end}
        if self._planned is not None:
            to, latest_ms = self._planned
            lag["lag_bytes"] = max(end - to, 0)
            if latest_ms and stored_ms:
                lag["lag_ms"] = max(stored_ms - latest_ms, 0)
        return lag

    def stop_at_current_end(self) -> None:
        walk = LogWalk(self.directory)
        self._target = walk.end_of_batch(walk.last_begun, BatchLimits()).log_offset

    def _durable_before_ms(self) -> int | None:
        """Return the first store time whose records may not be durable; None if all records are durable."""
        vouched = durable_times(self.directory) if self._durable else None
        return None if vouched is None else vouched.physic_msg_timestamp_ms

    def _find_resume_offset(self, walk: LogWalk, start: dict[str, Any]) -> tuple[int, int]:
        """Return the log offset at which to continue, and the log offset of the first known record."""
        to, oldest = start["to"], walk.segments[0].base_offset if walk.segments else 0
        if old_marks_of(start):
            return self._resume_by_old_offset(walk, start)
        known = KnownRecords.from_offset(start)
        if not known.marks or known.last < oldest:
            return to, to  # no stored record still exists for a comparison
        if known.are_unchanged(self.directory, walk):
            return to, max(known.first, oldest)
        return known.end_of_unchanged(walk, to), known.first

    def _resume_by_old_offset(self, walk: LogWalk, start: dict[str, Any]) -> tuple[int, int]:
        marks, to = old_marks_of(start), start["to"]
        first = walk.segments[0].base_offset if walk.segments else 0
        for place, checksum in reversed(marks):
            found = record_head_at(self.directory, walk, place)
            if found is not None and crc32(found[0]) == checksum:
                return (to if place == marks[-1][0] else found[1]), max(marks[0][0], first)
            if place < first:
                return to, to
        raise no_known_record_error(to)


def _offset_fields(begin: int, to: int, known: KnownRecords) -> dict[str, Any]:
    return {"from": begin, "to": to, **known.fields()}
