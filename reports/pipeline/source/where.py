"""The option `where`: SQL comparisons that the source applies before it creates rows.

    topic = 'Orders' and queue_id in (0, 1) and queue_offset between 40 and 60

The source does not use Spark's filter push-down, because Spark 4.3 applies the pushed filters of one query also to the
next query on the same DataFrame, and to other branches of a query.
"""

import operator
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from .columns import Condition, RowConditions, is_in

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_TEXTS = ("topic", "store")
"""Columns of strings. All other columns are integers."""
_WANTED = "comparisons (=, <, <=, >, >=, in, between) of a column with values, joined by AND"


def conditions_of(text: str, columns: Collection[str]) -> RowConditions:
    """Raises ValueError for a syntax error, an unknown column, or a value of the wrong type."""
    found = tuple(_conditions_in(text)) if text else ()
    for one in found:
        if one.column not in columns:
            known = f"there are {', '.join(sorted(columns))}" if columns else "there is none"
            raise ValueError(f"where: expected a column that rows can be chosen by, found {one.column}; {known}")
        kind, what = (str, "text") if one.column in _TEXTS else (int, "whole numbers")
        if not all(isinstance(each, kind) for each in (one.value if one.compare is is_in else (one.value,))):
            raise ValueError(f"where: expected {what} for {one.column}, found {one.value!r}")
    return RowConditions(found)


def _conditions_in(text: str) -> Iterator[Condition]:
    from sqlglot import exp, parse_one  # imported here, because Spark workers that only read rows do not need it
    from sqlglot.errors import SqlglotError

    comparisons: dict[type[Expr], Callable[[Any, Any], Any]] = {
        exp.EQ: operator.eq,
        exp.GT: operator.gt,
        exp.GTE: operator.ge,
        exp.LT: operator.lt,
        exp.LTE: operator.le,
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

    def conditions_in(part: "Expr") -> Iterator[Condition]:
        if isinstance(part, exp.Paren):
            yield from conditions_in(part.this)
            return
        if isinstance(part, exp.And):
            yield from conditions_in(part.left)
            yield from conditions_in(part.right)
            return
        if not isinstance(part.this, exp.Column) or part.this.table:
            raise refused(part)
        column = part.this.name
        if isinstance(part, exp.Between):
            yield Condition(column, operator.ge, value_of(part.args["low"]))
            yield Condition(column, operator.le, value_of(part.args["high"]))
        elif isinstance(part, exp.In) and part.expressions:
            yield Condition(column, is_in, tuple(map(value_of, part.expressions)))
        elif type(part) in comparisons:
            yield Condition(column, comparisons[type(part)], value_of(part.expression))
        else:
            raise refused(part)

    try:
        parsed = parse_one(text, dialect="spark")
    except SqlglotError as error:
        raise ValueError(f"where: expected {_WANTED}; found {text!r}") from error
    yield from conditions_in(parsed)
