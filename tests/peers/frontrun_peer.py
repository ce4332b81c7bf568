"""The mini workload in frontrun: real threads, with busy waits."""

import threading
from importlib import import_module
from random import Random
from typing import Any

from .workload import PRODUCERS, Log, ToyDisk, body_of


class _Broker:
    """The state that all threads share. The power fails after a drawn number of operations."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.disk = ToyDisk()
        self.log = Log(self.disk)
        self.lock = threading.Lock()  # looked up here, because frontrun replaces threading.Lock
        self.ends_after = self.chance.randrange(1, 20)
        self.is_off = False

    def step(self, action: Any, *what: Any) -> Any:
        """Do one operation. No effect if the power is off."""
        with self.lock:
            self.is_off = self.is_off or self.log.operations >= self.ends_after
            return None if self.is_off else action(*what)


def run_many(seed: int, runs: int) -> tuple[int, int]:
    """Explore so many schedules; return the numbers of log operations and of schedules."""
    frontrun = import_module("frontrun")
    brokers: list[_Broker] = []

    def setup() -> _Broker:
        brokers.append(_Broker(seed + len(brokers)))
        return brokers[-1]

    def held(broker: _Broker) -> bool:
        broker.disk.cut_power(lambda: broker.chance.random() < 0.5)
        broker.log.judge(broker.disk.read)
        return True

    workers = [lambda broker, producer=producer: _produce(broker, producer) for producer in range(PRODUCERS)]
    result = frontrun.explore(
        setup,
        [*workers, lambda broker: _repeat(broker, "flush"), lambda broker: _repeat(broker, "dispatch")],
        held,
        strategy="random",
        max_attempts=runs,
        seed=seed,
        detect_io=False,
    )
    result.assert_holds()
    return sum(broker.log.operations for broker in brokers), len(brokers)


def _produce(broker: _Broker, producer: int) -> None:
    number, end = 0, 0
    while not broker.is_off:
        if end == 0:
            end = broker.step(broker.log.append, body_of(producer, number)) or 0
        elif broker.log.flushed >= end:
            broker.step(broker.log.acknowledge, body_of(producer, number))
            number, end = number + 1, 0


def _repeat(broker: _Broker, action: str) -> None:
    while not broker.is_off:
        broker.step(getattr(broker.log, action))
