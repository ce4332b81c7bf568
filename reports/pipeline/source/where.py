"""The option `where`: comparisons of columns with values, as in SQL, that a table sees to before it makes rows.

    topic = 'Orders' and queue_id in (0, 1) and queue_offset between 40 and 60

It is an option, and none of the filters that Spark can push down to a Python source: what Spark (4.3) has planned with
the filters of one query, it takes again for the next query of the same DataFrame, and for another branch of one query.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from .columns import RowConditions, condition_of

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_TEXTS = ("topic", "store")
"""Columns that are compared with text; all others are whole numbers."""
_WANTED = "comparisons (=, <, <=, >, >=, in, between) of a column with values, joined by AND"


def conditions_of(text: str, columns: Collection[str]) -> RowConditions:
    """Return what a text asks of a table's rows; columns: those that rows can be chosen by.

    ValueError for a text that is no such comparisons, or compares another column, or with what its column never is.
    """
    found = []
    for one in _filters(text) if text else ():
        (name,), value = one.attribute, one.value  # type: ignore[attr-defined]
        condition = condition_of(one, columns)
        if condition is None:
            known = f"there are {', '.join(sorted(columns))}" if columns else "there is none"
            raise ValueError(f"where: expected a column that rows can be chosen by, found {name}; {known}")
        kind, what = (str, "text") if name in _TEXTS else (int, "whole numbers")
        if not all(isinstance(each, kind) for each in (value if isinstance(one, In) else [value])):
            raise ValueError(f"where: expected {what} for {name}, found {value!r}")
        found.append(condition)
    return RowConditions(found)


def _filters(text: str) -> Iterator[Filter]:
    from sqlglot import exp, parse_one  # here: workers that only read rows have no use for it
    from sqlglot.errors import SqlglotError

    comparisons: dict[type[Expr], type[Filter]] = {
        exp.EQ: EqualTo,
        exp.GT: GreaterThan,
        exp.GTE: GreaterThanOrEqual,
        exp.LT: LessThan,
        exp.LTE: LessThanOrEqual,
    }

    def refused(part: "Expr") -> ValueError:
        return ValueError(f"where: expected {_WANTED}; found {part.sql('spark')}")

    def value_of(part: "Expr") -> str | int:
        negative = isinstance(part, exp.Neg)
        literal = part.this if negative else part
        if isinstance(literal, exp.Literal) and literal.is_string and not negative:
            return str(literal.this)
        if isinstance(literal, exp.Literal) and str(literal.this).isdecimal():
            return -int(literal.this) if negative else int(literal.this)
        raise refused(part)

    def filters_in(part: "Expr") -> Iterator[Filter]:
        if isinstance(part, exp.Paren):
            yield from filters_in(part.this)
            return
        if isinstance(part, exp.And):
            yield from filters_in(part.left)
            yield from filters_in(part.right)
            return
        if not isinstance(part.this, exp.Column) or part.this.table:
            raise refused(part)
        path = (part.this.name,)
        if isinstance(part, exp.Between):
            yield GreaterThanOrEqual(path, value_of(part.args["low"]))
            yield LessThanOrEqual(path, value_of(part.args["high"]))
        elif isinstance(part, exp.In) and part.expressions:
            yield In(path, tuple(map(value_of, part.expressions)))
        elif type(part) in comparisons:
            yield comparisons[type(part)](path, value_of(part.expression))  # type: ignore[call-arg]
        else:
            raise refused(part)

    try:
        parsed = parse_one(text, dialect="spark")
    except SqlglotError as error:
        raise ValueError(f"where: expected {_WANTED}; found {text!r}") from error
    yield from filters_in(parsed)
