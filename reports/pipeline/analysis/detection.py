"""Detection: how many seeds, in the order of their numbers, it took until one broke a promise, for each mutant.

The order is that of numbers, not of time. In a guided sweep a scenario's seeds are used in this order, too, but the
scenarios do not take turns.

Detections, one row a mutant and scenario, in this order:

    column     type    meaning
    mutant     string
    scenario   string
    found      bool
    invariant  string  the promise that broke; null if none did
    seeds      int64   seeds up to the one that broke it, that one included; all of them if none did
    seconds    double  wall time of these, one after the other, to a microsecond

Mutants, one row each, in the order of their names:

    mutant          string
    found           bool    in any scenario
    scenario        string  the one that found it, by `invariant`
    invariant       string
    seeds, seconds          as above, the scenarios taking turns: seed 0 of each, then seed 1 of each
    scenarios       int64   that it was run in
    found_in        int64   scenarios that found it
    median_seeds    double  over the scenarios, one that found nothing counting as endless; null if that is the median
    median_seconds  double  likewise
"""

from collections.abc import Iterable
from itertools import groupby
from math import inf
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

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


def detections(rows: DataFrame) -> pa.Table:
    """Return the first table above."""
    return _until_found(rows, ("mutant", "scenario"), ("seed",)).drop("first_scenario").toArrow()


def mutants(rows: DataFrame, by_scenario: pa.Table) -> pa.Table:
    """Return the second table above; by_scenario is the first."""
    found = _until_found(rows, ("mutant",), ("seed", "scenario")).toArrow().to_pylist()
    of_scenarios = groupby(by_scenario.to_pylist(), key=lambda row: row["mutant"])
    summed = {mutant: _over_scenarios(list(group)) for mutant, group in of_scenarios}
    all_rows = [{**row, "scenario": row["first_scenario"], **summed[row["mutant"]]} for row in found]
    return pa.Table.from_pylist(all_rows, schema=MUTANTS)


def _until_found(rows: DataFrame, by: tuple[str, ...], order: tuple[str, ...]) -> DataFrame:
    """Return seeds and seconds of each group up to its first violated row, in the order of some columns."""
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
        .select(
            *by,
            "first_scenario",
            fn.col("invariant").isNotNull().alias("found"),
            "invariant",
            "seeds",
            "seconds",
        )
        .orderBy(*by)
    )


def _over_scenarios(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "scenarios": len(found),
        "found_in": sum(row["found"] for row in found),
        "median_seeds": _median(row["seeds"] if row["found"] else inf for row in found),
        "median_seconds": _median(row["seconds"] if row["found"] else inf for row in found),
    }


def _median(values: Iterable[float]) -> float | None:
    middle = median(values)
    return None if middle == inf else float(middle)
