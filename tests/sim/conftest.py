from collections.abc import Callable

import pytest

from tornlog.sim.choices import Choices
from tornlog.sim.policies import Policy
from tornlog.sim.policies.pct import PCT
from tornlog.sim.policies.random_walk import RandomWalk


@pytest.fixture(params=["walk-1", "walk-8", "walk-100", "pct-1", "pct-3"])
def policy_of(request: pytest.FixtureRequest) -> Callable[[int], Policy]:
    """Return a maker of policies by seed; a test that asks for it runs once under each kind."""
    kind, number = request.param.split("-")

    def make(seed: int) -> Policy:
        stream = Choices(str(seed)).stream("policy")
        return RandomWalk(stream, int(number)) if kind == "walk" else PCT(stream, int(number), 100)

    return make
