"""Analysis: all tables of it, by name, and the files that keep them. Those of mutants are in `detection`.

Pass rates, how often runs held, by mutant, scenario, disk and policy:

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

Coverage, which faults were injected and which marks were hit, those among them that never did, and how machines died:

    column  type    meaning
    what    string  fault or mark: every one there is; end: how machines died, the ends that came about
    name    string
    times   int64   how often it came about, in all
    seeds   int64   in how many seeds it did

Put latency, how long puts took that were answered OK, in virtual time, by flush mode, disk and number of producers:

    column      type    meaning
    sync_flush  bool    SYNC_FLUSH, or ASYNC_FLUSH
    disk        string
    producers   int32
    puts        int64
    p50_us      int64   the time that this share of the puts did not exceed, exact to 1 us: the nearest rank
    p90_us, p99_us, p99_9_us, max_us

Latencies are of the store as it is: how fast a mutant answers is no news. The percentiles are those of all puts
together, for the histograms of the runs are merged and not their percentiles.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from ....scenarios.campaigns.coverage import FAULTS, MARKS
from ...quantities import PER_MILLE, bounds
from .detection import detections, mutants

_RATES_BY = ("mutant", "scenario", "disk", "policy")
_LATENCY_BY = ("sync_flush", "disk", "producers")
_COVERAGE = pa.schema(
    [
        pa.field("what", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("times", pa.int64(), nullable=False),
        pa.field("seeds", pa.int64(), nullable=False),
    ]
)


def analysed(rows: DataFrame) -> dict[str, pa.Table]:
    """Return every table that rows give: the same rows, the same tables, whatever Spark's partitions."""
    by_scenario = detections(rows)
    return {
        "pass_rates": _pass_rates(rows),
        "mutants": mutants(rows, by_scenario),
        "detections": by_scenario,
        "coverage": _coverage(rows),
        "put_latency": _put_latency(rows),
    }


def write_tables(tables: dict[str, pa.Table], directory: Path) -> list[Path]:
    """Write each table to a Parquet file of its name in a directory that is made if need be; return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, table in tables.items():
        paths.append(directory / f"{name}.parquet")
        pq.write_table(table, paths[-1])
    return paths


def never(table: pa.Table, what: str) -> list[str]:
    """Return the names, of faults or of marks, that never came about."""
    return [row["name"] for row in table.to_pylist() if row["what"] == what and not row["seeds"]]


def _pass_rates(rows: DataFrame) -> pa.Table:
    """Return the table of pass rates, in the order of its first four columns, null first."""
    outcome = fn.col("outcome")
    rates = (
        rows.groupBy(*_RATES_BY)
        .agg(
            fn.count("*").alias("seeds"),
            fn.count_if(outcome == "held").alias("held"),
            fn.count_if(outcome == "violated").alias("violated"),
            fn.count_if(~outcome.isin("held", "violated")).alias("other"),
        )
        .withColumn("pass_rate", fn.col("held") / fn.col("seeds"))
        .orderBy(*_RATES_BY)
        .toArrow()
    )
    counts = zip(rates["held"].to_pylist(), rates["seeds"].to_pylist(), strict=True)
    low_high = [bounds(held, seeds) for held, seeds in counts]
    for number, name in enumerate(("rate_low", "rate_high")):
        rates = rates.append_column(name, pa.array([pair[number] for pair in low_high], pa.float64()))
    return rates


def _coverage(rows: DataFrame) -> pa.Table:
    """Return the table of coverage: faults, then marks, then ends, each in the order of their names."""
    counts = [
        *((_what(name), name, times, seeds) for name, times, seeds in _sums(rows, "injected")),
        *(("mark", name, times, seeds) for name, times, seeds in _sums(rows, "marks")),
    ]
    known = [*(("fault", name) for name in FAULTS), *(("mark", name) for name in MARKS)]
    seen = {(what, name) for what, name, _, _ in counts}
    counts += [(*pair, 0, 0) for pair in known if pair not in seen]
    order = ("fault", "mark", "end")
    counts.sort(key=lambda row: (order.index(row[0]), row[1]))
    return pa.Table.from_pylist([dict(zip(_COVERAGE.names, row, strict=True)) for row in counts], _COVERAGE)


def _what(name: str) -> str:
    return "end" if name == "crash" or name.startswith("crash ") else "fault"


def _sums(rows: DataFrame, column: str) -> list[tuple[str, int, int]]:
    """Return name, times and seeds of what a column of counts holds; a count of 0 is none."""
    found = (
        rows.select(fn.explode(column).alias("name", "times"))
        .filter(fn.col("times") > 0)
        .groupBy("name")
        .agg(fn.sum("times").alias("times"), fn.count("*").alias("seeds"))
    )
    return [(row.name, row.times, row.seeds) for row in found.collect()]


def _put_latency(rows: DataFrame) -> pa.Table:
    """Return the table of put latency, in the order of its first three columns."""
    merged = (
        rows.filter(fn.col("mutant").isNull())
        .select(*_LATENCY_BY, fn.inline("put_latency"))
        .groupBy(*_LATENCY_BY, "us")
        .agg(fn.sum("puts").alias("puts"))
    )
    group = Window.partitionBy(*_LATENCY_BY)
    ranked = merged.withColumn("rank", fn.sum("puts").over(group.orderBy("us"))).withColumn(
        "all", fn.sum("puts").over(group)
    )
    # whole numbers throughout: a share in floating point may round past a rank
    percentiles = [
        fn.min(fn.when(fn.col("rank") * 1000 >= fn.col("all") * share, fn.col("us"))).alias(name)
        for name, share in PER_MILLE.items()
    ]
    return (
        ranked.groupBy(*_LATENCY_BY)
        .agg(fn.max("all").alias("puts"), *percentiles, fn.max("us").alias("max_us"))
        .orderBy(*_LATENCY_BY)
        .toArrow()
    )
