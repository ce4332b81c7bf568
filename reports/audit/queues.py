"""CQ-COMPLETE and CQ-VALID: each record has its entry, and each entry leads to its record.

One join, by topic, queue and queue offset: what is on one side only is missing or leads nowhere, what is on both must
agree. Entries of what has expired from the log's front are left alone. Where queues have extension files, entries that
lead there have no code to compare.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from ...store.formats.consume_queue_ext import ADDRESS_MAX
from ...store.formats.delay_level import SCHEDULE_TOPIC
from .tables import AuditTables
from .violations import damage_violations, violations

_PLACE = ["topic", "queue_id", "queue_offset"]
_PAIRS = (("physical_offset", "phyOffset"), ("size", "size"), ("tags_code", "tagsCode"))
"""What an entry has of its record, and the field that has it."""
_FIELD_AT = {"phyOffset": 0, "size": 8, "tagsCode": 12}


def queues(tables: AuditTables) -> DataFrame:
    """Return records without their entries, entries without their records, and entries at odds with theirs."""
    entries = tables.entries.where("damage is null and not is_blank")
    seen = [fn.col(name).alias(f"{name}_seen") for name, _ in _PAIRS]
    where = [fn.col(name).alias(f"entry_{name}") for name in ("file", "position")]
    joined = tables.keep(tables.queued.join(entries.select(*_PLACE, *seen, *where), _PLACE, "full_outer"))
    missing = joined.where("entry_file is null")
    surplus = joined.where("physical_offset is null").where(
        fn.col("physical_offset_seen") >= tables.log_begin
    )
    surplus = surplus.withColumn("file", fn.col("entry_file"))
    surplus = surplus.withColumn("position", fn.col("entry_position"))
    both = joined.where("entry_file is not null and physical_offset is not null")
    both = both.withColumn("file", fn.col("entry_file"))
    if "delayLevels" not in tables.options:
        both = _with_usual_delays(both)
    found = [
        violations(missing, "CQ-COMPLETE", "entry", _of_place(), "none", _may_be_taken(tables)),
        violations(
            surplus,
            "CQ-VALID",
            "phyOffset",
            "that of a record with this place",
            fn.col("physical_offset_seen"),
            _is_behind(tables, fn.col("physical_offset_seen")),
        ),
        damage_violations(tables.entries, "CQ-VALID"),
    ]
    for name, field in _PAIRS:
        odd = both.where(fn.col(name) != fn.col(f"{name}_seen"))
        if field == "tagsCode" and tables.directory.has_extension:
            odd = odd.where(fn.col("tags_code_seen") > ADDRESS_MAX)
        odd = odd.withColumn("position", fn.col("entry_position") + _FIELD_AT[field])
        taken = _may_be_taken(tables)
        found.append(violations(odd, "CQ-VALID", field, fn.col(name), fn.col(f"{name}_seen"), taken))
    return reduce(DataFrame.unionByName, found)


def _with_usual_delays(both: DataFrame) -> DataFrame:
    """Return what is delayed with the delay that most of its level have: no file says how long levels are."""
    is_delayed = fn.col("topic") == SCHEDULE_TOPIC
    waits_ms = fn.mode(fn.col("tags_code_seen") - fn.col("store_timestamp_ms"), deterministic=True)
    usual = both.where(is_delayed).groupBy("queue_id").agg(waits_ms.alias("usual_ms"))
    usual = usual.withColumn("topic", fn.lit(SCHEDULE_TOPIC))
    due = fn.col("store_timestamp_ms") + fn.col("usual_ms")
    both = both.join(fn.broadcast(usual), ["topic", "queue_id"], "left")
    return both.withColumn("tags_code", fn.coalesce(due, fn.col("tags_code")))


def _of_place() -> Column:
    return fn.concat_ws(
        " ", fn.lit("one for"), fn.concat_ws("/", fn.col("topic"), fn.col("queue_id")), fn.col("queue_offset")
    )


def _may_be_taken(tables: AuditTables) -> Column:
    """Return whether an unclean exit may have taken the entry of a record."""
    if tables.durable_ms is None:
        return fn.lit(False)
    return fn.col("store_timestamp_ms") >= tables.durable_ms


def _is_behind(tables: AuditTables, physical_offset: Column) -> Column:
    """Return whether an entry leads behind the log's end, which an unclean exit explains."""
    return fn.lit(False) if tables.durable_ms is None else physical_offset >= tables.log_end
