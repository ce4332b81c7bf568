"""Log stream: yields each message or queue entry once, while the stores write and recover.

    spark.readStream.format("rocketmq").load(directory)
    spark.readStream.format("rocketmq").option("paths", '["/broker-a/store", "/broker-b/store"]').load()

A batch has a part of each log, planned by followed_log, and its offset has the offset of each part. For a single log
given by `path`, the offset of the stream is that of the log. With `paths` they are under `logs`, by store name. A log
that is added is read from its beginning. If a log of the offset is no longer named, the stream ends with an error,
because that log may have unread records.

All logs share the limit of a batch. The log with the least to read comes first, and the rest is divided evenly among
the logs after it. Each log with new records gives at least one, so none waits for the others.

Damage in a segment before the last one appears as rows, as in the table `messages`, and does not count for limits.
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
"""Makes the rows of a log range, by table."""

_Offset = dict[str, Any]


class StreamPartition(InputPartition):
    """The input of one task."""


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream over the logs of some directories."""

    def __init__(self, options: SourceOptions) -> None:
        if options.table not in STREAMED:
            raise ValueError(f"only {' and '.join(STREAMED)} can be streamed, not {options.table}")
        if options.where:
            raise ValueError("where: not of a stream, whose rows are all made; filter them")
        self._options = options
        self._rows = StoreRows(options, STREAMED[options.table])
        durable = options.up_to == "durable"
        self._logs = {one: FollowedLog(self._rows.directory(one), durable=durable) for one in options.stores}

    def initialOffset(self) -> _Offset:  # noqa: N802
        """Return the current beginning of each log."""
        return self._offset_of({store: log.begin() for store, log in self._logs.items()})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of a batch. Spark accepts only one; with two limits it is that of rows."""
        if self._options.max_rows is not None:
            return ReadMaxRows(self._options.max_rows)
        size_bytes = self._options.max_bytes
        return ReadAllAvailable() if size_bytes is None else ReadMaxBytes(size_bytes)

    def latestOffset(self, start: _Offset, limit: ReadLimit) -> _Offset:  # noqa: N802
        """Return the end of the batch after `start`; `start` itself without new records."""
        starts = self._offsets_in(start)
        begins = {store: starts.get(store) or log.begin() for store, log in self._logs.items()}
        limits = self._limits(limit)
        ends = dict[str, _Offset]()
        for waiting, store in _countdown(self._least_first(begins, limits)):
            with _named(store):
                part = self._logs[store].plan(begins[store], limits.share_of(waiting))
            ends[store] = part.offset
            limits = limits.less(part.rows, part.size_bytes)
        if len(starts) == len(ends) and all(end is starts[store] for store, end in ends.items()):
            return start
        return self._offset_of({store: ends[store] for store in self._logs})

    def reportLatestOffset(self) -> _Offset:  # noqa: N802
        """Return the end of each log and the lag of the last planned batch, see FollowedLog.lag.

        For several logs lag_bytes is the sum, and lag_ms the maximum.
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
        """Stop each log at its current end."""
        for log in self._logs.values():
            log.end_here()

    def partitions(self, start: _Offset, end: _Offset) -> Sequence[InputPartition]:
        """Return the ranges of a batch. They begin where the end offset says, which may be before `start`."""
        starts, ends = self._offsets_in(start), self._offsets_in(end)
        return [
            StreamPartition(StorePart(store, one))
            for store, to in ends.items()
            if to != starts.get(store)
            for one in log_ranges(self._logs[store].directory, self._options.split_bytes, to["from"], to["to"])
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one range."""
        if partition.value is None:
            return  # Spark makes an empty partition if there is none
        yield from self._rows.batches(partition.value, RowConditions())

    def _offset_of(self, offsets: dict[str, _Offset]) -> _Offset:
        return {"logs": offsets} if self._options.paths else offsets[self._options.path]

    def _offsets_in(self, offset: _Offset) -> dict[str, _Offset]:
        """Return the offset of each log. The offset of a single log belongs to the first store.

        Raises ValueError if the offset has a log that is no longer named.
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

    def _least_first(self, begins: dict[str, _Offset], limits: BatchLimits) -> list[str]:
        """Return the stores in order of their backlog if they share a limit."""
        if len(begins) == 1 or (limits.rows is None and limits.size_bytes is None):
            return list(begins)
        return sorted(begins, key=lambda store: self._logs[store].backlog_bytes(begins[store]))

    def _limits(self, limit: ReadLimit) -> BatchLimits:
        """Return the limits of a batch: all options apply, unless Spark asks for everything available."""
        if isinstance(limit, ReadAllAvailable):
            return BatchLimits()
        rows, size_bytes = self._options.max_rows, self._options.max_bytes
        if isinstance(limit, ReadMaxRows):
            rows = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            size_bytes = limit.max_bytes
        return BatchLimits(rows, size_bytes)


def _countdown(stores: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the stores, each with the count of stores from it to the end."""
    return zip(range(len(stores), 0, -1), stores, strict=True)


@contextmanager
def _named(store: str) -> Iterator[None]:
    """Add the store to the message of an error."""
    try:
        yield
    except (ExpiredError, LogCutError) as error:
        raise type(error)(f"{store}: {error}") from error
