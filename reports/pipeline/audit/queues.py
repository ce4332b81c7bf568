"""CQ-COMPLETE and CQ-VALID: each record has its entry, and each entry leads to its record.

One join, by topic, queue and where the record is in the log: what is on one side only is missing or leads nowhere, what
is on both must agree. Entries of what has expired from the log's front are left alone. Where queues have extension
files, entries that lead there have no code to compare; `verify` reads those files.

After an unclean exit two things are explained, and no others: entries that lead behind the log's end, and entries that
are missing behind all that their queue has, of records that the checkpoint does not vouch for.
"""

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ....store.formats.consume_queue import ADDRESS_MAX, ENTRY_BYTES
from ....store.formats.delay_level import SCHEDULE_TOPIC
from .tables import AuditTables
from .violations import damage_violations, violations

_PLACE = ["topic", "queue_id", "physical_offset"]
_PAIRS = (("size", "size"), ("tags_code", "tagsCode"), ("queue_offset", "phyOffset"))
"""What an entry has of its record, and the field that has it; its number is the record's queue offset."""
_FIELD_AT = {"phyOffset": 0, "size": 8, "tagsCode": 12}


def queues(tables: AuditTables) -> DataFrame:
    """Return records without their entries, entries without their records, and entries at odds with theirs."""
    real = tables.entries.where("damage is null and not is_blank")
    entries = real.where("physical_offset >= 0 and size > 0")
    seen = [fn.col(name).alias(f"{name}_seen") for name, _ in _PAIRS]
    where = [fn.col(name).alias(f"entry_{name}") for name in ("file", "position")]
    joined = tables.keep(tables.queued.join(entries.select(*_PLACE, *seen, *where), _PLACE, "full_outer"))
    astray = joined.where("position is null").where(fn.col("physical_offset") >= tables.log_begin)
    both = joined.where("entry_file is not null and position is not null")
    if "delayLevels" not in tables.options:
        both = _with_usual_delays(both)
    of_entry = {"file": fn.col("entry_file"), "position": fn.col("entry_position")}
    is_behind = fn.col("physical_offset") >= tables.log_end
    found = [
        _missing(tables, joined),
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
        _impossible(real),
        damage_violations(tables.entries, "CQ-VALID"),
        _holes(tables),
    ]
    for name, field in _PAIRS:
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


def _missing(tables: AuditTables, joined: DataFrame) -> DataFrame:
    """Return records without entries. A damaged one needs none: recovery makes none for it."""
    behind = fn.col("physical_offset") >= tables.log_end
    numbers = tables.entries.where("damage is null").select(
        "topic", "queue_id", "queue_offset", "physical_offset"
    )
    ends = numbers.where(~behind).groupBy("topic", "queue_id").agg(fn.max("queue_offset").alias("last"))
    missing = joined.where("entry_file is null and damage is null").join(ends, ["topic", "queue_id"], "left")
    is_tail = fn.col("queue_offset") > fn.coalesce("last", fn.lit(-1))
    is_young = fn.col("store_timestamp_ms") > tables.layout.durable_ms
    expected = fn.concat_ws(
        " ", fn.lit("one for"), fn.concat_ws("/", "topic", "queue_id"), fn.col("queue_offset")
    )
    taken = is_tail & is_young & fn.lit(tables.layout.unclean_exit)
    return violations(missing, "CQ-COMPLETE", "queue entry", expected, "none", taken)


def _impossible(entries: DataFrame) -> DataFrame:
    """Return entries that no record can have."""
    is_negative = fn.col("physical_offset") < 0
    odd = entries.where(is_negative | (fn.col("size") <= 0))
    odd = odd.withColumn(
        "position", fn.col("position") + fn.when(is_negative, 0).otherwise(_FIELD_AT["size"])
    )
    return violations(
        odd,
        "CQ-VALID",
        fn.when(is_negative, "phyOffset").otherwise("size"),
        "more than 0",
        fn.least("physical_offset", "size"),
    )


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
