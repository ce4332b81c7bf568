"""The source `rocketmq`, as Spark takes it in: `spark.read.format("rocketmq").option(…).load(directory)`.

Sessions of reports.spark have it; others register it: `spark.dataSource.register(RocketMQSource)`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from .checkpoint import Checkpoint
from .columns import Condition, RowConditions, condition_of
from .comments import COMMENTS
from .directory import StoreDirectory
from .index_entries import IndexEntries
from .messages import Messages
from .queue_entries import QueueEntries
from .source_options import SourceOptions
from .stream import LogStream, StreamPartition

TABLES: dict[str, Callable[[SourceOptions], "StoreTable"]] = {
    "messages": Messages,
    "queue_entries": QueueEntries,
    "index_entries": IndexEntries,
    "checkpoint": Checkpoint,
}

_KEPT = "rocketmq"
"""The first column's metadata have the options under this name: a query on what CREATE TABLE made brings the schema,
and no option (Spark 4.3)."""


class StoreTable(Protocol):
    """One kind of rows of a store directory."""

    schema: pa.Schema
    pushed_columns: frozenset[str]
    """Columns whose conditions are seen to by `batches`."""

    def partitions(self, directory: StoreDirectory, conditions: RowConditions) -> Sequence[Any]:
        """Return what tasks read, one each."""

    def batches(self, directory: StoreDirectory, partition: Any, conditions: RowConditions) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one of them."""


class RocketMQSource(DataSource):
    """The files of a store directory as tables; source_options says what there is to choose."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` takes."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Return the columns of the table that the options name, each with its comment."""
        given = SourceOptions.given_to(self.options)
        options = SourceOptions.of(given)
        columns = from_arrow_schema(_table(options).schema)
        for column in columns:
            column.metadata = {"comment": COMMENTS[options.table][column.name]}
        columns[0].metadata[_KEPT] = given
        return columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the table."""
        return TableReader(self._options(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return what follows the log."""
        return LogStream(self._options(schema))

    def _options(self, schema: StructType) -> SourceOptions:
        """Return the options, those that came with CREATE TABLE where Spark hands over none."""
        kept = {} if self.options or not schema.fields else schema[0].metadata.get(_KEPT, {})
        return SourceOptions.of(kept or SourceOptions.given_to(self.options))


class TableReader(DataSourceReader):
    """Reads one table once."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._conditions: list[Condition] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Keep the filters that are seen to here; yield the others."""
        columns = _table(self._options).pushed_columns
        for pushed in filters:
            condition = condition_of(pushed, columns)
            if condition is None:
                yield pushed
            else:
                self._conditions.append(condition)

    def partitions(self) -> Sequence[InputPartition]:
        """Return what tasks read. Raises FileNotFoundError if there is no such directory."""
        directory = self._directory()
        if not directory.exists:
            raise FileNotFoundError(f"{self._options.path}: no such directory")
        found = _table(self._options).partitions(directory, RowConditions(self._conditions))
        return [StreamPartition(one) for one in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one part."""
        if partition.value is None:
            return  # Spark's own, where there are none
        table, conditions = _table(self._options), RowConditions(self._conditions)
        yield from table.batches(self._directory(), partition.value, conditions)

    def _directory(self) -> StoreDirectory:
        return StoreDirectory(self._options.path, self._options.commit_log)


def _table(options: SourceOptions) -> StoreTable:
    if options.table not in TABLES:
        raise ValueError(f"no table {options.table}; there are {', '.join(TABLES)}")
    return TABLES[options.table](options)
