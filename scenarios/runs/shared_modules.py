"""The modules of the store whose objects several tasks use: at their attributes tasks switch in some runs."""

from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

from ... import store

_BROKER = "broker"
_LEFT_OUT = frozenset({"formats", "plugins", "real", "settings", "stats", "tools"})
"""Values, other worlds, views of directories; and counts that may come out short by what their module says."""


@cache
def shared_modules(*, broker: bool) -> tuple[ModuleType, ...]:
    """Return them, a broker's only if there is one: others have no object in the run, and would cost their reading."""
    below = f"{store.__name__}."
    return tuple(
        import_module(found.name)
        for found in walk_packages(store.__path__, below)
        for part in [found.name.removeprefix(below).partition(".")[0]]
        if part not in _LEFT_OUT and (broker or part != _BROKER)
    )
