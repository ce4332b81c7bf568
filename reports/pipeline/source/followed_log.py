"""One log as a stream follows it: where the next part of it begins and ends, and how much comes behind that.

A part is a range of the log, and its offset says all that is needed to read it again: where the range begins and ends,
and what the last records in front of its end were. A record counts as soon as all of it is there; a live log is read no
further than it is written. When a store has recovered, its log may end earlier than the stream has read, and go on from
there with other records: then the last record that is still what it was is looked for among those the offset knows, and
the stream goes on behind it. A process that is killed loses no whole record; a power cut may lose more than the offset
knows of, and that ends the stream with a LogCutError. With `upTo` = `durable` only what the checkpoint or a clean
stop vouches for is read: nothing of it is ever cut.

What retention removes before it was read ends the stream with an ExpiredError.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from isal.isal_zlib import crc32

from .checkpoint import vouched_for
from .directory import StoreDirectory
from .known_records import KnownRecords, cut_in_front_of_all, head_at, old_marks_of
from .log_walk import BatchLimits, LogEnd, LogWalk


class ExpiredError(Exception):
    """Retention has removed what the stream has not read."""


class PlannedPart(NamedTuple):
    """What a batch has of one log."""

    offset: dict[str, Any]
    size_bytes: int
    rows: int
    """How many records, as far as limits needed them to be counted."""


class FollowedLog:
    """The log of one directory."""

    def __init__(self, directory: StoreDirectory, *, durable: bool) -> None:
        """durable: whether only what cannot be cut is read."""
        self.directory = directory
        self._durable = durable
        self._log_end = LogEnd()
        self._planned: tuple[int, int] | None = None
        """Where the part ends that was planned last, and the store time of its last records."""
        self._target: int | None = None
        """Log offset at which a query ends that is to read what there is, and no more."""

    def begin(self) -> dict[str, Any]:
        """Return the offset of the log's beginning as it is now."""
        segments = self.directory.segments()
        begin = segments[0].base_offset if segments else 0
        return _offset(begin, begin, KnownRecords())

    def plan(self, start: dict[str, Any], limits: BatchLimits) -> PlannedPart:
        """Return the part behind an offset; its own offset is the very one if there is nothing new."""
        walk = LogWalk(self.directory)
        begin, oldest = self._resume(walk, start)
        if walk.segments and begin < walk.segments[0].base_offset:
            raise ExpiredError(
                f"the log begins at {walk.segments[0].base_offset}, behind {begin} where the stream is: what is between"
                " was removed before it was read. A stream with a new checkpointLocation begins where the log does"
            )
        end, rows = walk.end_of_batch(begin, replace(limits, before_ms=self._durable_before_ms(), target=self._target))
        if end == begin == start["to"]:
            self._planned = end, start.get("latest_ms", 0)
            return PlannedPart(start, 0, 0)
        known = KnownRecords.in_front_of(walk, end, oldest)
        self._planned = end, known.latest_ms
        return PlannedPart(_offset(begin, end, known), end - begin, rows)

    def backlog_bytes(self, start: dict[str, Any]) -> int:
        """Return about how much of the log is behind an offset."""
        end, _ = self._log_end.look(LogWalk(self.directory))
        return max(end - int(start["to"]), 0)

    def lag(self) -> dict[str, int]:
        """Return where the log ends, and how far behind it the part is that was planned last.

        lag_bytes counts the log's bytes; lag_ms is what lies between the store times of the last records of both. It is
        absent if nothing is known of one of them.
        """
        end, stored_ms = self._log_end.look(LogWalk(self.directory))
        lag = {"to": end}
        if self._planned is not None:
            to, latest_ms = self._planned
            lag["lag_bytes"] = max(end - to, 0)
            if latest_ms and stored_ms:
                lag["lag_ms"] = max(stored_ms - latest_ms, 0)
        return lag

    def end_here(self) -> None:
        """From now on take the log to end where it does at this moment."""
        walk = LogWalk(self.directory)
        self._target = walk.end_of_batch(walk.last_begun, BatchLimits()).log_offset

    def _durable_before_ms(self) -> int | None:
        """Return the store time from which on nothing is known to be durable; None if all is, or does not matter."""
        vouched = vouched_for(self.directory) if self._durable else None
        return None if vouched is None else vouched.physic_msg_timestamp_ms

    def _resume(self, walk: LogWalk, start: dict[str, Any]) -> tuple[int, int]:
        """Return where to go on, and from where on the log is what the stream has read."""
        to, oldest = start["to"], walk.segments[0].base_offset if walk.segments else 0
        if old_marks_of(start):
            return self._resume_by_old_marks(walk, start)
        known = KnownRecords.of(start)
        if not known.marks or known.last < oldest:
            return to, to  # nothing to hold it against, or not any more
        if known.are_there(self.directory, walk):
            return to, max(known.first, oldest)
        return known.end_of_kept(walk, to), known.first

    def _resume_by_old_marks(self, walk: LogWalk, start: dict[str, Any]) -> tuple[int, int]:
        marks, to = old_marks_of(start), start["to"]
        first = walk.segments[0].base_offset if walk.segments else 0
        for place, checksum in reversed(marks):
            found = head_at(self.directory, walk, place)
            if found is not None and crc32(found[0]) == checksum:
                return (to if place == marks[-1][0] else found[1]), max(marks[0][0], first)
            if place < first:
                return to, to
        raise cut_in_front_of_all(to)


def _offset(begin: int, to: int, known: KnownRecords) -> dict[str, Any]:
    return {"from": begin, "to": to, **known.fields()}
