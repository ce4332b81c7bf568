"""What an audit finds, one row each.

promise          string   one of PROMISES
file, position   string, bigint   where to look; position -1 for a file that is not there
field            string   what is wrong
expected, found  string
is_explained     boolean  whether an unclean exit explains it, so that recovery will mend it: then it is a note
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

PROMISES = ("LOG", "QOFF", "CQ-VALID", "CQ-COMPLETE", "IDX", "CKPT")
"""What a directory promises, in the order of `tornlog verify`, whose codes these are."""
SCHEMA = (
    "promise string, file string, position bigint, field string, expected string, found string,"
    " is_explained boolean"
)


def violations(
    rows: DataFrame,
    promise: str,
    field: str | Column,
    expected: str | Column,
    found: Column | str,
    is_explained: Column | None = None,
) -> DataFrame:
    """Return rows, which have file and position, as violations; texts are literal, columns are computed."""
    return rows.select(
        fn.lit(promise).alias("promise"),
        fn.col("file"),
        fn.col("position").cast("bigint").alias("position"),
        _text(field).alias("field"),
        _text(expected).alias("expected"),
        _text(found).alias("found"),
        (fn.lit(False) if is_explained is None else is_explained).alias("is_explained"),
    )


def damage_violations(rows: DataFrame, promise: str, is_explained: Column | None = None) -> DataFrame:
    """Return rows of the source that say what is damaged as violations."""
    field, expected, found = (fn.col(f"damage.{name}") for name in ("field", "expected", "found"))
    return violations(rows.where("damage is not null"), promise, field, expected, found, is_explained)


def number_of(promise: Column) -> Column:
    """Return where a promise is in `PROMISES`: what breaks an early one is often the cause of other breaches."""
    return fn.array_position(fn.lit(list(PROMISES)), promise)


def _text(value: str | Column) -> Column:
    return (fn.lit(value) if isinstance(value, str) else value).cast("string")
