"""The audit: every promise of a store directory that joins can prove or refute."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as fn

from .index import index
from .log import log, qoff
from .queues import queues
from .tables import AuditTables
from .violations import SCHEMA, number_of


@dataclass(frozen=True)
class Audit:
    """What was read, and what was found."""

    records: int
    log_bytes: int
    """Of whole records."""
    entries: int
    index_entries: int
    found: DataFrame
    """Rows as `violations` has them, in no order."""
    kept: tuple[DataFrame, ...]
    """What Spark has in memory and on disk for `found`, until `release`."""

    def first(self, limit: int) -> list[Row]:
        """Return some of what was found: what nothing explains first, then by promise and place.

        Each promise has its share of them, however many breaches of another one there are: one damaged record may leave
        hundreds of entries without theirs.
        """
        number, place = number_of(fn.col("promise")), ("file", "position", "field")
        rank = fn.row_number().over(Window.partitionBy("is_explained", "promise").orderBy(*place))
        rows = self.found.withColumn("number", number).withColumn("rank", rank)
        some = rows.orderBy("is_explained", "rank", "number").limit(limit)
        return some.orderBy("is_explained", "number", *place).drop("number", "rank").collect()

    def release(self) -> None:
        """Let Spark forget what it keeps."""
        for rows in self.kept:
            rows.unpersist()


def audit(spark: SparkSession, place: str, options: Mapping[str, str] | None = None) -> Audit:
    """Audit the directory at a place; options are the source's, for where the log is and what sizes there are.

    Raises FileNotFoundError if there is no store.
    """
    tables = AuditTables(spark, place, options or {})
    if not tables.directory.segments() and not tables.directory.queue_files():
        raise FileNotFoundError(f"{place}: no store: neither a segment of a log nor a file of a queue")
    layout = tables.layout
    told = [*layout.found, *layout.against_the_log(tables.log.records, tables.log.last_ms)]
    promises = [spark.createDataFrame(told, SCHEMA), log(tables), qoff(tables), queues(tables)]
    of_index = index(tables)
    found = reduce(DataFrame.unionByName, [*promises, *([] if of_index is None else [of_index])])
    return Audit(
        tables.log.records,
        tables.log.log_bytes,
        tables.entries.where("damage is null").count(),
        0 if of_index is None else tables.index_entries.where("number is not null").count(),
        tables.keep(found.distinct()),
        tuple(tables.kept),
    )
