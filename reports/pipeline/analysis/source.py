"""The rows of one or several sweeps as one DataFrame, in which every run is there once.

Two sweeps may hold the same runs, as when one of them goes further with the seeds of the other. What the first has, the
others do not add.
"""

import re
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from ..sweep.request import SweepFileError, SweepRequest
from ..sweep.rows import SCHEMA
from ..sweep.table import RowFiles, Table

_RUN = ("scenario", "seed", "mutant", "disk", "policy", "digest")
"""What makes a run. A seed that was steered to a disk is another run than one that drew its disk."""


class NoSweepError(Exception):
    """A place that holds no rows of a sweep that can be read."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep that is there; `place` is a path or a URI."""

    place: str
    request: SweepRequest
    code: str
    """What made its rows."""
    files: RowFiles
    """Those of its rows: only whole ones are read."""


def sweep_at(place: str) -> Sweep:
    """Return the sweep at a place. Raises NoSweepError, also if another version made it or no file is whole."""
    table = Table(place)
    try:
        begun = table.begun()
        files = table.files(every_page=True)
    except (SweepFileError, OSError, ValueError) as error:  # pyarrow's own errors are of the latter two
        raise NoSweepError(f"{place}: {error}") from error
    if begun is None:
        raise NoSweepError(f"{place}: expected a directory that `tornlog sweep` wrote, found no sweep.json")
    if not files.whole:
        damaged = "".join(f"; rows/{name}: {reason}" for name, reason in sorted(files.damaged.items()))
        raise NoSweepError(f"{place}: the sweep there has no rows yet{damaged}")
    return Sweep(place, begun.request, begun.code, files)


def rows_of(spark: SparkSession, sweeps: list[Sweep]) -> DataFrame:
    """Return the rows of sweeps, with the columns of `reports.sweep.rows`. There is at least one sweep."""
    first, *others = [_read(spark, sweep) for sweep in sweeps]
    return reduce(_with_new_rows, others, first)


def _with_new_rows(known: DataFrame, more: DataFrame) -> DataFrame:
    keys = known.select(*_RUN)
    same = reduce(and_, (more[name].eqNullSafe(keys[name]) for name in _RUN))
    return known.unionByName(more.join(keys, same, "left_anti"))


def _read(spark: SparkSession, sweep: Sweep) -> DataFrame:
    place = sweep.place if "://" in sweep.place else f"file://{Path(sweep.place).resolve()}"
    escaped = re.sub(r"([][{}*?\\])", r"\\\1", place)  # Spark takes a path for a pattern
    rows = f"{escaped}/rows"
    paths = [f"{rows}/{name}" for name in sorted(sweep.files.whole)] if sweep.files.damaged else [rows]
    return spark.read.schema(from_arrow_schema(SCHEMA)).parquet(*paths)
