"""IDX: the index has an entry for each key of each record, in the log's order, and no other.

One join, by where the record is and the key's hash, of how many there are on each side; links, slots and headers are
seen to by the source. What leads to records that have expired is left alone. A store without a directory for it
promises none, unless its checkpoint tells of one. After an unclean exit recovery keeps full files only, up to the first
that is not or that is younger than the checkpoint's index time: what is wrong with the others, and keys behind those,
are explained.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from .tables import AuditTables
from .violations import damage_violations, violations

_KEY = ["physical_offset", "key_hash"]
_TIME_DIFF_AT = 12


def index(tables: AuditTables) -> DataFrame | None:
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
        .select(
            "file",
            "position",
            "physical_offset",
            "store_timestamp_ms",
            fn.explode("key_hashes").alias("key_hash"),
        )
    )
    wanted = keys.groupBy(*_KEY).agg(
        fn.count("*").alias("wanted"),
        fn.first("file").alias("record_file"),
        fn.first("position").alias("record_position"),
        fn.first("store_timestamp_ms").alias("stored_ms"),
    )
    seen = entries.groupBy(*_KEY).agg(
        fn.count("*").alias("seen"), fn.max("file").alias("file"), fn.max("position").alias("position")
    )
    joined = tables.keep(wanted.join(seen, _KEY, "full_outer"))
    missing = joined.where("coalesce(seen, 0) < wanted")
    missing = missing.withColumn("file", fn.col("record_file")).withColumn(
        "position", fn.col("record_position")
    )
    surplus = joined.where("seen > coalesce(wanted, 0)")
    timed = entries.where("number > 1").join(wanted.select(*_KEY, "stored_ms"), _KEY)
    late_s = fn.floor((fn.col("stored_ms") - fn.col("begin_timestamp_ms")) / 1000)
    untimely = timed.withColumn("wanted", fn.greatest(fn.lit(0), late_s)).where("wanted != time_diff_s")
    untimely = untimely.withColumn("position", fn.col("position") + _TIME_DIFF_AT)
    order = Window.partitionBy("file").orderBy("number")
    unordered = entries.withColumn("before", fn.lag("physical_offset").over(order)).where(
        "physical_offset < before"
    )
    is_added = fn.lit(layout.unclean_exit) & (fn.col("physical_offset") >= layout.index.durable_end)
    found = [
        damage_violations(every, "IDX", is_rebuilt),
        violations(missing, "IDX", "keys of the record", fn.col("wanted"), _count("seen"), is_added),
        violations(surplus, "IDX", "entries for a key", _count("wanted"), fn.col("seen"), is_rebuilt),
        violations(untimely, "IDX", "timeDiff", fn.col("wanted"), fn.col("time_diff_s"), is_rebuilt),
        violations(
            unordered,
            "IDX",
            "phyOffset",
            fn.concat(fn.lit("from "), fn.col("before")),
            fn.col("physical_offset"),
            is_rebuilt,
        ),
    ]
    return reduce(DataFrame.unionByName, found)


def _count(name: str) -> Column:
    return fn.coalesce(fn.col(name), fn.lit(0))
