"""Trends: how the same seeds went with one code after another.

One row for each code, mutant and scenario, in the order in which the codes were first used, then of the other columns:

    column          type    meaning
    code            string  the version and a hash of the sources
    began           string  when the first of the sweeps began that this code ran, UTC
    mutant          string  null for the store as it is
    scenario        string
    seeds, held, violated, other            int64    as in the pass rates
    again           int64   seeds of these that an earlier code ran, too, on the same disk and under the same policy
    broke           int64   seeds of those that held with the latest of the earlier codes, and broke a promise with this
    mended          int64   seeds of those that broke a promise with that one, and held with this
    seconds_a_seed  double  wall time on average, to a microsecond; of other machines if the sweeps ran on others
    pass_rate, rate_low, rate_high          double   as in the pass rates

A run counts once for each code that ran it. In the other tables it counts once: what two codes do alike is no news of
either.
"""

import pyarrow as pa
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as fn

from .analysis import Sweep, rows_of, with_bounds

_SAME_SEED = ("scenario", "seed", "mutant", "disk", "policy")
_BY = ("code", "began", "mutant", "scenario")


def trends(spark: SparkSession, sweeps: list[Sweep]) -> pa.Table:
    """Return the table of trends."""
    first_used: dict[str, str] = {}
    for sweep in sorted(sweeps, key=lambda sweep: sweep.begun.began):
        first_used.setdefault(sweep.begun.code, sweep.begun.began)
    codes = [(code, began, number) for number, (code, began) in enumerate(first_used.items())]
    order = fn.broadcast(spark.createDataFrame(codes, "code string, began string, number int"))
    rows = rows_of(spark, sweeps, once_a_code=True).join(order, "code")
    outcome, before = fn.col("outcome"), fn.col("before")
    by_time = Window.partitionBy(*_SAME_SEED).orderBy("number")
    found = (
        rows.select(*_SAME_SEED, "code", "began", "number", "outcome", "wall_seconds")
        .withColumn("before", fn.lag("outcome").over(by_time))
        .groupBy("number", *_BY)
        .agg(
            fn.count("*").alias("seeds"),
            fn.count_if(outcome == "held").alias("held"),
            fn.count_if(outcome == "violated").alias("violated"),
            fn.count_if(~outcome.isin("held", "violated")).alias("other"),
            fn.count("before").alias("again"),
            fn.count_if((before == "held") & (outcome == "violated")).alias("broke"),
            fn.count_if((before == "violated") & (outcome == "held")).alias("mended"),
            fn.round(fn.avg("wall_seconds"), 6).alias("seconds_a_seed"),
        )
        .withColumn("pass_rate", fn.col("held") / fn.col("seeds"))
        .orderBy("number", "mutant", "scenario")
        .drop("number")
        .toArrow()
    )
    return with_bounds(found)
