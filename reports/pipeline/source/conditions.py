"""Pushed-down conditions: what a query asks of columns, as far as the source can see to it itself."""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

_COMPARISONS: dict[type[Filter], Callable[[Any, Any], Any]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


def _is_in(value: Any, wanted: tuple[Any, ...]) -> Any:
    return np.isin(value, wanted) if isinstance(value, np.ndarray) else value in wanted


@dataclass(frozen=True, slots=True)
class Condition:
    """One column compared with a value."""

    column: str
    compare: Callable[[Any, Any], Any]
    value: Any

    def holds(self, value: Any) -> Any:
        """Return whether a value meets it; of a numpy array, which of its values do."""
        return self.compare(value, self.value)


def condition_of(pushed: Filter, columns: Iterable[str]) -> Condition | None:
    """Return a filter as a condition, None if it is not on one of some columns or no comparison."""
    compare = _is_in if isinstance(pushed, In) else _COMPARISONS.get(type(pushed))
    if compare is None:
        return None
    path, value = pushed.attribute, pushed.value  # type: ignore[attr-defined]
    if len(path) != 1 or path[0] not in columns or value is None:
        return None
    return Condition(path[0], compare, value)


class RowConditions:
    """All conditions of a query, of which a row must meet every one."""

    def __init__(self, conditions: Iterable[Condition] = ()) -> None:
        self._all = tuple(conditions)

    def __bool__(self) -> bool:
        return bool(self._all)

    def on(self, column: str) -> list[Condition]:
        """Return those on one column."""
        return [one for one in self._all if one.column == column]

    def allow(self, column: str, value: Any) -> bool:
        """Return whether a column may have a value."""
        return all(one.holds(value) for one in self.on(column))

    def allow_some_of(self, column: str, first: int, last: int) -> bool:
        """Return whether a whole number from first to last may be allowed; it is not said that one is."""
        low, high = LOWEST, HIGHEST
        for one in self.on(column):
            if one.compare in (operator.eq, operator.gt, operator.ge):
                low = max(low, one.value)
            if one.compare in (operator.eq, operator.lt, operator.le):
                high = min(high, one.value)
            if one.compare is _is_in and one.value:
                low, high = max(low, min(one.value)), min(high, max(one.value))
        return low <= last and first <= high

    def mask(self, columns: dict[str, "np.ndarray[Any, Any]"], rows: int) -> "np.ndarray[Any, Any]":
        """Return which of some rows are allowed, by those of their columns that are given."""
        allowed = np.ones(rows, bool)
        for name, values in columns.items():
            for one in self.on(name):
                allowed &= one.holds(values)
        return allowed
