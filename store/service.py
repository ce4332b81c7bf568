"""Background service: a task that repeats a step until it is stopped.

A step handles its expected errors. After any other exception `on_failure` is called, then the task ends with the
exception. The creator of a service decides the consequence:

    services of the store       puts are refused until a restart, and reads continue: `RunningFlags.service_failed`
    services of its server      clients cannot be served, so the process ends: `RemotingServer.record_service_failure`
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from .world import Clock, Task, World

NS_PER_MS = 1_000_000


def ms_until(due_ns: int, clock: Clock) -> int:
    # Rounded up. Otherwise the caller would loop without waiting during the last ms.
    return max(0, -((clock.monotonic_ns() - due_ns) // NS_PER_MS))


def do_nothing(*_: object) -> None:
    """A callback without effect."""


class Service(ABC):
    """A task that repeats `run_once`. Each subclass waits on `self.signal` inside `run_once`."""

    name = "service"

    def __init__(self, world: World) -> None:
        self.world = world
        self.signal = world.tasks.signal(self.name)
        self._stopping = world.tasks.cell(f"{self.name} stopping")
        self.on_failure: Callable[[str, Exception], None] = do_nothing
        self.has_failed = False
        self._task: Task | None = None

    def start(self) -> None:
        self._task = self.world.tasks.spawn(self.name, self._run_until_stopped)

    def wake(self) -> None:
        self.signal.notify()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.get() == 1

    def shutdown(self) -> None:
        """Stop after the current step and `finish_remaining_work`."""
        self._stopping.set(1)
        self.signal.notify()
        if self._task is not None:
            self._task.join(None)

    def _run_until_stopped(self) -> None:
        try:
            while not self.is_stopping:
                self.run_once()
            self.finish_remaining_work()
        except Exception as error:
            self.has_failed = True
            # Called before the task ends, so that the failure is recorded when `join` returns. RocketMQ's threads end
            # silently.
            self.on_failure(self.name, error)
            raise

    def pause(self, ms: int) -> None:
        """Sleep for ms, or until the service is stopped. `wake` does not end the sleep."""
        assert ms >= 0, ms
        clock = self.world.clock
        due_ns = clock.monotonic_ns() + ms * NS_PER_MS
        while not self.is_stopping and (left_ms := ms_until(due_ns, clock)):
            self.signal.wait(left_ms)

    @abstractmethod
    def run_once(self) -> None:
        """Wait for work, then do the work."""

    def finish_remaining_work(self) -> None:  # noqa: B027 - few services have remaining work
        """Do remaining work after the last step."""
