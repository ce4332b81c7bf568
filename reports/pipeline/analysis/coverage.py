"""Which faults fired and which marks were hit, those among them that never did, and how machines died.

column  type    meaning
what    string  fault or mark: every one there is; end: how machines died, the ends that came about
name    string
times   int64   how often it came about, in all
seeds   int64   in how many seeds it did
"""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ....scenarios.campaigns.coverage import FAULTS, MARKS

COVERAGE = pa.schema(
    [
        pa.field("what", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("times", pa.int64(), nullable=False),
        pa.field("seeds", pa.int64(), nullable=False),
    ]
)


def coverage(rows: DataFrame) -> pa.Table:
    """Return the table above: faults, then marks, then ends, each in the order of their names."""
    counts = [
        *((_what(name), name, times, seeds) for name, times, seeds in _sums(rows, "fired")),
        *(("mark", name, times, seeds) for name, times, seeds in _sums(rows, "marks")),
    ]
    known = [*(("fault", name) for name in FAULTS), *(("mark", name) for name in MARKS)]
    seen = {(what, name) for what, name, _, _ in counts}
    counts += [(*pair, 0, 0) for pair in known if pair not in seen]
    order = ("fault", "mark", "end")
    counts.sort(key=lambda row: (order.index(row[0]), row[1]))
    return pa.Table.from_pylist([dict(zip(COVERAGE.names, row, strict=True)) for row in counts], COVERAGE)


def never(table: pa.Table, what: str) -> list[str]:
    """Return the names, of faults or of marks, that never came about."""
    return [row["name"] for row in table.to_pylist() if row["what"] == what and not row["seeds"]]


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
