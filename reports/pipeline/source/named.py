"""Named tables: show path, conditions and skipped bytes in EXPLAIN and Spark's UI.

Spark shows only the registered name of a Python source. So each table has its own source. The
source's name describes the table as it was loaded.
"""

import json
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from .columns import RowConditions, conditions_of
from .directory import StoreFile
from .index_lookup import IndexedPart
from .log_ranges import LogRange
from .rocketmq import RocketMQSource, make_table
from .source_options import SourceOptions
from .stores import StorePart


def store_table(spark: SparkSession, *directories: str, **options: str) -> DataFrame:
    """Load a table of one or several stores, with the options of `source_options`.

    Raises ValueError for an invalid option, FileNotFoundError if a directory does not exist.
    """
    place = {"path": directories[0]} if len(directories) == 1 else {"paths": json.dumps(directories)}
    given = {**options, **place}
    text = description(SourceOptions.from_spark(given))
    spark.dataSource.register(type("NamedSource", (RocketMQSource,), {"name": classmethod(lambda _: text)}))
    return spark.read.format(text).options(**given).load()


def description(options: SourceOptions) -> str:
    """Return table, paths, conditions, and how much of the files the tasks read at most."""
    table = make_table(options)
    conditions = conditions_of(options.where, table.condition_columns)
    parts, everything = table.partitions(conditions), table.partitions(RowConditions())
    chosen = [options.where] * bool(options.where) + [f"key = {options.key}"] * (options.key is not None)
    skipped = []
    if options.table == "messages" and options.use_queues and (conditions.on("topic") or conditions.on("queue_id")):
        skipped.append("records that queue entries exclude")
    if any(isinstance(part.value, IndexedPart) for part in parts):
        skipped.append("records that the index excludes")
    return (
        f"rocketmq {options.table} of {', '.join(options.stores)}"
        + (f" where {' and '.join(chosen)}" if chosen else "")
        + f": {_megabytes(parts)} of {_megabytes(everything)} MB"
        + (f", without {' and '.join(skipped)}" if skipped else "")
    )


def _megabytes(parts: Sequence[StorePart]) -> str:
    return f"{sum(_bytes_of(part.value) for part in parts) / 1e6:,.1f}"


def _bytes_of(value: object) -> int:
    if isinstance(value, LogRange):
        return value.end - value.start
    if isinstance(value, IndexedPart):
        return sum(one.end - one.start for one in value.ranges)
    if isinstance(value, StoreFile):
        return value.size_bytes
    assert isinstance(value, list), value
    return sum(one.file.size_bytes for one in value)
