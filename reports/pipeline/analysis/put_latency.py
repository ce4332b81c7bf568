"""How long puts took that were answered OK, in virtual time, by flush mode, disk and number of producers.

    column      type    meaning
    sync_flush  bool    SYNC_FLUSH, or ASYNC_FLUSH
    disk        string
    producers   int32
    puts        int64
    p50_us      int64   the time that this share of the puts did not exceed, exact to 1 us: the nearest rank
    p90_us, p99_us, p99_9_us, max_us

Of the store as it is: how fast a mutant answers is no news. The percentiles are those of all puts together, for the
histograms of the runs are merged and not their percentiles.
"""

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from ...quantities import PER_MILLE

_BY = ("sync_flush", "disk", "producers")


def put_latency(rows: DataFrame) -> pa.Table:
    """Return the table above, in the order of its first three columns."""
    merged = (
        rows.filter(fn.col("mutant").isNull())
        .select(*_BY, fn.inline("put_latency"))
        .groupBy(*_BY, "us")
        .agg(fn.sum("puts").alias("puts"))
    )
    group = Window.partitionBy(*_BY)
    ranked = merged.withColumn("rank", fn.sum("puts").over(group.orderBy("us"))).withColumn(
        "all", fn.sum("puts").over(group)
    )
    # whole numbers throughout: a share in floating point may round past a rank
    percentiles = [
        fn.min(fn.when(fn.col("rank") * 1000 >= fn.col("all") * share, fn.col("us"))).alias(name)
        for name, share in PER_MILLE.items()
    ]
    return (
        ranked.groupBy(*_BY)
        .agg(fn.max("all").alias("puts"), *percentiles, fn.max("us").alias("max_us"))
        .orderBy(*_BY)
        .toArrow()
    )
