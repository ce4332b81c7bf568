"""Tests that run as one life of a broker or machine, which is among their arguments."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest


def with_settings(**settings: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Set the settings of a test's life, in the form that `live` takes."""

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        test.life_settings = settings  # type: ignore[attr-defined]
        return test

    return decorated


def call_in_one_life(
    item: pytest.Function, *stories: tuple[str, ...], more: Mapping[str, Callable[[Any], Any]] | None = None
) -> bool | None:
    """Call a test inside a life if it has the arguments of a story; a fixture of the first name returns its runner.

    A fixture cannot yield these arguments, because the test body must run on the simulated machine. `more` makes
    further arguments of the first one.
    """
    names = next((each for each in stories if each[0] in item.funcargs), None)
    if names is None:
        return None
    wanted = item._fixtureinfo.argnames

    def story(*living: Any) -> None:
        given = item.funcargs | dict(zip(names, living, strict=True))
        given |= {name: make(living[0]) for name, make in (more or {}).items() if name in wanted}
        item.obj(**{name: given[name] for name in wanted})

    item.funcargs[names[0]](story, **getattr(item.obj, "life_settings", {}))
    return True
