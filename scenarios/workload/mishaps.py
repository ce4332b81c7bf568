"""Mishaps of one life that no disk fault makes: a service out of memory, and queues that skip numbers at a restart."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ...sim.choices import Stream
from ...sim.errors import InjectedError
from ...store.formats.consume_queue import ENTRY_BYTES
from ...store.formats.delay_level import SCHEDULE_TOPIC
from ...store.message_store import MessageStore
from ...store.world import Signal, World
from ..oracle.ledger import Ledger

OUT_OF_MEMORY = "out of memory"
SERVICES = (
    *("dispatch", "flush-consume-queue", "allocate", "group-commit", "flush-real-time"),
    *("commit-real-time", "retention", "schedule", "consumer offsets", "transaction check"),
)
"""The store's, by the names of their tasks and signals: whom it may strike. Who does not run is spared."""
_WAITS_MAX = 12

SKIPPED_NUMBERS = "skipped numbers"
_SKIPPED_CHANCE = 0.6
_UNWRITTEN_CHANCE = 0.3


class OutOfMemoryError(MemoryError, InjectedError):
    """The process has no memory left for what a service is about to do."""


@dataclass(slots=True)
class _ShortSignal:
    """A signal of which one wait fails."""

    signal: Signal
    waits: int
    """How many end well before that."""
    injected: Counter[str]

    def notify(self) -> None:
        """Wake the waiter."""
        self.signal.notify()

    def wait(self, timeout_ms: int | None) -> bool:
        """Wait, or fail."""
        self.waits -= 1
        if self.waits == -1:
            self.injected[OUT_OF_MEMORY] += 1
            raise OutOfMemoryError("cannot allocate a waiter")
        return self.signal.wait(timeout_ms)


@dataclass(slots=True)
class _ShortTasks:
    """Tasks of a machine on which one service runs out of memory."""

    tasks: Any
    victim: str
    waits: int
    injected: Counter[str]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tasks, name)

    def signal(self, name: str) -> Any:
        """Make a signal."""
        signal = self.tasks.signal(name)
        return _ShortSignal(signal, self.waits, self.injected) if name == self.victim else signal


def short_of_memory(world: World, chance: float, stream: Stream, injected: Counter[str]) -> World:
    """Return a world in which, with some chance, one service finds no memory as it waits; injected counts that.

    What it raises is nothing that it foresaw: it stands for every error in a service that nobody thought of. Which
    service it is, and which of its waits, is drawn for each life.
    """
    if not stream.chance(chance, OUT_OF_MEMORY):
        return world
    victim = stream.pick(SERVICES, "service")
    tasks: Any = _ShortTasks(world.tasks, victim, stream.below(_WAITS_MAX, "waits"), injected)
    return replace(world, tasks=tasks)


def skip_numbers(store: MessageStore, stream: Stream, numbers_max: int, ledger: Ledger) -> int:
    """Let some queues of a loaded store skip up to so many numbers each; return how many queues do.

    RocketMQ 4.9.8 takes the first entry of an allocated, empty file for a real one when it is restarted, so the queue
    ends in an entry of zeros, and the next message gets the number behind it. No other broker is needed for that:
    between the load and the start of a store, its queues get what such a restart leaves.

    The queues of delayed messages are spared: the store's own task reads them, and relies on what recovery has mended.

    Their entries of zeros may be there or not: a crash may have taken them with all that nobody synced.
    """
    skipping = 0
    for queue in store.queues.all():
        about = stream.within(f"{queue.topic}/{queue.queue_id}")
        if queue.topic == SCHEDULE_TOPIC or queue.max_offset == 0 or not about.chance(_SKIPPED_CHANCE, "skips"):
            continue
        begin, count = queue.max_offset, about.between(1, numbers_max, "numbers")
        end = begin + count
        if not about.chance(_UNWRITTEN_CHANCE, "unwritten"):
            with suppress(OSError):  # a full or broken disk: what it took counts
                queue.append_entries(bytes(ENTRY_BYTES) * count)
            end = queue.max_offset
        if end > begin:
            place = (queue.topic, queue.queue_id)
            store.commit_log.topic_queue_table[place] = end
            ledger.holes.setdefault(place, set()).update(range(begin, end))
            skipping += 1
    return skipping
