"""PREFIX and QOFF: the log is whole records from its first byte to its last, whose queue offsets count up."""

from itertools import pairwise

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from .tables import AuditTables
from .violations import damage_violations, violations

_NOWHERE = -1


def prefix(tables: AuditTables) -> DataFrame:
    """Return missing segments, and what is damaged: behind the last whole record that is explained, as a torn tail."""
    base_offset = fn.substring("file", -20, 20).cast("bigint")  # a segment's name
    behind = base_offset + fn.col("position") >= tables.log_end
    return damage_violations(tables.records, "PREFIX", behind).unionByName(_gaps(tables))


def _gaps(tables: AuditTables) -> DataFrame:
    segments = tables.directory.segments()
    gaps = [
        (later.path, _NOWHERE, str(before.base_offset + before.size_bytes), str(later.base_offset))
        for before, later in pairwise(segments)
        if later.base_offset != before.base_offset + before.size_bytes
    ]
    rows = tables.spark.createDataFrame(gaps, "file string, position bigint, wanted string, seen string")
    return violations(rows, "PREFIX", "name of the segment", fn.col("wanted"), fn.col("seen"))


def qoff(tables: AuditTables) -> DataFrame:
    """Return every record whose queue offset does not follow that of the one before it in its queue.

    The first of a queue has 0 if nothing has expired from the log; else it may have any.
    """
    in_order = Window.partitionBy("topic", "queue_id").orderBy("physical_offset")
    first = fn.lit(0) if tables.log_begin == 0 else fn.col("queue_offset")
    wanted = fn.coalesce(fn.lag("queue_offset").over(in_order) + 1, first)
    rows = tables.queued.withColumn("wanted", wanted).where("wanted != queue_offset")
    return violations(rows, "QOFF", "queueOffset", fn.col("wanted"), fn.col("queue_offset"))
