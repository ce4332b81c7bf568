"""The mini workload as a Hypothesis state machine, without tasks."""

from functools import partial
from importlib import import_module
from typing import Any

from .workload import APPENDS_EACH, PRODUCERS, Log, ToyDisk, body_of

_STEPS = 40


def run_many(seed: int, runs: int) -> tuple[int, int]:
    """Run so many examples; return the numbers of log operations and of rules."""
    hypothesis, stateful = import_module("hypothesis"), import_module("hypothesis.stateful")
    counted = {"operations": 0, "rules": 0}
    machine = hypothesis.seed(seed)(_machine(hypothesis.strategies, stateful, counted))
    settings = hypothesis.settings(
        max_examples=runs,
        stateful_step_count=_STEPS,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    stateful.run_state_machine_as_test(machine, settings=settings)
    return counted["operations"], counted["rules"]


def _machine(strategies: Any, stateful: Any, counted: dict[str, int]) -> Any:
    class Broker(stateful.RuleBasedStateMachine):  # type: ignore[misc]
        """A log and its users, one rule at a time."""

        def __init__(self) -> None:
            super().__init__()
            self.disk = ToyDisk()
            self.log = Log(self.disk)
            self.waiting: dict[int, tuple[int, bytes]] = {}
            self.done = [0] * PRODUCERS

        def produce(self, producer: int) -> None:
            counted["rules"] += 1
            if producer in self.waiting:
                end, body = self.waiting[producer]
                if self.log.flushed >= end:
                    self.log.acknowledge(body)
                    del self.waiting[producer]
            elif self.done[producer] < APPENDS_EACH:
                body = body_of(producer, self.done[producer])
                self.waiting[producer] = self.log.append(body), body
                self.done[producer] += 1

        def flush(self) -> None:
            counted["rules"] += 1
            self.log.flush()

        def dispatch(self) -> None:
            counted["rules"] += 1
            self.log.dispatch()

        def cut_power(self, data: Any) -> None:
            counted["rules"] += 1
            self.disk.cut_power(partial(data.draw, strategies.booleans()))
            self.log.judge(self.disk.read)
            self.teardown()
            self.__init__()  # type: ignore[misc]

        def teardown(self) -> None:
            """Hypothesis calls it at the end of an example."""
            counted["operations"] += self.log.operations

    rule, producers = stateful.rule, strategies.integers(0, PRODUCERS - 1)
    Broker.produce = rule(producer=producers)(Broker.produce)  # type: ignore[method-assign]
    Broker.flush = rule()(Broker.flush)  # type: ignore[method-assign]
    Broker.dispatch = rule()(Broker.dispatch)  # type: ignore[method-assign]
    Broker.cut_power = rule(data=strategies.data())(Broker.cut_power)  # type: ignore[method-assign]
    return Broker
