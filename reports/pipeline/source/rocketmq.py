"""The Spark data source `rocketmq`: `spark.read.format("rocketmq").option(…).load(directory)`.

Sessions of `pipeline.spark` register the source. For other sessions call `spark.dataSource.register(RocketMQSource)`.
"""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from .checkpoint import Checkpoint
from .comments import COMMENTS
from .index_entries import IndexEntries
from .messages import Messages
from .queue_entries import QueueEntries
from .source_options import SourceOptions
from .stores import StoresTable, StoreTable
from .stream import LogStream, StreamPartition
from .where import conditions_of

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
        table = _make_table(options)
        conditions_of(options.where, table.condition_columns)  # raises errors of the options here, not in a task
        columns = from_arrow_schema(table.schema)
        for column in columns:
            column.metadata = {"comment": COMMENTS[options.table][column.name]}
        columns[0].metadata[_KEPT] = given
        return columns

    def reader(self, schema: StructType) -> DataSourceReader:
        return TableReader(self._options(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return LogStream(self._options(schema))

    def _options(self, schema: StructType) -> SourceOptions:
        """If Spark passes no options, return the options that CREATE TABLE stored in the schema."""
        kept = {} if self.options or not schema.fields else schema[0].metadata.get(_KEPT, {})
        return SourceOptions.from_spark(kept or SourceOptions.options_of_user(self.options))


class TableReader(DataSourceReader):
    """Reads one table once."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._conditions = conditions_of(options.where, _make_table(options).condition_columns)

    def partitions(self) -> Sequence[InputPartition]:
        """Raises FileNotFoundError if the directory does not exist."""
        return [StreamPartition(one) for one in _make_table(self._options).partitions(self._conditions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return  # Spark passes an empty partition if `partitions` returns none
        yield from _make_table(self._options).batches(partition.value, self._conditions)


def _make_table(options: SourceOptions) -> StoresTable:
    if options.table not in TABLES:
        raise ValueError(f"no table {options.table}; there are {', '.join(TABLES)}")
    return StoresTable(options, TABLES[options.table])
