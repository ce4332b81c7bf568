"""The table `messages`: the log, a row for each record, and one for each place that should be a record and is none.

    column                       type                 meaning
    file, position               string, bigint       the segment, and where in it the record begins
    physical_offset, size        bigint, int          where in the log, and how many bytes
    topic, queue_id              string, int
    queue_offset                 bigint               its place in the queue
    sys_flag, flag               int
    born_timestamp_ms            bigint               the producer's clock
    born_host, store_host        string               address|port
    store_timestamp_ms           bigint
    reconsume_times              int
    prepared_transaction_offset  bigint
    body_crc                     int
    properties                   map<string, string>
    body                         binary
    is_proven                    boolean              false where the record was searched for, behind damage
    damage                       struct               field, expected and found: what is wrong; null if nothing is.
                                                      Where it is not the body alone, file and position are all that
                                                      is known

    tags_code, key_hashes        bigint, array<int>   what its entry in the queue and the index have
    light_places                 array<struct>        topic, queue_id and queue_offset in each of its light queues

The last three are there only if the option `columns` names them.

Filters on topic, queue_id, queue_offset, physical_offset, size, sys_flag and store_timestamp_ms are seen to here,
before anything else of a record is decoded; whole ranges are left out by physical_offset. Damage passes no filter.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from ....store.formats.delay_level import DEFAULT_DELAY_LEVELS
from ....store.formats.scan import ScannedRecord
from .columns import DERIVED_FIELDS, MESSAGE_FIELDS, MessageColumns
from .conditions import RowConditions
from .directory import StoreDirectory
from .ranges import LogRange, log_ranges
from .records import RangeReader, SegmentSlice
from .source_options import SourceOptions

_ROWS_MAX = 4096
_PUSHED = {
    "physical_offset": 0,
    "size": 1,
    "topic": 2,
    "queue_id": 3,
    "queue_offset": 4,
    "sys_flag": 5,
    "store_timestamp_ms": 6,
}
"""Which field of a scanned record a column is."""


class Messages:
    """The log as a table."""

    pushed_columns = frozenset(_PUSHED)

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self.schema = pa.schema(options.chosen(MESSAGE_FIELDS, DERIVED_FIELDS))

    def partitions(self, directory: StoreDirectory, conditions: RowConditions) -> Sequence[LogRange]:
        """Return the ranges of the log that may hold what is asked for."""
        return [
            one
            for one in log_ranges(directory, self._options.split_bytes)
            if conditions.allow_some_of(
                "physical_offset",
                one.segment.base_offset + one.start,
                one.segment.base_offset + one.end - 1,
            )
        ]

    def batches(
        self, directory: StoreDirectory, partition: LogRange, conditions: RowConditions
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range."""
        columns = MessageColumns(self.schema, self._options.delay_levels or DEFAULT_DELAY_LEVELS)
        is_wanted = _test_of(conditions)
        for piece in RangeReader(directory, partition, _ROWS_MAX).pieces():
            if not isinstance(piece, SegmentSlice):
                if not conditions:
                    yield columns.damage(piece)
                continue
            if is_wanted is not None:
                piece.records = [record for record in piece.records if is_wanted(record)]
            for some in piece.of_one_shape():
                yield columns.batch(some)


def _test_of(conditions: RowConditions) -> Callable[[ScannedRecord], bool] | None:
    """Return what tells whether a record is asked for, None if all are."""
    tests: list[tuple[int, Callable[[Any], Any]]] = [
        (at, one.holds) for name, at in _PUSHED.items() for one in conditions.on(name)
    ]
    if not tests:
        return None
    return lambda record: all(holds(record[at]) for at, holds in tests)
