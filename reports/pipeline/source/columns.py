"""Columns of the source's tables: fields, batches of rows, damage as a column, and conditions that rows are to meet.

Damage is struct<field, expected, found> of strings; null where nothing is wrong. Its fields are those of
`CorruptFileError`, under RocketMQ's names; where they are is in the row's own columns.

A store that lives writes while it is read. What looks like damage where it may be writing is looked at again, after
a pause in which any write that was under way has ended: what stays as it was is damage, what changed was not there yet.
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
"""How often one task looks again: so many pauses, and from then on it believes what it sees."""
_PAUSE_SECONDS = 0.02
"""A write into a map takes some microseconds, or a time slice if its thread has to wait for one."""


def fields_of(columns: str) -> list[pa.Field]:
    """Return the fields of columns, as in `file string, position int64`."""
    pairs = (column.split() for column in columns.split(","))
    return [pa.field(name, pa.type_for_alias(type_)) for name, type_ in pairs]


DAMAGE = pa.field("damage", pa.struct(fields_of("field string, expected string, found string")))


def batch_of(schema: pa.Schema, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Return the columns that a schema has as a batch."""
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def damage_batch(schema: pa.Schema, reason: "Reason", **known: Any) -> pa.RecordBatch:
    """Return the one row of damage; known: the columns that are known beside it, if the schema has them."""
    return pa.RecordBatch.from_pylist([{**known, "damage": reason._asdict()}], schema)


def pause() -> None:
    """Let a write end that may be under way."""
    time.sleep(_PAUSE_SECONDS)


class Reason(NamedTuple):
    """Why something is damage."""

    field: str
    expected: str
    found: str

    @classmethod
    def of(cls, error: CorruptFileError) -> "Reason":
        """Return what a decoder complained about."""
        return cls(error.field, str(error.expected), str(error.found))

    def __str__(self) -> str:
        return f"{self.field}: expected {self.expected}, found {self.found}"


def damage_array(reasons: Sequence[Reason | None]) -> pa.Array:
    """Return the column for some rows."""
    return pa.array([None if one is None else one._asdict() for one in reasons], DAMAGE.type)


_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


def is_in(value: Any, wanted: tuple[Any, ...]) -> Any:
    """Return whether a value is one of some; of a numpy array, which of its values are."""
    return np.isin(value, wanted) if isinstance(value, np.ndarray) else value in wanted


@dataclass(frozen=True, slots=True)
class Condition:
    """One column compared with a value."""

    column: str
    compare: Callable[[Any, Any], Any]
    """`is_in`, or one of operator.eq, lt, le, gt, ge."""
    value: Any
    """A text or a whole number; of `is_in` a tuple of them."""

    def holds(self, value: Any) -> Any:
        """Return whether a value meets it; of a numpy array, which of its values do."""
        return self.compare(value, self.value)


class RowConditions:
    """All conditions of a table, of which a row must meet every one."""

    def __init__(self, conditions: Iterable[Condition] = ()) -> None:
        self._all = tuple(conditions)

    def __bool__(self) -> bool:
        return bool(self._all)

    def on(self, column: str) -> list[Condition]:
        """Return those on one column."""
        return [one for one in self._all if one.column == column]

    def without(self, column: str) -> "RowConditions":
        """Return those on other columns."""
        return RowConditions(one for one in self._all if one.column != column)

    def allow(self, column: str, value: Any) -> bool:
        """Return whether a column may have a value."""
        return all(one.holds(value) for one in self.on(column))

    def bounds(self, column: str) -> tuple[int, int]:
        """Return between which whole numbers, both included, all those are that may be allowed; none if low > high."""
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
        """Return whether a whole number from first to last may be allowed; it is not said that one is."""
        low, high = self.bounds(column)
        return max(low, first) <= min(high, last)

    def pinned(self, column: str) -> list[Any] | None:
        """Return the only values that a column is allowed, in order; None if that is not how it is conditioned."""
        named = [
            one.value if one.compare is is_in else (one.value,)
            for one in self.on(column)
            if one.compare in (is_in, operator.eq)
        ]
        return sorted({value for value in named[0] if self.allow(column, value)}) if named else None

    def mask(self, columns: dict[str, "np.ndarray[Any, Any]"], rows: int) -> "np.ndarray[Any, Any]":
        """Return which of some rows are allowed, by those of their columns that are given."""
        allowed = np.ones(rows, bool)
        for name, values in columns.items():
            for one in self.on(name):
                allowed &= one.holds(values)
        return allowed
