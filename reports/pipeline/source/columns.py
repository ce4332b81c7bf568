"""Columns of the source's tables: fields, batches, the damage column, and conditions on rows.

The damage column is struct<field, expected, found> of strings, null without damage. Its fields are those of
`CorruptFileError`, under RocketMQ's names; the place is in the other columns of the row.

A live store writes while it is read. Apparent damage where it may be writing is read again after a pause that is longer
than any single write. It is reported only if it has not changed.
"""

import operator
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ....store.errors import CorruptFileError

LOOKS_MAX = 25
"""Pauses per task. After that, apparent damage is reported without another look."""
_PAUSE_SECONDS = 0.02
"""A write into a map takes microseconds, or a time slice if its thread has to wait for the CPU."""


def fields_of(columns: str) -> list[pa.Field]:
    """Parse fields from a text such as `file string, position int64`."""
    pairs = (column.split() for column in columns.split(","))
    return [pa.field(name, pa.type_for_alias(type_)) for name, type_ in pairs]


DAMAGE = pa.field("damage", pa.struct(fields_of("field string, expected string, found string")))


def batch_of(schema: pa.Schema, columns: Mapping[str, Any]) -> pa.RecordBatch:
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def damage_batch(schema: pa.Schema, reason: "Reason", **known: Any) -> pa.RecordBatch:
    """Return one row of damage, with those known columns that the schema has."""
    return pa.RecordBatch.from_pylist([{**known, "damage": reason._asdict()}], schema)


def pause() -> None:
    """Sleep until a write in progress has ended."""
    time.sleep(_PAUSE_SECONDS)


class Reason(NamedTuple):
    """The field, expectation and fact of one damage."""

    field: str
    expected: str
    found: str

    @classmethod
    def of(cls, error: CorruptFileError) -> "Reason":
        """Convert the error of a decoder."""
        return cls(error.field, str(error.expected), str(error.found))

    def __str__(self) -> str:
        return f"{self.field}: expected {self.expected}, found {self.found}"


def damage_array(reasons: Sequence[Reason | None]) -> pa.Array:
    """Return the damage column of some rows."""
    return pa.array([None if one is None else one._asdict() for one in reasons], DAMAGE.type)


_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


def is_in(value: Any, wanted: tuple[Any, ...]) -> Any:
    """Return whether a value is one of some; of a numpy array, which of its values are."""
    return np.isin(value, wanted) if isinstance(value, np.ndarray) else value in wanted


@dataclass(frozen=True, slots=True)
class Condition:
    """Comparison of one column with a value."""

    column: str
    compare: Callable[[Any, Any], Any]
    """`is_in`, or one of operator.eq, lt, le, gt, ge."""
    value: Any
    """A text or a whole number; for `is_in` a tuple of them."""

    def holds(self, value: Any) -> Any:
        """Return whether a value meets the condition; for a numpy array, a mask."""
        return self.compare(value, self.value)


class RowConditions:
    """Conditions that a row must all meet."""

    def __init__(self, conditions: Iterable[Condition] = ()) -> None:
        self._all = tuple(conditions)

    def __bool__(self) -> bool:
        return bool(self._all)

    def on(self, column: str) -> list[Condition]:
        return [one for one in self._all if one.column == column]

    def without(self, column: str) -> "RowConditions":
        return RowConditions(one for one in self._all if one.column != column)

    def allow(self, column: str, value: Any) -> bool:
        return all(one.holds(value) for one in self.on(column))

    def bounds(self, column: str) -> tuple[int, int]:
        """Return inclusive bounds of the allowed whole numbers; low > high if no number is allowed."""
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
        """Return False only if every whole number from first to last is excluded."""
        low, high = self.bounds(column)
        return max(low, first) <= min(high, last)

    def pinned(self, column: str) -> list[Any] | None:
        """Return the sorted allowed values of a column; None if no condition lists values."""
        named = [
            one.value if one.compare is is_in else (one.value,)
            for one in self.on(column)
            if one.compare in (is_in, operator.eq)
        ]
        return sorted({value for value in named[0] if self.allow(column, value)}) if named else None

    def mask(self, columns: dict[str, "np.ndarray[Any, Any]"], rows: int) -> "np.ndarray[Any, Any]":
        """Return which rows are allowed, judged by the given columns."""
        allowed = np.ones(rows, bool)
        for name, values in columns.items():
            for one in self.on(name):
                allowed &= one.holds(values)
        return allowed
