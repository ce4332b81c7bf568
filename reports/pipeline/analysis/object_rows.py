"""Object rows: reads a sweep from an object store with Arrow, in Spark tasks.

Spark itself cannot open `s3://` URIs. The executors must have tornlog installed.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from ..place import open_place
from ..sweep.rows import SCHEMA


def rows_by_arrow(spark: SparkSession, place: str, names: Sequence[str]) -> DataFrame:
    """Read the named files of a sweep, one task per file."""
    spark.dataSource.register(_ObjectRows)
    return spark.read.format(_ObjectRows.name()).option("files", "\n".join(names)).load(place)


class _ObjectRows(DataSource):
    """Spark data source. Options: `path` of the sweep, and `files`, one file name per line."""

    @classmethod
    def name(cls) -> str:
        return "tornlog-sweep"

    def schema(self) -> StructType:
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _FileReader(self.options["path"], self.options["files"].split("\n"))


class _FileReader(DataSourceReader):
    def __init__(self, place: str, names: Sequence[str]) -> None:
        self._place = place
        self._names = names

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(name) for name in self._names]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        system, root = open_place(self._place)
        with system.open_input_file(f"{root}/rows/{partition.value}") as stream:
            for rows in pq.ParquetFile(stream).iter_batches():
                yield rows.cast(SCHEMA)
