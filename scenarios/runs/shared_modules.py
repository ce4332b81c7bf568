"""Shared modules: the modules of the store with objects of several tasks, which get attribute points in some runs."""

from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

from ... import store

_BROKER = "broker"
_LEFT_OUT = frozenset({"formats", "plugins", "real", "settings", "stats", "tools"})
"""Values, other worlds, views of directories, and statistics, which may be inexact by the words of their module."""


@cache
def shared_modules(*, broker: bool) -> tuple[ModuleType, ...]:
    """Return the modules. Those of the broker only if there is one, because importing them takes time."""
    below = f"{store.__name__}."
    return tuple(
        import_module(found.name)
        for found in walk_packages(store.__path__, below)
        for part in [found.name.removeprefix(below).partition(".")[0]]
        if part not in _LEFT_OUT and (broker or part != _BROKER)
    )
