"""Consumers that have fallen behind, and read what only the disk has: of all topics, or of a few."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ....faults.devices.storage import BLOCK_BYTES
from .costs import pulled_ns
from .layouts import TopicLayout
from .timed_machine import TimedMachine

CONSUMERS = 8
"""How many there are at once, if there are as many topics."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """What consumers got who read some topics from their beginnings, from a cache that was empty."""

    topics_read: int
    records: int
    records_per_second: float
    waits_per_record: float
    """How often one had to wait for the device."""
    read_bytes_per_record: float
    """What the device read."""


def catch_up(machine: TimedMachine, layout: TopicLayout, topics: Sequence[int]) -> CaughtUp:
    """Let consumers, each with its share of the topics, read all of them, pull by pull in turn.

    So a consumer goes through all its topics at once, as one that is subscribed to them does, and all move from old to
    new together.
    """
    kernel, elevator, reads = machine.kernel, machine.system.elevator, machine.system.reads
    cost_ns = pulled_ns(machine.setup.layout)
    machine.readers_find_nothing_cached()
    begun = kernel.now_ns, elevator.blocks_read, reads.misses
    records = 0

    def consume(mine: Sequence[int]) -> None:
        nonlocal records
        offsets = dict.fromkeys(mine, 0)
        while offsets:
            for topic, offset in list(offsets.items()):
                found = layout.pull(topic, offset)
                records += len(found)
                machine.processor.work(cost_ns * len(found))
                if found:
                    offsets[topic] = offset + len(found)
                else:
                    del offsets[topic]

    tasks = [
        machine.tasks.spawn(f"consumer-{number}", partial(consume, topics[number::CONSUMERS]))
        for number in range(min(CONSUMERS, len(topics)))
    ]
    for task in tasks:
        task.join(None)
    took_ns = max(kernel.now_ns - begun[0], 1)
    return CaughtUp(
        len(topics),
        records,
        records / took_ns * 1e9,
        (reads.misses - begun[2]) / records,
        (elevator.blocks_read - begun[1]) * BLOCK_BYTES / records,
    )


def few_of(topics: int) -> list[int]:
    """Return as many topics as there are consumers, or all, spread evenly."""
    count = min(CONSUMERS, topics)
    return [number * topics // count for number in range(count)]
