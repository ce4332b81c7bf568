"""Tests that run as one life of a broker or machine, which is among their arguments."""

from collections.abc import Callable
from typing import Any

import pytest


def with_settings(**settings: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Set the settings of a test's life, in the form that `live` takes."""

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        test.life_settings = settings  # type: ignore[attr-defined]
        return test

    return decorated


def call_in_one_life(item: pytest.Function, *stories: tuple[str, ...]) -> bool | None:
    """Call a test inside a life if it has the arguments of a story; a fixture of the first name returns its runner.

    A fixture cannot yield these arguments, because the test body must run on the simulated machine.
    """
    names = next((each for each in stories if each[0] in item.funcargs), None)
    if names is None:
        return None
    run = item.funcargs[names[0]]
    given = {each: item.funcargs[each] for each in item._fixtureinfo.argnames if each not in names}
    run(
        lambda *living: item.obj(**given, **dict(zip(names, living, strict=True))),
        **getattr(item.obj, "life_settings", {}),
    )
    return True
