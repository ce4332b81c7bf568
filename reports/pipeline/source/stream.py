"""The log as a stream: each message once, while the store that writes it lives, dies and recovers.

    spark.readStream.format("rocketmq").load(directory)

A batch is a range of the log, and its offset says all that is needed to read it again: where the range begins and ends,
and what the last records were. A record counts as soon as all of it is there, as `scan` sees it; one that is being
written is left for later. When a store has recovered, its log may end earlier than the stream has read, and go on from
there with other records: then the last record that is still what it was is looked for among those the offset knows, and
the stream goes on behind it. A process that is killed loses no whole record; a power cut may lose more than the offset
knows of, and that ends the stream with a LogCutError. With `upTo` = `durable` only what the checkpoint or a clean
stop vouches for is read: nothing of it is ever cut.

What retention removes before it was read ends the stream with an ExpiredError, and damage in a segment that is not the
last comes as rows, as in the table `messages`, whose columns these are.
"""

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ....store.formats.checkpoint import CHECKPOINT_BYTES, decode_checkpoint
from .conditions import RowConditions
from .directory import StoreDirectory, StoreFile
from .messages import Messages
from .ranges import LogRange, has_begun, log_ranges
from .source_options import SourceOptions
from .walk import Walk, WalkedRecord

KNOWN_MAX = 1024
"""How many of its last records an offset knows."""
_KNOWN = Struct(">qI")


class LogCutError(Exception):
    """The log was cut in front of all that an offset knows."""


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
        self._target: int | None = None
        """Log offset at which a query ends that is to read what there is, and no more."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the beginning of the log as it is now."""
        segments = self._directory.segments()
        return _offset(segments[0].base_offset if segments else 0)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how much a batch may hold."""
        rows = self._options.max_rows
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the batch behind start ends, having looked at all that is in it."""
        segments = self._directory.segments()
        begin, known = self._resume(segments, start)
        if segments and begin < segments[0].base_offset:
            raise ExpiredError(
                f"the log begins at {segments[0].base_offset}, behind {begin} where the stream is: what is between was"
                " removed before it was read. A stream with a new checkpointLocation begins where the log does"
            )
        walk = Walk(self._directory, segments, begin, self._durable_before_ms(), self._target)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        for seen in islice(walk.records(), rows):
            known.append((seen.physical_offset, seen.fingerprint))
        return start if walk.end == begin == start["to"] else _offset(walk.end, begin, known)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From now on take the log to end where it does at this moment."""
        segments = self._directory.segments()
        begun = [one.base_offset for one in segments if has_begun(self._directory, one)]
        walk = Walk(self._directory, segments, begun[-1] if begun else 0, None)
        deque(walk.records(), 0)
        self._target = walk.end

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

    def _durable_before_ms(self) -> int | None:
        """Return the store time from which on nothing is known to be durable; None if all is, or does not matter."""
        if not self._options.is_durable_only or self._directory.file("abort") is None:
            return None
        file = self._directory.file("checkpoint")
        if file is None:
            return 0
        raw = bytes(self._directory.content(file)[:CHECKPOINT_BYTES])
        return decode_checkpoint(raw, file=file.path).physic_msg_timestamp_ms

    def _resume(
        self, segments: Sequence[StoreFile], start: dict[str, Any]
    ) -> tuple[int, "deque[tuple[int, int]]"]:
        """Return where to go on, and the records in front of that which the next offset may know."""
        known = deque(_KNOWN.iter_unpack(b64decode(start["known"])), KNOWN_MAX)
        if not known:
            return start["to"], known
        begin, was_cut = start["to"], False
        while known:
            physical_offset, fingerprint = known[-1]
            found = self._record_at(segments, physical_offset)
            if found is not None and found.fingerprint == fingerprint:
                return (found.end if was_cut else begin), known
            if segments and physical_offset < segments[0].base_offset:
                return begin, deque(maxlen=KNOWN_MAX)  # expired: nothing to hold it against any more
            known.pop()
            was_cut = True
        raise LogCutError(
            f"the log was cut more than {KNOWN_MAX} records in front of {begin}, where the stream is: what was read"
            " there is not in it any more. With upTo=durable nothing is read that can be cut"
        )

    def _record_at(self, segments: Sequence[StoreFile], physical_offset: int) -> WalkedRecord | None:
        walk = Walk(self._directory, segments, physical_offset, None)
        found = next(walk.records(), None)
        return found if found is not None and found.physical_offset == physical_offset else None


def _offset(to: int, begin: int | None = None, known: Iterable[tuple[int, int]] = ()) -> dict[str, Any]:
    packed = b"".join(_KNOWN.pack(*one) for one in known)
    return {"from": to if begin is None else begin, "to": to, "known": b64encode(packed).decode()}
