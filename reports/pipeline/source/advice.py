"""Advice on filters: tells users of `.where(…)` that the option `where` reads less.

Spark applies the filters of a query after the source has made all rows. `columns` explains why the source does not take
them. If filters are pushed down (spark.sql.python.filterPushdown.enabled, which sessions of tornlog set), Spark 4.1 and
newer show them to the reader. The reader refuses them all, and prints the equivalent option.
"""

import sys
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from .source_options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module in which Spark shows filters to a reader. Elsewhere Spark refuses a reader that takes filters."""
_printed = set[str]()


def print_advice_once(filters: "Iterable[Filter]", options: SourceOptions, columns: Collection[str]) -> None:
    """Print a sentence with the option, once per process. The driver's terminal shows the output."""
    text = advice(filters, options, columns)
    if text is not None and text not in _printed:
        _printed.add(text)
        print(text, file=sys.stderr, flush=True)


def advice(filters: "Iterable[Filter]", options: SourceOptions, columns: Collection[str]) -> str | None:
    """Return None if no filter has the form of the option `where`."""
    comparisons = [text for one in filters if (text := _comparison(one, columns)) is not None]
    if not comparisons:
        return None
    where = " and ".join(filter(None, (options.where, *comparisons)))
    return (
        f"tornlog: {', '.join(options.stores)}: Spark filters rows of {options.table} after the source has read them"
        f' all; to read less: .option("where", "{where}")'
    )


def _comparison(given: "Filter", columns: Collection[str]) -> str | None:
    from pyspark.sql import datasource as of_spark  # Spark 4.0 has no filters

    signs = {
        of_spark.EqualTo: "=",
        of_spark.GreaterThan: ">",
        of_spark.GreaterThanOrEqual: ">=",
        of_spark.LessThan: "<",
        of_spark.LessThanOrEqual: "<=",
    }
    name = ".".join(getattr(given, "attribute", ()))
    if name not in columns:
        return None
    value = getattr(given, "value", None)
    if isinstance(given, of_spark.In):
        values = [_literal(one) for one in value or ()]
        return None if None in values else f"{name} in ({', '.join(filter(None, values))})"
    literal = _literal(value)
    return None if type(given) not in signs or literal is None else f"{name} {signs[type(given)]} {literal}"


def _literal(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return f"'{value}'" if isinstance(value, str) and not set(value) & set("'\"\\") else None
