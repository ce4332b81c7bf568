"""What an applied mutant has done: how often its code ran, and how often it did otherwise than the store.

A mutant that is not found may be a bug that was missed, or one that had no occasion. Calls of what it puts in place are
counted (`reached`); where it does otherwise it reports it itself, by `bit()`. Counting passes no scheduling point.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from types import CodeType, FunctionType
from typing import Any


@dataclass(slots=True)
class Activity:
    """Counts of one application of a mutant."""

    reached: int = 0
    """Calls of the code that it puts in place."""
    bit: int = 0
    """How often it reported that it did otherwise."""


_applied: list[Activity] = []


@contextmanager
def counting() -> Iterator[Activity]:
    """Count what a mutant does inside a `with` block."""
    activity = Activity()
    _applied.append(activity)
    try:
        yield activity
    finally:
        _applied.remove(activity)


def bit(when: bool = True) -> bool:
    """Report, in a mutant's code, that it does otherwise than the store would here; return when.

    >>> bit(1 > 2)
    False
    """
    if when and _applied:
        _applied[-1].bit += 1
    return when


def functions_in(replacement: object) -> list[FunctionType]:
    """Return the functions that run when a replacement is used; none of a constant."""
    if isinstance(replacement, property):
        return [one for one in (replacement.fget, replacement.fset, replacement.fdel) if isinstance(one, FunctionType)]
    if isinstance(replacement, staticmethod | classmethod):
        replacement = replacement.__func__
    return [replacement] if isinstance(replacement, FunctionType) else []


def counted(replacement: Any, activity: Activity) -> Any:
    """Return a replacement that counts its calls; what is no function, such as a constant or a class, as it is."""
    if isinstance(replacement, property):
        getter, setter, deleter = (
            None if part is None else _counted(part, activity)
            for part in (replacement.fget, replacement.fset, replacement.fdel)
        )
        return property(getter, setter, deleter, replacement.__doc__)
    if isinstance(replacement, staticmethod | classmethod):
        return type(replacement)(_counted(replacement.__func__, activity))
    return _counted(replacement, activity) if isinstance(replacement, FunctionType) else replacement


def _counted(function: Callable[..., Any], activity: Activity) -> Callable[..., Any]:
    @wraps(function)
    def counting_call(*given: Any, **named: Any) -> Any:
        activity.reached += 1
        return function(*given, **named)

    return counting_call


def reports_bites(replacement: object) -> bool:
    """Return whether a replacement calls `bit`, itself or through what its own module and its closure have."""
    seen: set[FunctionType] = set()
    waiting = functions_in(replacement)
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        for used in (*cells, *(function.__globals__.get(name) for name in _names_in(function.__code__))):
            if used is bit:
                return True
            parts = vars(used).values() if isinstance(used, type) else (used,)
            helpers = [one for part in parts for one in functions_in(part)]
            waiting += [one for one in helpers if one.__globals__ is function.__globals__]
    return False


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names that code refers to, that of functions inside it too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
