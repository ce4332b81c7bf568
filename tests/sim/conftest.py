from collections.abc import Callable

import pytest

from tornlog.sim.choices import Choices
from tornlog.sim.policies import Policy
from tornlog.sim.policies.pct import PCTPolicy
from tornlog.sim.policies.pos import POSPolicy
from tornlog.sim.policies.random_walk import RandomWalk


@pytest.fixture(params=["walk-1", "walk-8", "walk-100", "pct-1", "pct-3", "pos-0"])
def policy_of(request: pytest.FixtureRequest) -> Callable[[int], Policy]:
    """Return a function that makes a policy from a seed. A test with this fixture runs once for each kind of policy."""
    kind, number = request.param.split("-")

    def make(seed: int) -> Policy:
        stream = Choices(str(seed)).stream("policy")
        if kind == "walk":
            return RandomWalk(stream, int(number))
        if kind == "pct":
            return PCTPolicy(stream, int(number), 100)
        return POSPolicy(stream)

    return make
