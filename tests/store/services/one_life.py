"""Tests that run as one life of a broker, which is one of their arguments."""

from collections.abc import Callable
from typing import Any

import pytest


def with_settings(**settings: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Set the settings of a test's life, in the form that `live` takes."""

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        test.life_settings = settings  # type: ignore[attr-defined]
        return test

    return decorated


def call_in_one_life(item: pytest.Function, name: str) -> bool | None:
    """Call a test inside a life if it has an argument of this name, whose fixture returns `live`.

    A fixture cannot yield the broker, because the test body must run on the simulated machine.
    """
    if name not in item.funcargs:
        return None
    live = item.funcargs[name]
    given = {each: item.funcargs[each] for each in item._fixtureinfo.argnames if each != name}
    live(lambda living: item.obj(**given, **{name: living}), **getattr(item.obj, "life_settings", {}))
    return True
