"""The trace: what happened, event by event, for those who ask. Costs nothing when nobody does."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .kernel import Kernel


class TraceEvent(NamedTuple):
    """One thing that happened. step counts scheduling points, task is who was running."""

    now_ns: int
    step: int
    task: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.now_ns / 1e6:12.6f} ms  step {self.step:<7} {self.task:<24} {self.kind:<8} {self.text}"


class Trace:
    """The events of one kernel, oldest first.

    The kernel adds `start`, `end`, `switch` and `kill`. Others ask `if kernel.trace is not None` first.
    """

    def __init__(self) -> None:
        self._events: list[TraceEvent] = []
        self._kernel: Kernel | None = None

    def attach(self, kernel: "Kernel") -> None:
        """Take time, step and task from this kernel; the kernel calls it."""
        self._kernel = kernel

    def add(self, kind: str, text: str) -> None:
        """Record one event, here and now."""
        kernel = self._kernel
        assert kernel is not None, "a trace belongs to a kernel"
        self._events.append(TraceEvent(kernel.now_ns, kernel.steps, kernel.current.name, kind, text))

    def last(self, count: int) -> list[TraceEvent]:
        """Return the newest count events, oldest first."""
        return self._events[-count:] if count > 0 else []

    def __iter__(self) -> Iterator[TraceEvent]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)
