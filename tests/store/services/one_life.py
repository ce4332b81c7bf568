"""Tests that are one life of a broker: such a test has the life's broker as an argument."""

from collections.abc import Callable
from typing import Any

import pytest


def with_settings(**settings: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give the life of a test other settings, as `live` takes them."""

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        test.life_settings = settings  # type: ignore[attr-defined]
        return test

    return decorated


def call_in_one_life(item: pytest.Function, name: str) -> bool | None:
    """Call a test inside a life if it has an argument of this name, whose fixture returns `live`.

    The body must run on a simulated machine, so a fixture that yields the broker would not do.
    """
    if name not in item.funcargs:
        return None
    live = item.funcargs[name]
    given = {each: item.funcargs[each] for each in item._fixtureinfo.argnames if each != name}
    live(lambda living: item.obj(**given, **{name: living}), **getattr(item.obj, "life_settings", {}))
    return True
