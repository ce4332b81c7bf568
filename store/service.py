"""Background service: one task that repeats a step until it is stopped.

What a step may meet it deals with itself. Anything else that it raises ends the service, and never silently:
`on_failure` is called before the task ends, and the task ends with what was raised. Who makes a service decides what
that means:

    services of the store       puts are refused until a restart, reads go on: `RunningFlags.service_failed`
    services of its server      no client can be served, so the process ends: `RemotingServer.fail`
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from .world import Clock, Task, World

NS_PER_MS = 1_000_000


def ms_until(due_ns: int, clock: Clock) -> int:
    """Return how many ms to wait for a moment of the monotonic clock to have come, 0 if it has."""
    # Rounded up, or the last partial ms would be a busy loop of the caller.
    return max(0, -((clock.monotonic_ns() - due_ns) // NS_PER_MS))


def do_nothing(*_: object) -> None:
    """Be a callback where no one waits for the call."""


class Service(ABC):
    """A named task around `step`. A subclass waits inside its step, on `self.signal`."""

    name = "service"

    def __init__(self, world: World) -> None:
        self.world = world
        self.signal = world.tasks.signal(self.name)
        self._stopping = world.tasks.cell(f"{self.name} stopping")
        self.on_failure: Callable[[str, Exception], None] = do_nothing
        """Called with the service's name, and the unforeseen error that ends it. Whoever makes the service sets it."""
        self.has_failed = False
        """Whether an unforeseen error has ended it."""
        self._task: Task | None = None

    def start(self) -> None:
        """Begin to work."""
        self._task = self.world.tasks.spawn(self.name, self._run)

    def wake(self) -> None:
        """Make the step that waits, or the next one, go on at once."""
        self.signal.notify()

    @property
    def is_stopping(self) -> bool:
        """Return whether the service has been asked to end."""
        return self._stopping.get() == 1

    def shutdown(self) -> None:
        """Let the current step end, do the last work, and wait for both."""
        self._stopping.set(1)
        self.signal.notify()
        if self._task is not None:
            self._task.join(None)

    def _run(self) -> None:
        try:
            while not self.is_stopping:
                self.step()
            self.finish()
        except Exception as error:
            self.has_failed = True
            # Before the task ends, so that a join sees the failure. RocketMQ's threads end silently.
            self.on_failure(self.name, error)
            raise

    def pause(self, ms: int) -> None:
        """Let ms pass, however often the service is woken meanwhile; only being stopped ends it sooner."""
        clock = self.world.clock
        due_ns = clock.monotonic_ns() + ms * NS_PER_MS
        while not self.is_stopping and (left_ms := ms_until(due_ns, clock)):
            self.signal.wait(left_ms)

    @abstractmethod
    def step(self) -> None:
        """Wait for work, then do it."""

    def finish(self) -> None:  # noqa: B027 - most services have nothing left to do
        """Do what is left to do after the last step."""
