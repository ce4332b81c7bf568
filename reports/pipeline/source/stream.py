"""The log as a stream: each message once, while the store that writes it lives, dies and recovers.

    spark.readStream.format("rocketmq").load(directory)

A batch is a range of the log, and its offset says all that is needed to read it again: where the range begins and ends,
and what the last records were. A record counts as soon as all of it is there, as `scan` sees it; a live log is read no
further than it is written. When a store has recovered, its log may end earlier than the stream has read, and go on from
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
from typing import Any, NamedTuple

import pyarrow as pa
from isal.isal_zlib import crc32
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ....store.errors import CorruptFileError
from ....store.formats.checkpoint import CHECKPOINT_BYTES, decode_checkpoint
from ....store.formats.message import RECORD_BYTES_MIN
from ....store.formats.scan import is_closed_at, scan_records
from .columns import RowConditions
from .directory import WINDOW_BYTES, StoreDirectory, StoreFile
from .log_ranges import LogRange, has_begun, log_ranges
from .messages import Messages
from .source_options import SourceOptions

_HEAD_BYTES = RECORD_BYTES_MIN - 3
"""Fixed fields of a record, its body's checksum and its store time among them: no two records have the same."""
KNOWN_MAX = 1024
"""How many of its last records an offset knows."""
_KNOWN = Struct(">qI")


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
        if self._options.up_to == "whole" or self._directory.file("abort") is None:
            return None
        file = self._directory.file("checkpoint")
        if file is None:
            return 0
        raw = bytes(self._directory.content(file)[:CHECKPOINT_BYTES])
        return decode_checkpoint(raw, file=file.path).physic_msg_timestamp_ms

    def _resume(self, segments: Sequence[StoreFile], start: dict[str, Any]) -> tuple[int, "deque[tuple[int, int]]"]:
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
        found = next(Walk(self._directory, segments, physical_offset, None).records(), None)
        return found if found is not None and found.physical_offset == physical_offset else None


def _offset(to: int, begin: int | None = None, known: Iterable[tuple[int, int]] = ()) -> dict[str, Any]:
    packed = b"".join(_KNOWN.pack(*one) for one in known)
    return {"from": to if begin is None else begin, "to": to, "known": b64encode(packed).decode()}
