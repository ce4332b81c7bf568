"""Decorator of store tests that runs a test in a simulated machine."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any

Make = Callable[..., Any]
"""Type of fixtures that are functions, for example `lab` and `small`."""
Test = Callable[..., None]
_GIVEN = ("world", "bench")


def simulated(**machine: Any) -> Callable[[Test], Test]:
    """Run a test inside a new lab and pass it the `world`, and the lab as `bench` if the test has that parameter.

    machine: arguments of the `lab` fixture. All other parameters of the test are fixtures or parametrised as usual.
    """

    def decorate(test: Test) -> Test:
        parameters = signature(test).parameters

        @wraps(test)
        def run(lab: Callable[..., Any], **fixtures: Any) -> None:
            bench = lab(**machine)
            given = {name: bench for name in parameters if name == "bench"} | fixtures
            bench.run(lambda world: test(world=world, **given))

        asked = [Parameter("lab", Parameter.POSITIONAL_OR_KEYWORD)]
        asked += [one for name, one in parameters.items() if name not in _GIVEN]
        run.__signature__ = signature(test).replace(parameters=asked)  # type: ignore[attr-defined]
        return run

    return decorate
