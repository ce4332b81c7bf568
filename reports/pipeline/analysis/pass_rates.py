"""How often runs held, by mutant, scenario, disk and policy.

column        type    meaning
mutant        string  null for the store as it is
scenario      string
disk, policy  string  drawn or asked for; null for seeds whose process did not survive
seeds         int64
held          int64
violated      int64
other         int64   lost to the harness: errors, time-outs, dead processes, nondeterminism
pass_rate     double  held / seeds, between 0 and 1
rate_low      double  what the true rate is at least, by these seeds: Wilson's score bound, one-sided at 95 %
rate_high     double  what it is at most, likewise
"""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ...quantities import bounds

_BY = ("mutant", "scenario", "disk", "policy")


def pass_rates(rows: DataFrame) -> pa.Table:
    """Return the table above, in the order of its first four columns, null first."""
    outcome = fn.col("outcome")
    rates = (
        rows.groupBy(*_BY)
        .agg(
            fn.count("*").alias("seeds"),
            fn.count_if(outcome == "held").alias("held"),
            fn.count_if(outcome == "violated").alias("violated"),
            fn.count_if(~outcome.isin("held", "violated")).alias("other"),
        )
        .withColumn("pass_rate", fn.col("held") / fn.col("seeds"))
        .orderBy(*_BY)
        .toArrow()
    )
    counts = zip(rates["held"].to_pylist(), rates["seeds"].to_pylist(), strict=True)
    low_high = [bounds(held, seeds) for held, seeds in counts]
    for number, name in enumerate(("rate_low", "rate_high")):
        rates = rates.append_column(name, pa.array([pair[number] for pair in low_high], pa.float64()))
    return rates
