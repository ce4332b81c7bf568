"""A service that finds no memory as it waits for work: what it raises is nothing that it foresaw.

It stands for every error in a service that nobody thought of. Which service it is, and which of its waits, is drawn
for each life.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

from ...sim.choices import Stream
from ...sim.errors import InjectedError
from ...store.world import Signal, World

KIND = "out of memory"
SERVICES = (
    "dispatch",
    "flush-consume-queue",
    "allocate",
    "group-commit",
    "flush-real-time",
    "commit-real-time",
    "retention",
    "schedule",
    "consumer offsets",
    "transaction check",
)
"""Whom it may strike, by the names of their signals; who does not run is spared."""
_WAITS_MAX = 12


class OutOfMemoryError(MemoryError, InjectedError):
    """The process has no memory left for what a service is about to do."""


class _ShortSignal:
    """A signal of which one wait fails."""

    def __init__(self, signal: Signal, waits: int, fired: Counter[str]) -> None:
        """waits: how many end well before that."""
        self._signal = signal
        self._waits = waits
        self._fired = fired

    def notify(self) -> None:
        """Wake the waiter."""
        self._signal.notify()

    def wait(self, timeout_ms: int | None) -> bool:
        """Wait, or fail."""
        self._waits -= 1
        if self._waits == -1:
            self._fired[KIND] += 1
            raise OutOfMemoryError("cannot allocate a waiter")
        return self._signal.wait(timeout_ms)


class _ShortTasks:
    """Tasks of a machine on which one service runs out of memory."""

    def __init__(self, tasks: Any, victim: str, waits: int, fired: Counter[str]) -> None:
        self._tasks = tasks
        self._victim = victim
        self._waits = waits
        self._fired = fired

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tasks, name)

    def signal(self, name: str) -> Any:
        """Make a signal."""
        signal = self._tasks.signal(name)
        return _ShortSignal(signal, self._waits, self._fired) if name == self._victim else signal


def short_of_memory(world: World, chance: float, stream: Stream, fired: Counter[str]) -> World:
    """Return a world in which, with some chance, one service ends of what it did not foresee. fired counts that."""
    if not stream.chance(chance, KIND):
        return world
    victim = stream.pick(SERVICES, "service")
    tasks: Any = _ShortTasks(world.tasks, victim, stream.below(_WAITS_MAX, "waits"), fired)
    return replace(world, tasks=tasks)
