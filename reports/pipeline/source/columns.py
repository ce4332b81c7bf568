"""Table columns: defines fields, batches, the damage column, and conditions on rows, also those of the option `where`.

The damage column is a struct<field, expected, found> of strings, or null without damage. Its values are those of
`CorruptFileError`, with RocketMQ's field names.

A running store may be writing the bytes that a task reads. After damage, a task therefore pauses for longer than a
single write and reads the bytes again. The task reports the damage only if the bytes have not changed.
"""

import operator
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from ....store.errors import CorruptFileError

if TYPE_CHECKING:
    from sqlglot.expressions import Expr


LOOKS_MAX = 25
"""Maximum number of pauses per task. After that, damage is reported without a second read."""
_PAUSE_SECONDS = 0.02
"""Longer than a write to a memory-mapped file takes: microseconds, or a time slice if the thread is preempted."""


def fields_of(columns: str) -> list[pa.Field]:
    """Parse fields from text such as `file string, position int64`."""
    pairs = (column.split() for column in columns.split(","))
    return [pa.field(name, pa.type_for_alias(type_)) for name, type_ in pairs]


DAMAGE = pa.field("damage", pa.struct(fields_of("field string, expected string, found string")))


def batch_of(schema: pa.Schema, columns: Mapping[str, Any]) -> pa.RecordBatch:
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def damage_batch(schema: pa.Schema, reason: "Reason", **known: Any) -> pa.RecordBatch:
    """known: values of columns; columns that the schema lacks are ignored."""
    return pa.RecordBatch.from_pylist([{**known, "damage": reason._asdict()}], schema)


def pause_for_writes() -> None:
    time.sleep(_PAUSE_SECONDS)


class Reason(NamedTuple):
    """The description of one damage."""

    field: str
    expected: str
    found: str

    @classmethod
    def from_error(cls, error: CorruptFileError) -> "Reason":
        return cls(error.field, str(error.expected), str(error.found))

    def __str__(self) -> str:
        return f"{self.field}: expected {self.expected}, found {self.found}"


def damage_array(reasons: Sequence[Reason | None]) -> pa.Array:
    return pa.array([None if one is None else one._asdict() for one in reasons], DAMAGE.type)


_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


def is_in(value: Any, wanted: tuple[Any, ...]) -> Any:
    """Return whether `wanted` contains a value; for a numpy array of values, return a mask."""
    return np.isin(value, wanted) if isinstance(value, np.ndarray) else value in wanted


@dataclass(frozen=True, slots=True)
class Condition:
    """Comparison of one column with a value."""

    column: str
    compare: Callable[[Any, Any], Any]
    """`is_in`, or one of operator.eq, lt, le, gt, ge."""
    value: Any
    """A string or an integer; for `is_in` a tuple of strings or integers."""

    def is_satisfied_by(self, value: Any) -> Any:
        return self.compare(value, self.value)


class RowConditions:
    """A conjunction of conditions on the columns of a row."""

    def __init__(self, conditions: Iterable[Condition] = ()) -> None:
        self._all = tuple(conditions)

    def __bool__(self) -> bool:
        return bool(self._all)

    def on(self, column: str) -> list[Condition]:
        return [one for one in self._all if one.column == column]

    def without(self, column: str) -> "RowConditions":
        return RowConditions(one for one in self._all if one.column != column)

    def allow(self, column: str, value: Any) -> bool:
        return all(one.is_satisfied_by(value) for one in self.on(column))

    def bounds(self, column: str) -> tuple[int, int]:
        """Return inclusive bounds of the allowed integers; low > high if no integer is allowed."""
        low, high = _LOWEST, _HIGHEST
        for one in self.on(column):
            if one.compare in (operator.eq, operator.gt, operator.ge):
                low = max(low, one.value + (one.compare is operator.gt))
            if one.compare in (operator.eq, operator.lt, operator.le):
                high = min(high, one.value - (one.compare is operator.lt))
            if one.compare is is_in:
                low, high = max(low, min(one.value, default=high + 1)), min(high, max(one.value, default=low - 1))
        return low, high

    def allow_some_of(self, column: str, first: int, last: int) -> bool:
        """Return False only if the conditions exclude every integer from first to last."""
        low, high = self.bounds(column)
        return max(low, first) <= min(high, last)

    def listed_values(self, column: str) -> list[Any] | None:
        """Return the allowed values in ascending order; None if no condition lists values."""
        named = [
            one.value if one.compare is is_in else (one.value,)
            for one in self.on(column)
            if one.compare in (is_in, operator.eq)
        ]
        return sorted({value for value in named[0] if self.allow(column, value)}) if named else None

    def mask(self, columns: dict[str, "np.ndarray[Any, Any]"], rows: int) -> "np.ndarray[Any, Any]":
        allowed = np.ones(rows, bool)
        for name, values in columns.items():
            for one in self.on(name):
                allowed &= one.is_satisfied_by(values)
        return allowed


_TEXTS = ("topic", "store")
"""Columns of strings. All other columns are integers."""
_WANTED = "comparisons (=, <, <=, >, >=, in, between) of a column with values, joined by AND"


def conditions_of(text: str, columns: Collection[str]) -> RowConditions:
    """Raises ValueError for a syntax error, an unknown column, or a value of the wrong type."""
    found = tuple(_conditions_in(text)) if text else ()
    for one in found:
        if one.column not in columns:
            known = f"expected one of {', '.join(sorted(columns))}" if columns else "this table has no conditions"
            raise ValueError(f"where: {known}; found {one.column}")
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
