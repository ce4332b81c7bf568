"""The log as a stream: each message once, while the store that writes it lives, dies and recovers.

    spark.readStream.format("rocketmq").load(directory)

A batch is a range of the log, and its offset says all that is needed to read it again: where the range begins and ends,
and what the last records in front of its end were. A record counts as soon as all of it is there; a live log is read no
further than it is written. When a store has recovered, its log may end earlier than the stream has read, and go on from
there with other records: then the last record that is still what it was is looked for among those the offset knows, and
the stream goes on behind it. A process that is killed loses no whole record; a power cut may lose more than the offset
knows of, and that ends the stream with a LogCutError. With `upTo` = `durable` only what the checkpoint or a clean
stop vouches for is read: nothing of it is ever cut.

What retention removes before it was read ends the stream with an ExpiredError, and damage in a segment that is not the
last comes as rows, as in the table `messages`, whose columns these are. A limit of a batch counts no damage.
"""

from collections.abc import Iterator, Sequence
from typing import Any

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

from ....store.formats.checkpoint import CHECKPOINT_BYTES, decode_checkpoint
from .columns import RowConditions
from .directory import StoreDirectory
from .known_records import KnownRecords, cut_in_front_of_all, head_at, old_marks_of
from .log_ranges import LogRange, log_ranges
from .log_walk import BatchLimits, LogEnd, LogWalk
from .messages import Messages
from .source_options import SourceOptions


class ExpiredError(Exception):
    """Retention has removed what the stream has not read."""


class StreamPartition(InputPartition):
    """What one task reads."""


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the log of one directory."""

    def __init__(self, options: SourceOptions) -> None:
        if options.table != "messages":
            raise ValueError(f"only messages can be streamed, not {options.table}")
        self._options = options
        self._directory = StoreDirectory(options.path, options.commit_log)
        self._log_end = LogEnd()
        self._planned: tuple[int, int] | None = None
        """Where the batch ends that was planned last, and the store time of its last records."""
        self._target: int | None = None
        """Log offset at which a query ends that is to read what there is, and no more."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the beginning of the log as it is now."""
        segments = self._directory.segments()
        begin = segments[0].base_offset if segments else 0
        return _offset(begin, begin, KnownRecords())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how much a batch may hold; of two limits that of rows, for Spark takes one."""
        if self._options.max_rows is not None:
            return ReadMaxRows(self._options.max_rows)
        size_bytes = self._options.max_bytes
        return ReadAllAvailable() if size_bytes is None else ReadMaxBytes(size_bytes)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the batch behind start ends."""
        walk = LogWalk(self._directory)
        begin, oldest = self._resume(walk, start)
        if walk.segments and begin < walk.segments[0].base_offset:
            raise ExpiredError(
                f"the log begins at {walk.segments[0].base_offset}, behind {begin} where the stream is: what is between"
                " was removed before it was read. A stream with a new checkpointLocation begins where the log does"
            )
        end = walk.end_of_batch(begin, self._limits(limit))
        if end == begin == start["to"]:
            self._planned = end, start.get("latest_ms", 0)
            return start
        known = KnownRecords.in_front_of(walk, end, oldest)
        self._planned = end, known.latest_ms
        return _offset(begin, end, known)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where the log ends, and how far behind it the batch is that was planned last.

        lag_bytes counts the log's bytes; lag_ms is what lies between the store times of the last records of both. It is
        absent if nothing is known of one of them.
        """
        walk = LogWalk(self._directory)
        end, stored_ms = self._log_end.look(walk)
        lag: dict[str, Any] = {"to": end}
        if self._planned is not None:
            to, latest_ms = self._planned
            lag["lag_bytes"] = max(end - to, 0)
            if latest_ms and stored_ms:
                lag["lag_ms"] = max(stored_ms - latest_ms, 0)
        return lag

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From now on take the log to end where it does at this moment."""
        walk = LogWalk(self._directory)
        self._target = walk.end_of_batch(walk.last_begun, BatchLimits())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges of a batch; its own offset says where it begins, for that may be in front of start."""
        if start == end:
            return []
        ranges = log_ranges(self._directory, self._options.split_bytes, end["from"], end["to"])
        return [StreamPartition(one) for one in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one range."""
        log_range: LogRange | None = partition.value
        if log_range is None:
            return  # Spark's own, where there are none
        yield from Messages(self._options).batches(self._directory, log_range, RowConditions())

    def _limits(self, limit: ReadLimit) -> BatchLimits:
        """Return what ends a batch: all options do, unless Spark wants all there is."""
        before_ms = self._durable_before_ms()
        if isinstance(limit, ReadAllAvailable):
            return BatchLimits(before_ms=before_ms, target=self._target)
        rows, size_bytes = self._options.max_rows, self._options.max_bytes
        if isinstance(limit, ReadMaxRows):
            rows = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            size_bytes = limit.max_bytes
        return BatchLimits(rows, size_bytes, before_ms, self._target)

    def _durable_before_ms(self) -> int | None:
        """Return the store time from which on nothing is known to be durable; None if all is, or does not matter."""
        if self._options.up_to == "whole" or self._directory.file("abort") is None:
            return None
        file = self._directory.file("checkpoint")
        if file is None:
            return 0
        raw = bytes(self._directory.content(file)[:CHECKPOINT_BYTES])
        return decode_checkpoint(raw, file=file.path).physic_msg_timestamp_ms

    def _resume(self, walk: LogWalk, start: dict[str, Any]) -> tuple[int, int]:
        """Return where to go on, and from where on the log is what the stream has read."""
        to, oldest = start["to"], walk.segments[0].base_offset if walk.segments else 0
        if old_marks_of(start):
            return self._resume_by_old_marks(walk, start)
        known = KnownRecords.of(start)
        if not known.marks or known.last < oldest:
            return to, to  # nothing to hold it against, or not any more
        if known.are_there(self._directory, walk):
            return to, max(known.first, oldest)
        return known.end_of_kept(walk, to), known.first

    def _resume_by_old_marks(self, walk: LogWalk, start: dict[str, Any]) -> tuple[int, int]:
        marks, to = old_marks_of(start), start["to"]
        first = walk.segments[0].base_offset if walk.segments else 0
        for place, checksum in reversed(marks):
            found = head_at(self._directory, walk, place)
            if found is not None and crc32(found[0]) == checksum:
                return (to if place == marks[-1][0] else found[1]), max(marks[0][0], first)
            if place < first:
                return to, to
        raise cut_in_front_of_all(to)


def _offset(begin: int, to: int, known: KnownRecords) -> dict[str, Any]:
    return {"from": begin, "to": to, **known.fields()}
