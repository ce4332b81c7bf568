"""The mini workload in SimPy: processes are generators on virtual time."""

from collections.abc import Iterator
from importlib import import_module
from random import Random
from typing import Any

from .workload import APPENDS_EACH, PRODUCERS, Log, ToyDisk, body_of

_END = 12.0


def run(seed: int) -> tuple[int, int]:
    """Run one seed; return the numbers of log operations and of SimPy events."""
    chance, disk = Random(seed), ToyDisk()
    log, env = Log(disk), import_module("simpy").Environment()
    for producer in range(PRODUCERS):
        env.process(_produce(env, log, chance, producer))
    for action in (log.flush, log.dispatch):
        env.process(_repeat(env, action, chance))
    crash_at, events = chance.random() * _END, 0
    while env.peek() < crash_at:
        env.step()
        events += 1
    disk.cut_power(lambda: chance.random() < 0.5)
    log.judge(disk.read)
    return log.operations, events


def _produce(env: Any, log: Log, chance: Random, producer: int) -> Iterator[Any]:
    for number in range(APPENDS_EACH):
        body = body_of(producer, number)
        yield env.timeout(chance.random())
        end = log.append(body)
        while log.flushed < end:
            yield env.timeout(chance.random())
        log.acknowledge(body)


def _repeat(env: Any, action: Any, chance: Random) -> Iterator[Any]:
    while True:
        yield env.timeout(chance.random())
        action()
