"""Log stream: yields each message or queue entry once, while the stores write and recover.

    spark.readStream.format("rocketmq").load(directory)
    spark.readStream.format("rocketmq").option("paths", '["/broker-a/store", "/broker-b/store"]').load()

A batch reads one part of each log; the module followed_log plans these parts. With `path`, the stream offset is the
offset of the only log. With `paths`, the field `logs` of the stream offset contains the offset of each log by store
name. The stream reads the log of an added store from the beginning. If `paths` lacks a store of the stream offset, the
stream ends with an error, because that log may have unread records.

The limit of a batch is divided evenly between the logs, smallest backlog first; a log that does not need its share
leaves the rest to the others. Each log with new records provides at least one record. Damage before the last segment
appears as rows, as in the table `messages`, and does not count for limits.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from .columns import RowConditions
from .followed_log import ExpiredError, FollowedLog
from .known_records import LogCutError
from .log_ranges import log_ranges
from .log_walk import BatchLimits
from .messages import Messages
from .record_entries import RecordEntries
from .source_options import SourceOptions
from .stores import StorePart, StoreRows, TableRows

STREAMED: dict[str, Callable[[SourceOptions], TableRows]] = {"messages": Messages, "queue_entries": RecordEntries}

_Offset = dict[str, Any]


class StreamPartition(InputPartition):
    """The store and the log range of one task."""


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
            StreamPartition(StorePart(store, one))
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
