"""Audit: every promise of a store directory that joins can prove or refute, with what breaks it.

LOG and QOFF: the log is whole records from its first byte to its last, whose queue offsets count up.

CQ-COMPLETE and CQ-VALID: each record has its entry, and each entry leads to its record. One join, by topic, queue and
where the record is in the log: what is on one side only is missing or leads nowhere, what is on both must agree.
Entries of what has expired from the log's front are left alone. Where queues have extension files, entries that lead
there have no code to compare; `verify` reads those files. After an unclean exit two things are explained, and no
others: entries that lead behind the log's end, and entries that are missing behind all that their queue has, of records
that the checkpoint does not vouch for.

IDX: the index has an entry for each key of each record, in the log's order, and no other. One join, by where the record
is and the key's hash, of how many there are on each side; links, slots and headers are seen to by the source. What
leads to records that have expired is left alone. A store without a directory for it promises none, unless its
checkpoint shows one. After an unclean exit recovery keeps full files only, up to the first that is not or that is
younger than the checkpoint's index time: what is wrong with the others, and keys behind those, are explained.

CKPT, and what names and lengths show of the others: see `layout`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as fn

from ....store.formats.consume_queue import ADDRESS_MAX, ENTRY_BYTES
from ....store.formats.delay_level import SCHEDULE_TOPIC
from .tables import SCHEMA, AuditTables, damage_violations, number_of, violations

_ENTRY_PLACE = ["topic", "queue_id", "physical_offset"]
_ENTRY_FIELDS = (("size", "size"), ("tags_code", "tagsCode"), ("queue_offset", "phyOffset"))
"""What an entry has of its record, and the field that has it; its number is the record's queue offset."""
_FIELD_AT = {"phyOffset": 0, "size": 8, "tagsCode": 12}
_RECORD_FACTS = ["position", "physical_offset", "store_timestamp_ms"]
_INDEX_KEY = ["physical_offset", "key_hash"]
_TIME_DIFF_AT = 12
"""Where an entry of the index has it."""


@dataclass(frozen=True)
class Audit:
    """What was read, and what was found."""

    records: int
    log_bytes: int
    """Of whole records."""
    entries: int
    index_entries: int
    found: DataFrame
    """Rows as `tables` lists them, in no order."""
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
    of_layout = [*layout.found, *layout.against_the_log(tables.log.records, tables.log.last_ms)]
    promises = [spark.createDataFrame(of_layout, SCHEMA), _log(tables), _offsets(tables), _queues(tables)]
    of_index = _index(tables)
    found = reduce(DataFrame.unionByName, [*promises, *([] if of_index is None else [of_index])])
    return Audit(
        tables.log.records,
        tables.log.log_bytes,
        tables.entries.where("damage is null").count(),
        0 if of_index is None else tables.index_entries.where("number is not null").count(),
        tables.keep(found.distinct()),
        tuple(tables.kept),
    )


def _log(tables: AuditTables) -> DataFrame:
    """Return what is damaged. Behind the last whole record an unclean exit explains it, as a torn tail."""
    base_offset = fn.substring("file", -20, 20).cast("bigint")  # a segment's name
    is_tail = base_offset + fn.col("position") >= tables.log_end
    return damage_violations(tables.records, "LOG", is_tail & fn.lit(tables.layout.unclean_exit))


def _offsets(tables: AuditTables) -> DataFrame:
    """Return every record whose queue offset does not follow that of the one before it in its queue.

    The first of a queue has 0 if nothing has expired from the log; else it may have any.
    """
    in_order = Window.partitionBy("topic", "queue_id").orderBy("physical_offset")
    first = fn.lit(0) if tables.log_begin == 0 else fn.col("queue_offset")
    wanted = fn.coalesce(fn.lag("queue_offset").over(in_order) + 1, first)
    rows = tables.queued.withColumn("wanted", wanted).where("wanted != queue_offset")
    return violations(rows, "QOFF", "queueOffset", fn.col("wanted"), fn.col("queue_offset"))


def _queues(tables: AuditTables) -> DataFrame:
    """Return records without their entries, entries without their records, and entries at odds with theirs."""
    real = tables.entries.where("damage is null and not is_blank")
    entries = real.where("physical_offset >= 0 and size > 0")
    seen = [fn.col(name).alias(f"{name}_seen") for name, _ in _ENTRY_FIELDS]
    where = [fn.col(name).alias(f"entry_{name}") for name in ("file", "position")]
    joined = tables.keep(tables.queued.join(entries.select(*_ENTRY_PLACE, *seen, *where), _ENTRY_PLACE, "full_outer"))
    astray = joined.where("position is null").where(fn.col("physical_offset") >= tables.log_begin)
    both = joined.where("entry_file is not null and position is not null")
    if "delayLevels" not in tables.options:
        both = _with_usual_delays(both)
    of_entry = {"file": fn.col("entry_file"), "position": fn.col("entry_position")}
    is_behind = fn.col("physical_offset") >= tables.log_end
    found = [
        _missing_entries(tables, joined),
        violations(
            astray.withColumns(of_entry),
            "CQ-VALID",
            "phyOffset",
            fn.when(is_behind, f"below {tables.log_end}, the log's end").otherwise(
                "where a record of this queue begins"
            ),
            fn.col("physical_offset"),
            is_behind & fn.lit(tables.layout.unclean_exit),
        ),
        _impossible_entries(real),
        damage_violations(tables.entries, "CQ-VALID"),
        _holes(tables),
    ]
    for name, field in _ENTRY_FIELDS:
        odd = both.where(fn.col(name) != fn.col(f"{name}_seen"))
        expected, value = fn.col(name), fn.col(f"{name}_seen")
        if field == "tagsCode" and tables.directory.has_extension:
            odd = odd.where(fn.col("tags_code_seen") > ADDRESS_MAX)
        if field == "phyOffset":
            expected = fn.concat(fn.lit("the record with queueOffset "), value)
            value = fn.concat("physical_offset", fn.lit(", with queueOffset "), "queue_offset")
        odd = odd.withColumns({**of_entry, "position": fn.col("entry_position") + _FIELD_AT[field]})
        found.append(violations(odd, "CQ-VALID", field, expected, value))
    return reduce(DataFrame.unionByName, found)


def _missing_entries(tables: AuditTables, joined: DataFrame) -> DataFrame:
    """Return records without entries. A damaged one needs none: recovery makes none for it."""
    behind = fn.col("physical_offset") >= tables.log_end
    numbers = tables.entries.where("damage is null").select("topic", "queue_id", "queue_offset", "physical_offset")
    ends = numbers.where(~behind).groupBy("topic", "queue_id").agg(fn.max("queue_offset").alias("last"))
    missing = joined.where("entry_file is null and damage is null").join(ends, ["topic", "queue_id"], "left")
    is_tail = fn.col("queue_offset") > fn.coalesce("last", fn.lit(-1))
    is_young = fn.col("store_timestamp_ms") > tables.layout.durable_ms
    expected = fn.concat_ws(" ", fn.lit("one for"), fn.concat_ws("/", "topic", "queue_id"), fn.col("queue_offset"))
    taken = is_tail & is_young & fn.lit(tables.layout.unclean_exit)
    return violations(missing, "CQ-COMPLETE", "queue entry", expected, "none", taken)


def _impossible_entries(entries: DataFrame) -> DataFrame:
    is_negative = fn.col("physical_offset") < 0
    odd = entries.where(is_negative | (fn.col("size") <= 0))
    odd = odd.withColumn("position", fn.col("position") + fn.when(is_negative, 0).otherwise(_FIELD_AT["size"]))
    field, found = fn.when(is_negative, "phyOffset").otherwise("size"), fn.least("physical_offset", "size")
    return violations(odd, "CQ-VALID", field, "more than 0", found)


def _holes(tables: AuditTables) -> DataFrame:
    """Return files that end in zeros although a later file of their queue has entries."""
    ends = tables.entries.groupBy("file").agg((fn.max("position") + ENTRY_BYTES).alias("end"))
    ended = {row.file: row.end for row in ends.collect()}
    holes, follows = [], set[tuple[str, int]]()
    for one in reversed(tables.directory.queue_files()):
        queue, end = (one.topic, one.queue_id), ended.get(one.file.path, 0)
        if queue in follows and end < one.file.size_bytes:
            holes.append((one.file.path, end))
        if end:
            follows.add(queue)
    rows = tables.spark.createDataFrame(holes, "file string, position bigint")
    return violations(rows, "CQ-VALID", "entry", "no hole, as entries follow", "zeros")


def _with_usual_delays(both: DataFrame) -> DataFrame:
    """Return what is delayed with the delay that most of its level have: no file says how long levels are."""
    is_delayed = fn.col("topic") == SCHEDULE_TOPIC
    waits_ms = fn.mode(fn.col("tags_code_seen") - fn.col("store_timestamp_ms"), deterministic=True)
    usual = both.where(is_delayed).groupBy("queue_id").agg(waits_ms.alias("usual_ms"))
    usual = usual.withColumn("topic", fn.lit(SCHEDULE_TOPIC))
    due = fn.col("store_timestamp_ms") + fn.col("usual_ms")
    both = both.join(fn.broadcast(usual), ["topic", "queue_id"], "left")
    return both.withColumn("tags_code", fn.coalesce(due, fn.col("tags_code")))


def _index(tables: AuditTables) -> DataFrame | None:
    """Return keys without their entries, entries without their keys, and what is wrong in files; None without any."""
    layout = tables.layout
    if not tables.directory.is_directory(f"{tables.directory.root}/index"):
        return None
    is_rebuilt = fn.lit(layout.unclean_exit) & ~fn.col("file").isin(sorted(layout.index.durable))
    every = tables.index_entries
    entries = every.where("number is not null").where(fn.col("physical_offset") >= tables.log_begin)
    keys = (
        tables.records.where("topic is not null")
        .where(fn.col("physical_offset") < tables.log_end)
        .select("file", *_RECORD_FACTS, fn.explode("key_hashes").alias("key_hash"))
    )
    wanted = keys.groupBy(*_INDEX_KEY).agg(
        fn.count("*").alias("wanted"),
        fn.first("file").alias("record_file"),
        fn.first("position").alias("record_position"),
        fn.first("store_timestamp_ms").alias("stored_ms"),
    )
    seen = entries.groupBy(*_INDEX_KEY).agg(
        fn.count("*").alias("seen"), fn.max("file").alias("file"), fn.max("position").alias("position")
    )
    joined = tables.keep(wanted.join(seen, _INDEX_KEY, "full_outer"))
    missing = joined.where("coalesce(seen, 0) < wanted")
    missing = missing.withColumn("file", fn.col("record_file")).withColumn("position", fn.col("record_position"))
    surplus = joined.where("seen > coalesce(wanted, 0)")
    timed = entries.where("number > 1").join(wanted.select(*_INDEX_KEY, "stored_ms"), _INDEX_KEY)
    late_s = fn.floor((fn.col("stored_ms") - fn.col("begin_timestamp_ms")) / 1000)
    untimely = timed.withColumn("wanted", fn.greatest(fn.lit(0), late_s)).where("wanted != time_diff_s")
    untimely = untimely.withColumn("position", fn.col("position") + _TIME_DIFF_AT)
    order = Window.partitionBy("file").orderBy("number")
    unordered = entries.withColumn("before", fn.lag("physical_offset").over(order)).where("physical_offset < before")
    least = fn.concat(fn.lit("from "), fn.col("before"))
    is_added = fn.lit(layout.unclean_exit) & (fn.col("physical_offset") >= layout.index.durable_end)
    found = [
        damage_violations(every, "IDX", is_rebuilt),
        violations(missing, "IDX", "keys of the record", fn.col("wanted"), _count("seen"), is_added),
        violations(surplus, "IDX", "entries for a key", _count("wanted"), fn.col("seen"), is_rebuilt),
        violations(untimely, "IDX", "timeDiff", fn.col("wanted"), fn.col("time_diff_s"), is_rebuilt),
        violations(unordered, "IDX", "phyOffset", least, fn.col("physical_offset"), is_rebuilt),
    ]
    return reduce(DataFrame.unionByName, found)


def _count(name: str) -> Column:
    return fn.coalesce(fn.col(name), fn.lit(0))
