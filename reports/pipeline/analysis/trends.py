"""Trends: compares the outcomes of the same seeds between versions of the code."""

import pyarrow as pa
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as fn

from .analysis import Sweep, rows_of, with_bounds

_SAME_SEED = ("scenario", "seed", "mutant", "disk", "policy")
_BY = ("code", "began", "mutant", "scenario")


def trends_table(spark: SparkSession, sweeps: list[Sweep]) -> pa.Table:
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
            fn.round(fn.avg("wall_seconds"), 6).alias("seconds_per_seed"),
        )
        .withColumn("pass_rate", fn.col("held") / fn.col("seeds"))
        .orderBy("number", "mutant", "scenario")
        .drop("number")
        .toArrow()
    )
    return with_bounds(found)
