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
"""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

_BY = ("mutant", "scenario", "disk", "policy")


def pass_rates(rows: DataFrame) -> pa.Table:
    """Return the table above, in the order of its first four columns, null first."""
    outcome = fn.col("outcome")
    return (
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
