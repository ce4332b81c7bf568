"""Log stream: yields each message or queue entry once, while the stores write and recover (docs/tables.md).

A batch reads one part of each log; `FollowedLog` plans these parts. With `path`, the stream offset is the offset of the
only log. With `paths`, the field `logs` of the stream offset contains the offset of each log by store name. The limit
of a batch is divided evenly between the logs, smallest backlog first. A log that does not need its share leaves the
rest to the others.

A part is a range of the log. The stream offset of a part contains the range and the last records before its end, so
that the part can be read again, and so that a truncation by recovery is noticed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
from isal.isal_zlib import crc32
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from .checkpoint import durable_times
from .columns import RowConditions
from .directory import StoreDirectory
from .known_records import KnownRecords, LogCutError, no_known_record_error, old_marks_of, record_head_at
from .log_ranges import log_ranges
from .log_walk import BatchLimits, LogEnd, LogWalk
from .messages import Messages
from .queue_entries import RecordEntries
from .source_options import SourceOptions
from .stores import StorePart, StoreRows, TableRows


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
        """Return the first store time of records that may not be durable; None if all records are durable."""
        durable = durable_times(self.directory) if self._durable else None
        return None if durable is None else durable.physic_msg_timestamp_ms

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


STREAMED: dict[str, Callable[[SourceOptions], TableRows]] = {"messages": Messages, "queue_entries": RecordEntries}

_Offset = dict[str, Any]


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream over the logs of one or several store directories."""

    def __init__(self, options: SourceOptions) -> None:
        if options.table not in STREAMED:
            raise ValueError(f"only {' and '.join(STREAMED)} can be streamed, not {options.table}")
        if options.where:
            raise ValueError("where: not supported by a stream; filter its rows instead")
        self._options = options
        self._rows = StoreRows(options, STREAMED[options.table])
        durable = options.up_to == "durable"
        self._logs = {one: FollowedLog(self._rows.directory(one), durable=durable) for one in options.stores}

    def initialOffset(self) -> _Offset:  # noqa: N802
        return self._stream_offset({store: log.first_offset() for store, log in self._logs.items()})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of rows if it is set, else the limit of bytes, because Spark accepts only one limit."""
        if self._options.max_rows is not None:
            return ReadMaxRows(self._options.max_rows)
        size_bytes = self._options.max_bytes
        return ReadAllAvailable() if size_bytes is None else ReadMaxBytes(size_bytes)

    def latestOffset(self, start: _Offset, limit: ReadLimit) -> _Offset:  # noqa: N802
        """Return the end of the next batch; `start` if no log has new records."""
        starts = self._offsets_in(start)
        begins = {store: starts.get(store) or log.first_offset() for store, log in self._logs.items()}
        limits = self._batch_limits(limit)
        ends = dict[str, _Offset]()
        for waiting, store in _with_stores_left(self._stores_by_backlog(begins, limits)):
            with _errors_with_store(store):
                part = self._logs[store].plan(begins[store], limits.share_of(waiting))
            ends[store] = part.offset
            limits = limits.reduced_by(part.rows, part.size_bytes)
        if len(starts) == len(ends) and all(end is starts[store] for store, end in ends.items()):
            return start
        return self._stream_offset({store: ends[store] for store in self._logs})

    def reportLatestOffset(self) -> _Offset:  # noqa: N802
        """Return the end of each log and the lag of the last planned batch (FollowedLog.lag).

        For several logs, lag_bytes is the sum and lag_ms the maximum.
        """
        lags = {store: log.lag() for store, log in self._logs.items()}
        if not self._options.paths:
            return dict(lags[self._options.path])
        found: _Offset = {"logs": lags}
        for name, of_all in (("lag_bytes", sum), ("lag_ms", max)):
            known = [lag[name] for lag in lags.values() if name in lag]
            if known:
                found[name] = of_all(known)
        return found

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        for log in self._logs.values():
            log.stop_at_current_end()

    def partitions(self, start: _Offset, end: _Offset) -> Sequence[InputPartition]:
        """The end offset also contains the beginnings of the parts, which may be before `start`."""
        starts, ends = self._offsets_in(start), self._offsets_in(end)
        return [
            InputPartition(StorePart(store, one))
            for store, to in ends.items()
            if to != starts.get(store)
            for one in log_ranges(self._logs[store].directory, self._options.split_bytes, to["from"], to["to"])
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return  # Spark passes an empty partition if `partitions` returns none
        yield from self._rows.batches(partition.value, RowConditions())

    def _stream_offset(self, offsets: dict[str, _Offset]) -> _Offset:
        return {"logs": offsets} if self._options.paths else offsets[self._options.path]

    def _offsets_in(self, offset: _Offset) -> dict[str, _Offset]:
        """Return the offset of each log. Without the field `logs`, the offset belongs to the first store.

        Raises ValueError if the offset contains a store that the options do not name.
        """
        if not offset:
            return {}
        found: dict[str, _Offset] = offset.get("logs") or {self._options.stores[0]: offset}
        missing = [store for store in found if store not in self._logs]
        if missing:
            raise ValueError(
                f"{', '.join(missing)}: the stream has read this log before, but it is no longer named, and may have"
                " unread records. A stream without it needs a new checkpointLocation"
            )
        return found

    def _stores_by_backlog(self, begins: dict[str, _Offset], limits: BatchLimits) -> list[str]:
        if len(begins) == 1 or (limits.rows is None and limits.size_bytes is None):
            return list(begins)
        return sorted(begins, key=lambda store: self._logs[store].backlog_bytes(begins[store]))

    def _batch_limits(self, limit: ReadLimit) -> BatchLimits:
        if isinstance(limit, ReadAllAvailable):
            return BatchLimits()
        rows, size_bytes = self._options.max_rows, self._options.max_bytes
        if isinstance(limit, ReadMaxRows):
            rows = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            size_bytes = limit.max_bytes
        return BatchLimits(rows, size_bytes)


def _with_stores_left(stores: list[str]) -> Iterator[tuple[int, str]]:
    return zip(range(len(stores), 0, -1), stores, strict=True)


@contextmanager
def _errors_with_store(store: str) -> Iterator[None]:
    try:
        yield
    except (ExpiredError, LogCutError) as error:
        raise type(error)(f"{store}: {error}") from error
