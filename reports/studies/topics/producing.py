"""Producers on a timed machine."""

from collections.abc import Callable
from functools import partial

from .timed_machine import TimedMachine


def let_produce(machine: TimedMachine, body: Callable[[int], None]) -> None:
    """Run body for each producer, by its number, and wait for all of them."""
    tasks = [
        machine.tasks.spawn(f"producer-{number}", partial(body, number))
        for number in range(machine.setup.producers)
    ]
    for task in tasks:
        task.join(None)


def topics_of(machine: TimedMachine, number: int) -> Callable[[], int]:
    """Return what draws the topics of one producer, each as likely as any other."""
    draw, topics = machine.choices.stream(f"topics-{number}").raw_random, machine.setup.topics
    return lambda: int(draw() * topics)


def share_of(whole: int, parts: int, number: int) -> int:
    """Return how many of a whole the part of that number has."""
    return whole // parts + (number < whole % parts)
