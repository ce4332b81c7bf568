"""Analysis tables: joins the rows of one or several sweeps and aggregates them with Spark.

A run that occurs in two sweeps is counted once, with its row from the first sweep. docs/sweeps.md describes the
columns.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from math import inf
from operator import and_
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from ....scenarios.campaigns.coverage import FAULTS, MARKS
from ....scenarios.campaigns.pairs import NAMES, possible_pairs
from ...quantities import PER_MILLE, confidence_bounds
from ..place import is_object_store
from ..source.columns import fields_of
from ..sweep.request import StartedSweep, SweepFileError
from ..sweep.rows import SCHEMA, RowFiles
from ..sweep.table import Table
from .object_rows import rows_by_arrow

_RUN = ("scenario", "seed", "mutant", "disk", "policy", "digest")
"""The columns that identify a run. A seed with a requested disk is a different run from the same seed without one."""
_RATES_BY = ("mutant", "scenario", "disk", "policy")
_SAME_SEED = ("scenario", "seed", "mutant", "disk", "policy")
_TREND_BY = ("code", "began", "mutant", "scenario")
_LATENCY_BY = ("sync_flush", "disk", "producers")
_COVERAGE = pa.schema(
    field.with_nullable(False) for field in fields_of("what string, name string, times int64, seeds int64")
)
_PAIRS = pa.schema(field.with_nullable(False) for field in fields_of("first string, second string, seeds int64"))
MUTANTS = pa.schema(
    [
        pa.field("mutant", pa.string(), nullable=False),
        pa.field("found", pa.bool_(), nullable=False),
        pa.field("scenario", pa.string()),
        pa.field("invariant", pa.string()),
        pa.field("seeds", pa.int64(), nullable=False),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("scenarios", pa.int64(), nullable=False),
        pa.field("found_in", pa.int64(), nullable=False),
        pa.field("median_seeds", pa.float64()),
        pa.field("median_seconds", pa.float64()),
    ]
)


class NoSweepError(Exception):
    """No readable sweep rows exist at a path or URI."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A finished or unfinished sweep; `place` is a path or a URI."""

    place: str
    begun: StartedSweep
    files: RowFiles


def find_sweep(place: str) -> Sweep:
    """Raises NoSweepError if `place` has no complete row file."""
    table = Table(place)
    try:
        begun = table.begun()
        files = table.files(every_page=True)
    except (SweepFileError, OSError, ValueError) as error:  # pyarrow raises the last two
        raise NoSweepError(f"{place}: {error}") from error
    if begun is None:
        raise NoSweepError(f"{place}: expected a directory that `tornlog sweep` wrote, found no sweep.json")
    if not files.whole:
        damaged = "".join(f"; rows/{name}: {reason}" for name, reason in sorted(files.damaged.items()))
        raise NoSweepError(f"{place}: the sweep there has no rows yet{damaged}")
    return Sweep(place, begun, files)


def rows_of(spark: SparkSession, sweeps: list[Sweep], *, once_a_code: bool = False) -> DataFrame:
    """once_a_code: keep one row per run and code version, instead of one row per run."""
    run = (*_RUN, "code") if once_a_code else _RUN
    first, *others = [_read_rows(spark, sweep) for sweep in sweeps]
    return reduce(lambda known, more: _add_new_rows(known, more, run), others, first)


def _add_new_rows(known: DataFrame, more: DataFrame, run: tuple[str, ...]) -> DataFrame:
    keys = known.select(*run)
    same = reduce(and_, (more[name].eqNullSafe(keys[name]) for name in run))
    return known.unionByName(more.join(keys, same, "left_anti"))


def _read_rows(spark: SparkSession, sweep: Sweep) -> DataFrame:
    if is_object_store(sweep.place):
        return rows_by_arrow(spark, sweep.place, sorted(sweep.files.whole))
    place = sweep.place if "://" in sweep.place else f"file://{Path(sweep.place).resolve()}"
    escaped = re.sub(r"([][{}*?\\])", r"\\\1", place)  # Spark interprets a path as a glob pattern
    rows = f"{escaped}/rows"
    files = sweep.files
    paths = [f"{rows}/{name}" for name in sorted(files.whole)] if files.damaged or files.covered else [rows]
    return spark.read.schema(from_arrow_schema(SCHEMA)).parquet(*paths)


def analyse_rows(rows: DataFrame) -> dict[str, pa.Table]:
    """The result does not depend on how Spark divides the rows into partitions."""
    by_scenario = detections_table(rows)
    return {
        "pass_rates": _pass_rates(rows),
        "mutants": mutants_table(rows, by_scenario),
        "detections": by_scenario,
        "coverage": _coverage_table(rows),
        "pairs": _pairs_table(rows),
        "put_latency": _put_latency(rows),
    }


def write_tables(tables: dict[str, pa.Table], directory: Path) -> list[Path]:
    """Write each table to NAME.parquet in a directory, and return the paths. A missing directory is created."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, table in tables.items():
        paths.append(directory / f"{name}.parquet")
        pq.write_table(table, paths[-1])
    return paths


def names_that_never_occurred(table: pa.Table, what: str) -> list[str]:
    return [row["name"] for row in table.to_pylist() if row["what"] == what and not row["seeds"]]


def _pass_rates(rows: DataFrame) -> pa.Table:
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
    return _with_bounds(rates)


def _with_bounds(rates: pa.Table) -> pa.Table:
    """Add the bounds of the pass rate to a table that has the columns `held` and `seeds`."""
    counts = zip(rates["held"].to_pylist(), rates["seeds"].to_pylist(), strict=True)
    low_high = [confidence_bounds(held, seeds) for held, seeds in counts]
    assert all(low <= high for low, high in low_high), low_high
    for number, name in enumerate(("rate_low", "rate_high")):
        rates = rates.append_column(name, pa.array([pair[number] for pair in low_high], pa.float64()))
    return rates


def _coverage_table(rows: DataFrame) -> pa.Table:
    counts = [
        *((_name_kind(name), name, times, seeds) for name, times, seeds in _sums_by_key(rows, "injected")),
        *(("mark", name, times, seeds) for name, times, seeds in _sums_by_key(rows, "marks")),
    ]
    known = [*(("fault", name) for name in FAULTS), *(("mark", name) for name in MARKS)]
    seen = {(what, name) for what, name, _, _ in counts}
    counts += [(*pair, 0, 0) for pair in known if pair not in seen]
    order = ("fault", "mark", "end")
    counts.sort(key=lambda row: (order.index(row[0]), row[1]))
    return pa.Table.from_pylist([dict(zip(_COVERAGE.names, row, strict=True)) for row in counts], _COVERAGE)


def _pairs_table(rows: DataFrame) -> pa.Table:
    faults = fn.map_keys(fn.map_filter("injected", lambda kind, times: (times > 0) & kind.isin(list(NAMES))))
    names = fn.array_union(
        *(fn.coalesce(one, fn.array().cast("array<string>")) for one in (fn.col("features"), faults))
    )
    first, second = fn.col("first"), fn.col("second")
    found = (
        rows.select(names.alias("names"))
        .select("names", fn.explode("names").alias("first"))
        .select("first", fn.explode("names").alias("second"))
        .filter(first < second)
        .groupBy("first", "second")
        .agg(fn.count("*").alias("seeds"))
    )
    seeds = {(row.first, row.second): row.seeds for row in found.collect()}
    pairs = sorted({*possible_pairs(), *seeds})
    return pa.Table.from_pylist(
        [{"first": pair[0], "second": pair[1], "seeds": seeds.get(pair, 0)} for pair in pairs], _PAIRS
    )


def _name_kind(name: str) -> str:
    return "end" if name == "crash" or name.startswith("crash ") else "fault"


def _sums_by_key(rows: DataFrame, column: str) -> list[tuple[str, int, int]]:
    found = (
        rows.select(fn.explode(column).alias("name", "times"))
        .filter(fn.col("times") > 0)
        .groupBy("name")
        .agg(fn.sum("times").alias("times"), fn.count("*").alias("seeds"))
    )
    return [(row.name, row.times, row.seeds) for row in found.collect()]


def _put_latency(rows: DataFrame) -> pa.Table:
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
    # integers, because floating point may round a share up to the next rank
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


def detections_table(rows: DataFrame) -> pa.Table:
    return _costs_until_found(rows, ("mutant", "scenario"), ("seed",)).drop("first_scenario").toArrow()


def mutants_table(rows: DataFrame, by_scenario: pa.Table) -> pa.Table:
    found = _costs_until_found(rows, ("mutant",), ("seed", "scenario")).toArrow().to_pylist()
    of_scenarios = groupby(by_scenario.to_pylist(), key=lambda row: row["mutant"])
    summed = {mutant: _sum_over_scenarios(list(group)) for mutant, group in of_scenarios}
    all_rows = [{**row, "scenario": row["first_scenario"], **summed[row["mutant"]]} for row in found]
    return pa.Table.from_pylist(all_rows, schema=MUTANTS)


def trends_table(spark: SparkSession, sweeps: list[Sweep]) -> pa.Table:
    """Compare the outcomes of the same seeds between versions of the code."""
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
        .groupBy("number", *_TREND_BY)
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
    return _with_bounds(found)


def _costs_until_found(rows: DataFrame, by: tuple[str, ...], order: tuple[str, ...]) -> DataFrame:
    """Count the seeds and seconds of each group up to its first row with a violation, in the given order."""
    rows = rows.filter(fn.col("mutant").isNotNull()).withColumn("place", fn.struct(*order))
    first = (
        rows.filter(fn.col("outcome") == "violated")
        .groupBy(*by)
        .agg(fn.min(fn.struct("place", "invariant", "scenario")).alias("first"))
    )
    reached = fn.col("first").isNull() | (fn.col("place") <= fn.col("first.place"))
    return (
        rows.select(*by, "place", "wall_seconds")
        .join(first, list(by), "left")
        .filter(reached)
        .groupBy(*by, "first.invariant", fn.col("first.scenario").alias("first_scenario"))
        .agg(fn.count("*").alias("seeds"), fn.round(fn.sum("wall_seconds"), 6).alias("seconds"))
        .select(*by, "first_scenario", fn.col("invariant").isNotNull().alias("found"), "invariant", "seeds", "seconds")
        .orderBy(*by)
    )


def _sum_over_scenarios(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "scenarios": len(found),
        "found_in": sum(row["found"] for row in found),
        "median_seeds": _median(row["seeds"] if row["found"] else inf for row in found),
        "median_seconds": _median(row["seconds"] if row["found"] else inf for row in found),
    }


def _median(values: Iterable[float]) -> float | None:
    middle = median(values)
    return None if middle == inf else float(middle)
