"""The Spark data source `rocketmq`: `spark.read.format("rocketmq").option(…).load(directory)`.

Sessions of `pipeline.spark` register the source. For other sessions call `spark.dataSource.register(RocketMQSource)`.
"""

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import __version__ as version
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from .advice import PUSHDOWN_WORKER, print_advice_once
from .checkpoint import Checkpoint
from .columns import conditions_of
from .index_entries import IndexEntries
from .messages import Messages
from .queue_entries import QueueEntries
from .source_options import SourceOptions
from .stores import StoresTable, StoreTable

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

TABLES: dict[str, Callable[[SourceOptions], StoreTable]] = {
    "messages": Messages,
    "queue_entries": QueueEntries,
    "index_entries": IndexEntries,
    "checkpoint": Checkpoint,
}

_KEPT = "rocketmq"
"""Metadata key in the first column that stores the options, because Spark 4.3 passes no options after CREATE TABLE."""


class RocketMQSource(DataSource):
    """Store directories as tables, with the options of `source_options`."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        given = SourceOptions.options_of_user(self.options)
        options = SourceOptions.from_spark(given)
        table = make_table(options)
        conditions_of(options.where, table.condition_columns)  # raises errors of the options here, not in a task
        columns = from_arrow_schema(table.schema)
        for column in columns:
            column.metadata = {"comment": COMMENTS[options.table][column.name]}
        columns[0].metadata[_KEPT] = given
        return columns

    def reader(self, schema: StructType) -> DataSourceReader:
        reads = AdvisingReader if PUSHDOWN_WORKER in sys.modules else TableReader
        return reads(self._options(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Raises ValueError on Spark 4.0 and 4.1, which do not tell a source where a batch of a stream starts."""
        try:
            from .stream import LogStream
        except ModuleNotFoundError as error:
            if error.name != "pyspark.sql.streaming.datasource":
                raise
            raise ValueError(f"a stream of store directories needs Spark 4.2 or newer, this is {version}") from error
        return LogStream(self._options(schema))

    def _options(self, schema: StructType) -> SourceOptions:
        """If Spark passes no options, return the options that CREATE TABLE stored in the schema."""
        kept = {} if self.options or not schema.fields else schema[0].metadata.get(_KEPT, {})
        return SourceOptions.from_spark(kept or SourceOptions.options_of_user(self.options))


class TableReader(DataSourceReader):
    """Reads one table once."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._conditions = conditions_of(options.where, make_table(options).condition_columns)

    def partitions(self) -> Sequence[InputPartition]:
        """Raises FileNotFoundError if the directory does not exist."""
        return [InputPartition(one) for one in make_table(self._options).partitions(self._conditions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return  # Spark passes an empty partition if `partitions` returns none
        _freeze_modules()
        yield from make_table(self._options).batches(partition.value, self._conditions)


class AdvisingReader(TableReader):
    """Leaves all filters to Spark, and advises the option `where`."""

    def pushFilters(self, filters: "list[Filter]") -> "list[Filter]":  # noqa: N802
        print_advice_once(filters, self._options, make_table(self._options).condition_columns)
        return filters


@cache
def _freeze_modules() -> None:
    """Exclude all objects that exist now from garbage collections, once per process.

    Spark's worker collects garbage after each task. Visiting the objects of all modules would take longer than reading
    a few MiB of the log.
    """
    gc.collect()  # otherwise present garbage would stay
    gc.freeze()


def make_table(options: SourceOptions) -> StoresTable:
    if options.table not in TABLES:
        raise ValueError(f"no table {options.table}; there are {', '.join(TABLES)}")
    return StoresTable(options, TABLES[options.table])


_OF_A_RECORD = {
    "physical_offset": "offset in the log of the record's first byte",
    "damage": "the wrong field, with the expected and the found value; null without damage",
}
_OF_A_QUEUE = {"topic": "topic of the message", "queue_id": "number of the queue in its topic"}
_PLACE = {
    "store": "directory of the store, as the options name it",
    "file": "path of the file",
    "position": "offset in the file, in bytes",
}

COMMENTS: dict[str, dict[str, str]] = {
    "messages": {
        **_PLACE,
        **_OF_A_QUEUE,
        **_OF_A_RECORD,
        "size": "length of the record in bytes",
        "queue_offset": "place in the queue, counted in messages",
        "sys_flag": "bits for the encoding of the record and its part in a transaction",
        "flag": "a number set by the producer",
        "born_timestamp_ms": "the producer's clock, milliseconds since 1970 in UTC",
        "born_time": "born_timestamp_ms as a timestamp; null outside of the years 1 to 9999",
        "born_host": "address|port of the producer",
        "store_timestamp_ms": "the broker's clock, milliseconds since 1970 in UTC",
        "store_time": "store_timestamp_ms as a timestamp; null outside of the years 1 to 9999",
        "store_host": "address|port of the broker",
        "reconsume_times": "number of times that consumers sent it back",
        "prepared_transaction_offset": "offset in the log of the prepared record, for messages in transactions",
        "body_crc": "CRC-32 of the stored body, unsigned",
        "properties": "properties by name",
        "tags": "the property TAGS; null without",
        "keys": "the keys that the producer named; null without",
        "body": "the stored body",
        "is_proven": "false if the record was found by a search after damage and its queue has no entry for it",
        "tags_code": "the tags code of its queue entry: hash of the tag, or delivery time",
        "key_hashes": "hashes of its keys in the index",
        "light_places": "its topic, queue_id and queue_offset in each of its light queues",
    },
    "queue_entries": {
        **_PLACE,
        **_OF_A_QUEUE,
        **_OF_A_RECORD,
        "queue_offset": "number of the entry in its queue",
        "size": "length of the record in bytes, according to the entry",
        "tags_code": "hash of the tag, delivery time of a delayed message, or address in the queue's extension",
        "is_blank": "whether the entry only fills the place of an expired one",
    },
    "index_entries": {
        **_PLACE,
        **_OF_A_RECORD,
        "number": "number of the entry in its file, from 1 on",
        "key_hash": "hash of topic and key",
        "time_diff_s": "seconds from the file's first record to this one",
        "previous": "number of the entry before it in its slot, 0 if there is none",
        "begin_timestamp_ms": "store time of the file's first record, milliseconds since 1970 in UTC",
    },
    "checkpoint": {
        "store": _PLACE["store"],
        "file": _PLACE["file"],
        "physic_msg_timestamp_ms": "store time up to which the log is durable",
        "logics_msg_timestamp_ms": "store time up to which queues are durable",
        "index_msg_timestamp_ms": "store time up to which the index is durable",
        "damage": _OF_A_RECORD["damage"],
    },
}
