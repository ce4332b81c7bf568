"""Store faults: a service runs out of memory, or queues skip queue offsets at a restart."""

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
"""Task and signal names of services that can run out of memory. Not every plan runs all of these services."""
_WAITS_MAX = 12

SKIPPED_NUMBERS = "skipped numbers"
_SKIPPED_CHANCE = 0.6
_UNWRITTEN_CHANCE = 0.3


class OutOfMemoryError(MemoryError, InjectedError):
    """A service could not allocate memory for its next step."""


@dataclass(slots=True)
class _OutOfMemorySignal:
    """A signal with one wait that fails."""

    signal: Signal
    waits: int
    injected: Counter[str]

    def notify(self) -> None:
        self.signal.notify()

    def wait(self, timeout_ms: int | None) -> bool:
        self.waits -= 1
        if self.waits == -1:
            self.injected[OUT_OF_MEMORY] += 1
            raise OutOfMemoryError("cannot allocate a waiter")
        return self.signal.wait(timeout_ms)


@dataclass(slots=True)
class _OutOfMemoryTasks:
    """Makes one of the tasks run out of memory."""

    tasks: Any
    victim: str
    waits: int
    injected: Counter[str]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tasks, name)

    def signal(self, name: str) -> Any:
        signal = self.tasks.signal(name)
        return _OutOfMemorySignal(signal, self.waits, self.injected) if name == self.victim else signal


def world_out_of_memory(world: World, chance: float, stream: Stream, injected: Counter[str]) -> World:
    """Return a world in which one service may run out of memory in a wait, with a given probability.

    No service expects this error, so it represents all unexpected errors. The service and the wait are chosen at random
    at each start of the store. injected: counts the error.
    """
    if not stream.chance(chance, OUT_OF_MEMORY):
        return world
    victim = stream.choice(SERVICES, "service")
    tasks: Any = _OutOfMemoryTasks(world.tasks, victim, stream.randbelow(_WAITS_MAX, "waits"), injected)
    return replace(world, tasks=tasks)


def skip_numbers(store: MessageStore, stream: Stream, numbers_max: int, ledger: Ledger) -> int:
    """Let some queues of a loaded store skip up to numbers_max queue offsets each; return the number of these queues.

    At a restart, RocketMQ 4.9.8 counts the first entry of an allocated, empty file as an entry. The queue then ends in
    an entry of zeros, and the next message gets the offset after it. `skip_numbers` does the same between load and
    start, sometimes without the entries of zeros, as after a crash before fsync. Queues of delayed messages stay
    unchanged, because the store's own task relies on the recovered state there.
    """
    skipping = 0
    for queue in store.queues.all_queues():
        about = stream.with_subject(f"{queue.topic}/{queue.queue_id}")
        if queue.topic == SCHEDULE_TOPIC or queue.max_offset == 0 or not about.chance(_SKIPPED_CHANCE, "skips"):
            continue
        begin, count = queue.max_offset, about.randint(1, numbers_max, "numbers")
        end = begin + count
        if not about.chance(_UNWRITTEN_CHANCE, "unwritten"):
            with suppress(OSError):  # on a full or failing disk, only the written entries count
                queue.append_entries(bytes(ENTRY_BYTES) * count)
            end = queue.max_offset
        if end > begin:
            place = (queue.topic, queue.queue_id)
            store.commit_log.topic_queue_table[place] = end
            ledger.missing_offsets.setdefault(place, set()).update(range(begin, end))
            skipping += 1
    return skipping
