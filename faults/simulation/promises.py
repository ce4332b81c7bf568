"""Promises in the code under test: conditions that always hold, and events.

    always(self.end <= self.size, "the end is inside the file", f"{self.end} of {self.size}")
    sometimes("a torn record is cut")

`always` raises if its condition is false, also outside a simulation. `sometimes` only counts, and only in a simulation.
Coverage reports promises that were never checked and events that never happened. It finds their calls in the source of
the scenario and of its modules, even if no run reaches them. Source: the assertions `always` and `sometimes` of
Antithesis' SDKs, and their catalog of all calls in the source.
"""

import ast
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from types import ModuleType

_ALWAYS, _SOMETIMES = "always: ", "sometimes: "
_CALLS = {"always": (_ALWAYS, 1, "promise"), "sometimes": (_SOMETIMES, 0, "event")}
"""For each function: prefix of its counters, and position and keyword of the argument that completes the counter."""
_reached: list[Counter[str]] = []  # counters of the running simulations, innermost last


class PromiseBroken(Exception):
    """A promise is broken. promise: a constant text; found: the actual value."""

    def __init__(self, promise: str, found: str) -> None:
        super().__init__(f"{promise}: {found}")
        self.promise = promise
        self.found = found


def always(condition: object, promise: str, found: object = "the condition is false") -> None:
    """Raise PromiseBroken if the condition is false. found: the actual value for the message."""
    _count_reached(_ALWAYS + promise, 1)
    if not condition:
        raise PromiseBroken(promise, str(found))


def sometimes(event: str, condition: object = True) -> None:
    """Count an event if the condition is true. A campaign reports the events that never happened."""
    _count_reached(_SOMETIMES + event, 1 if condition else 0)


def _count_reached(name: str, times: int) -> None:
    if _reached:
        _reached[-1][name] += times


@contextmanager
def count_reached_promises(reached: Counter[str]) -> Iterator[None]:
    """Count promises and events in a block. An event with a false condition counts 0."""
    _reached.append(reached)
    try:
        yield
    finally:
        assert _reached[-1] is reached, "simulations end in the reverse order of their beginnings"
        _reached.pop()


def is_promise(name: str) -> bool:
    return name.startswith((_ALWAYS, _SOMETIMES))


def declared_promises(scenario: Callable[..., object]) -> tuple[str, ...]:
    """Return the counters of all promises and events that a scenario can reach.

    The source of its module, and of all modules that it uses directly or indirectly, has the calls. A name that is not
    a literal is unknown until the call runs.
    """
    while isinstance(scenario, partial):
        scenario = scenario.func
    module = getattr(inspect.unwrap(scenario), "__module__", "")
    return _promises_declared_from(module, len(sys.modules))


@cache
def _promises_declared_from(root: str, loaded: int) -> tuple[str, ...]:
    """Return the names in all modules reachable from `root`. loaded: number of loaded modules, a cache key."""
    found: dict[str, None] = {}
    left, seen = [root], {root}
    while left:
        module = sys.modules.get(left.pop())
        if module is None or module.__name__ == __name__:
            continue
        values = vars(module)
        names = {name: value.__name__ for name, value in values.items() if value is always or value is sometimes}
        here = {name for name, value in values.items() if value is sys.modules[__name__]}
        if names or here:
            found.update(dict.fromkeys(_counters_in(module, names, here)))
        for value in values.values():
            used = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if isinstance(used, str) and used not in seen and used.partition(".")[0] not in sys.stdlib_module_names:
                seen.add(used)
                left.append(used)
    return tuple(found)


def _counters_in(module: ModuleType, names: dict[str, str], here: set[str]) -> Iterator[str]:
    """Yield the counters of the calls in the source of a module.

    names: names of the two functions in the source. here: names of this module.
    """
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):
        return  # an interactive session or a notebook has no source file
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = None
        if isinstance(node.func, ast.Name):
            called = names.get(node.func.id)
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            called = node.func.attr if node.func.value.id in here else None
        if called not in _CALLS:
            continue
        prefix, place, keyword = _CALLS[called]
        given = [*node.args[place : place + 1], *(one.value for one in node.keywords if one.arg == keyword)]
        if given and isinstance(given[0], ast.Constant) and isinstance(given[0].value, str):
            yield prefix + given[0].value
