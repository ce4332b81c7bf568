"""Plans without surprises, and ways to run them."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from tornlog.scenarios.failure import Failure
from tornlog.scenarios.ledger import PutEntry
from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.plan import Life, Plan, Ranges, draw_plan
from tornlog.scenarios.run import Outcome, Run
from tornlog.scenarios.scenario import Scenario
from tornlog.scenarios.seeds import run_seed
from tornlog.scenarios.traffic import Traffic
from tornlog.sim.choices import Choices
from tornlog.store.put_result import PutMessageStatus

QUIET = Ranges(
    sync_flush=(True,),
    endings=("stop",),
    lives=(1,),
    consumers=(0,),
    messages_each=(6,),
    producers=(2,),
    body_bytes_max=(100,),
    property_bytes_max=(0,),
    batch_chance=(0.0,),
    illegal_chance=(0.0,),
    no_wait_chance=(0.0,),
    pause_chance=(0.0,),
    policy=("random-walk",),
)
"""Two producers, sync flush, one clean stop, and nothing that goes wrong."""


@pytest.fixture(scope="session")
def quiet() -> Ranges:
    return QUIET


@pytest.fixture(scope="session")
def quiet_plan() -> Plan:
    return draw_plan(Choices("quiet").stream("plan"), QUIET)


@pytest.fixture(scope="session")
def crash_plan(quiet_plan: Plan) -> Plan:
    """The same with a power cut at rest in place of the stop."""
    return replace(quiet_plan, lives=(Life("crash at rest", "strict-posix", -1, "after", 6),))


@pytest.fixture(scope="session")
def execute() -> Callable[..., Outcome]:
    """Run a plan with the choices of a seed."""

    def execute(plan: Plan, seed: str = "1") -> Outcome:
        return Run(plan, Choices(seed)).execute()

    return execute


@pytest.fixture(scope="session")
def quiet_scenario() -> Scenario:
    return Scenario("quiet", "nothing happens to a store that nothing happens to", QUIET)


@pytest.fixture(scope="session")
def broken_scenario() -> Scenario:
    """A scenario that the harness itself fails on: there is nothing to draw the number of producers from."""
    return Scenario("broken", "a harness that fails says so", replace(QUIET, producers=()))


@pytest.fixture(scope="session")
def failure(quiet_scenario: Scenario) -> Failure:
    """What is left of a seed in which puts are answered before they are durable."""
    assert "ack-before-flush" in MUTANTS
    result = run_seed(quiet_scenario, 1, mutant="ack-before-flush")
    assert result.failure is not None, result
    return result.failure


@pytest.fixture(scope="session")
def make_put() -> Callable[..., PutEntry]:
    """Make a ledger entry of 200 bytes or less, named and placed at will."""

    def make(
        name: str, *, at: int | None = None, status: PutMessageStatus | None = None, wait: bool = True
    ) -> PutEntry:
        properties = f"KEYS\1{name}".encode()
        entry = PutEntry(name, 0, "T", 0, "", b"body", properties, wait, 0, 0, status, at)
        assert entry.record_bytes <= 200
        return entry

    return make


@pytest.fixture
def impatient_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what producers do depend on how many producers there have ever been."""
    producers = count(1)
    producer = Traffic._producer

    def impatient(self: Traffic, number: int, messages_each: int) -> Callable[[], None]:
        return producer(self, number, next(producers))

    monkeypatch.setattr(Traffic, "_producer", impatient)
