"""Decorators for tests that take a store and its disk: they run as a task of the store's simulated machine."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any

Test = Callable[..., None]


def _with_store_of(fixture: str) -> Callable[[Test], Test]:
    """Return a decorator: a fixture that runs bodies on a store gives the test its `store` and its `disk`."""

    def decorate(test: Test) -> Test:
        @wraps(test)
        def run(**given: Any) -> None:
            run_on_store = given.pop(fixture)
            run_on_store(lambda store, disk: test(store=store, disk=disk, **given))

        others = [each for name, each in signature(test).parameters.items() if name not in ("store", "disk")]
        run.__signature__ = Signature([Parameter(fixture, Parameter.POSITIONAL_OR_KEYWORD), *others])  # type: ignore[attr-defined]
        return run

    return decorate


on_a_store = _with_store_of("on_a_store")
on_an_indexed_store = _with_store_of("on_an_indexed_store")
