"""LOG and QOFF: the log is whole records from its first byte to its last, whose queue offsets count up."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from .tables import AuditTables
from .violations import damage_violations, violations


def log(tables: AuditTables) -> DataFrame:
    """Return what is damaged. Behind the last whole record an unclean exit explains it, as a torn tail."""
    base_offset = fn.substring("file", -20, 20).cast("bigint")  # a segment's name
    is_tail = base_offset + fn.col("position") >= tables.log_end
    return damage_violations(tables.records, "LOG", is_tail & fn.lit(tables.layout.unclean_exit))


def qoff(tables: AuditTables) -> DataFrame:
    """Return every record whose queue offset does not follow that of the one before it in its queue.

    The first of a queue has 0 if nothing has expired from the log; else it may have any.
    """
    in_order = Window.partitionBy("topic", "queue_id").orderBy("physical_offset")
    first = fn.lit(0) if tables.log_begin == 0 else fn.col("queue_offset")
    wanted = fn.coalesce(fn.lag("queue_offset").over(in_order) + 1, first)
    rows = tables.queued.withColumn("wanted", wanted).where("wanted != queue_offset")
    return violations(rows, "QOFF", "queueOffset", fn.col("wanted"), fn.col("queue_offset"))
