"""Tests that run within one life of a broker or machine. An argument of the test is that broker or machine."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from typing import Any

import pytest


def with_settings(**settings: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Set the settings for a test's life, as keyword arguments of `live`."""

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        test.life_settings = settings  # type: ignore[attr-defined]
        return test

    return decorated


def call_in_one_life(
    item: pytest.Function, *stories: tuple[str, ...], more: Mapping[str, Callable[[Any], Any]] | None = None
) -> bool | None:
    """Call a test inside a life if its arguments ask for that. The fixture of the first argument runs the life.

    A fixture cannot yield these arguments, because the test body must run on the simulated machine. `more` derives
    further arguments from the first.
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


def in_rig(make: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[[Callable[..., None]], Any]:
    """Run a test as the main task of a new rig, which `make` makes of the arguments. Its argument `rig` is that rig."""

    def decorate(test: Callable[..., None]) -> Any:
        @wraps(test)
        def run(**given: Any) -> None:
            rig = make(*arguments, **options)
            rig.run(lambda: test(rig=rig, **given))

        others = [one for name, one in signature(test).parameters.items() if name != "rig"]
        vars(run)["__signature__"] = signature(test).replace(parameters=others)
        return run

    return decorate
