"""Activity of an applied mutant: counts its calls and its visible effects.

The counts distinguish a bug that the checks missed from a bug without an effect in the run. Counting does not change
the schedule.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import chain
from types import CodeType, FunctionType, ModuleType
from typing import Any


@dataclass(slots=True)
class Activity:
    """The counts of one applied mutant."""

    reached: int = 0
    """Number of calls of the mutant's replacement functions."""
    bit: int = 0
    """Number of calls of `bit()` with a true condition."""


_applied: list[Activity] = []


@contextmanager
def activity_counted() -> Iterator[Activity]:
    activity = Activity()
    _applied.append(activity)
    try:
        yield activity
    finally:
        _applied.remove(activity)


def bit(when: bool = True) -> bool:
    """If `when` is true, report that this call differs from the correct code. Returns `when`.

    >>> bit(1 > 2)
    False
    """
    if when and _applied:
        _applied[-1].bit += 1
    return when


def functions_in(replacement: object) -> list[FunctionType]:
    """Return the functions of a replacement: none for a constant."""
    if isinstance(replacement, property):
        return [one for one in (replacement.fget, replacement.fset, replacement.fdel) if isinstance(one, FunctionType)]
    if isinstance(replacement, staticmethod | classmethod):
        replacement = replacement.__func__
    return [replacement] if isinstance(replacement, FunctionType) else []


def counting_replacement(replacement: Any, activity: Activity) -> Any:
    """Return a replacement that counts its calls. Constants and classes are returned unchanged."""
    if isinstance(replacement, property):
        getter, setter, deleter = (
            None if part is None else _counting_function(part, activity)
            for part in (replacement.fget, replacement.fset, replacement.fdel)
        )
        return property(getter, setter, deleter, replacement.__doc__)
    if isinstance(replacement, staticmethod | classmethod):
        return type(replacement)(_counting_function(replacement.__func__, activity))
    return _counting_function(replacement, activity) if isinstance(replacement, FunctionType) else replacement


def _counting_function(function: Callable[..., Any], activity: Activity) -> Callable[..., Any]:
    @wraps(function)
    def counting_call(*given: Any, **named: Any) -> Any:
        activity.reached += 1
        return function(*given, **named)

    return counting_call


def reports_bites(replacement: object) -> bool:
    """Return whether a replacement calls `bit`, directly or through functions of its module or its closure."""
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


def functions_using(module: ModuleType, name: str) -> list[FunctionType]:
    """Return the functions and methods of a module whose code names `name`."""
    owners = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    parts = chain(vars(module).values(), *(vars(owner).values() for owner in owners))
    functions = (one for part in parts for one in functions_in(part) if one.__globals__ is vars(module))
    return [one for one in functions if name in _names_in(one.__code__)]


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
