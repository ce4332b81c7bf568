"""Audit tables: what an audit reads of a store directory, and the table of what it finds, one row each.

promise          string   one of PROMISES
file, position   string, bigint   where to look; position -1 for a file that is not there
field            string   what is wrong
expected, found  string
is_explained     boolean  whether an unclean exit explains it, so that recovery will mend it: then it is a note
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as fn

from ....store.formats.message import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from ..source.directory import StoreDirectory
from ..source.source_options import SourceOptions
from .layout import DirectoryLayout

_RECORD_COLUMNS = (
    "file,position,physical_offset,size,topic,queue_id,queue_offset,sys_flag,store_timestamp_ms,tags_code,key_hashes,"
    "light_places,damage"
)


@dataclass
class AuditTables:
    """The tables of one directory, as far as an audit needs them; each is read once, and kept on disk if need be."""

    spark: SparkSession
    place: str
    options: Mapping[str, str]
    """Of the source: geometry, and where the log is."""
    kept: list[DataFrame] = field(default_factory=list)
    """What Spark keeps because it is asked more than once."""

    def keep(self, rows: DataFrame) -> DataFrame:
        """Return rows that Spark computes once, and has in memory and on disk from then on."""
        self.kept.append(rows.persist())
        return rows

    @cached_property
    def directory(self) -> StoreDirectory:
        """Return the directory."""
        return StoreDirectory(self.place, SourceOptions.of({**self.options, "path": self.place}).commit_log)

    @cached_property
    def records(self) -> DataFrame:
        """Return the log's records, and rows of damage, without properties and bodies."""
        return self.keep(self._table("messages", columns=_RECORD_COLUMNS))

    @cached_property
    def queued(self) -> DataFrame:
        """Return the records that have a place in a queue, once for each: in their own, and in light ones there are."""
        whole = self.records.where("topic is not null")
        own = whole.where(
            (fn.col("sys_flag").bitwiseAND(TRANSACTION_MASK)).isin(TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)
            == fn.lit(False)
        )
        names = sorted({one.topic for one in self.directory.queue_files()})
        light = own.select("*", fn.explode("light_places").alias("light")).where(fn.col("light.topic").isin(names))
        facts = ["file", "position", "physical_offset", "size", "store_timestamp_ms", "tags_code", "damage"]
        place = ["topic", "queue_id", "queue_offset"]
        return own.select(*place, *facts).unionByName(
            light.select(*[fn.col(f"light.{name}").alias(name) for name in place], *facts)
        )

    @cached_property
    def entries(self) -> DataFrame:
        """Return the entries of all queues."""
        return self.keep(self._table("queue_entries"))

    @cached_property
    def index_entries(self) -> DataFrame:
        """Return the entries of those files of the index that have the right length."""
        slots = self.layout.index.slots
        slots_option = {} if slots is None else {"hashSlots": str(slots)}
        return self.keep(
            self._table("index_entries", **slots_option).where(fn.col("file").isin(self.layout.index.files))
        )

    @cached_property
    def layout(self) -> DirectoryLayout:
        """Return what names, lengths and headers show."""
        options = SourceOptions.of({**self.options, "path": self.place})
        return DirectoryLayout(self.directory, options.hash_slots, options.index_entries)

    @cached_property
    def log_begin(self) -> int:
        """Return the log offset of the first segment's first byte, 0 if there is none."""
        segments = self.directory.segments()
        return segments[0].base_offset if segments else 0

    @cached_property
    def log(self) -> Row:
        """Return facts of whole records: `records`, `log_bytes`, `end` behind the last, `last_ms`, its time."""
        (row,) = (
            self.records.where("damage is null")
            .selectExpr(
                "count(*) as records",
                "coalesce(sum(size), 0) as log_bytes",
                f"coalesce(max(physical_offset + size), {self.log_begin}) as end",
                "coalesce(max(store_timestamp_ms), 0) as last_ms",
            )
            .collect()
        )
        return row

    @property
    def log_end(self) -> int:
        """Return the log offset behind the last whole record: one whose body is not what it was is none."""
        return int(self.log.end)

    def _table(self, name: str, **more: str) -> DataFrame:
        reader = self.spark.read.format("rocketmq").options(table=name, **{**self.options, **more})
        return reader.load(self.place)


PROMISES = ("LOG", "QOFF", "CQ-VALID", "CQ-COMPLETE", "IDX", "CKPT")
"""What a directory promises, in the order of `tornlog verify`, whose codes these are."""
SCHEMA = (
    "promise string, file string, position bigint, field string, expected string, found string, is_explained boolean"
)


def violations(
    rows: DataFrame,
    promise: str,
    field: str | Column,
    expected: str | Column,
    found: Column | str,
    is_explained: Column | None = None,
) -> DataFrame:
    """Return rows, which have file and position, as violations; texts are literal, columns are computed."""
    return rows.select(
        fn.lit(promise).alias("promise"),
        fn.col("file"),
        fn.col("position").cast("bigint").alias("position"),
        _text(field).alias("field"),
        _text(expected).alias("expected"),
        _text(found).alias("found"),
        (fn.lit(False) if is_explained is None else is_explained).alias("is_explained"),
    )


def damage_violations(rows: DataFrame, promise: str, is_explained: Column | None = None) -> DataFrame:
    """Return rows of the source that say what is damaged as violations."""
    field, expected, found = (fn.col(f"damage.{name}") for name in ("field", "expected", "found"))
    return violations(rows.where("damage is not null"), promise, field, expected, found, is_explained)


def number_of(promise: Column) -> Column:
    """Return where a promise is in `PROMISES`: what breaks an early one is often the cause of other breaches."""
    return fn.array_position(fn.lit(list(PROMISES)), promise)


def _text(value: str | Column) -> Column:
    return (fn.lit(value) if isinstance(value, str) else value).cast("string")
