"""The trace: what happened, event by event, for those who ask. Costs nothing when nobody does."""

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .kernel import Kernel
    from .task import SimTask, Waiting


class TraceEvent(NamedTuple):
    """One thing that happened. step counts scheduling points, task is who was running."""

    now_ns: int
    step: int
    task: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.now_ns / 1e6:12.6f} ms  step {self.step:<7} {self.task:<24} {self.kind:<8} {self.text}"


class TraceRecording(NamedTuple):
    """A run to compare with another one; it can travel between processes."""

    events: list[TraceEvent]
    words_before: "array[int]"
    """Of each event, how many words the digest had taken before it."""
    words: "array[int]"
    """All that the digest has taken."""


class Trace:
    """The events of one kernel, oldest first.

    The kernel adds `start`, `end`, `switch` and `kill`. Others ask `if kernel.trace is not None` first.
    What `parked`, `made_ready` and `tell` are told is no event: it is for kinds of traces that draw pictures.
    """

    def __init__(self, *, to_compare: bool = False) -> None:
        """Make an empty trace. to_compare: for `recording`, which holds what the digest was made of, too."""
        self._events: list[TraceEvent] = []
        self._words_before: array[int] | None = array("Q") if to_compare else None
        self._kernel: Kernel | None = None

    def attach(self, kernel: "Kernel") -> None:
        """Take time, step and task from this kernel; the kernel calls it."""
        self._kernel = kernel
        if self._words_before is not None:
            kernel.keep_words()

    def add(self, kind: str, text: str) -> None:
        """Record one event, here and now."""
        kernel = self._kernel
        assert kernel is not None, "a trace belongs to a kernel"
        self._events.append(TraceEvent(kernel.now_ns, kernel.steps, kernel.current.name, kind, text))
        if self._words_before is not None:
            self._words_before.append(kernel.count_words())

    def parked(self, why: "Waiting") -> None:
        """Take note that the current task blocks, and of what it waits for."""

    def made_ready(self, task: "SimTask") -> None:
        """Take note that a task that was blocked can run again."""

    def tell(self, fact: object) -> None:
        """Take note of something that whoever drives the kernel has found out, whatever it is."""

    def recording(self) -> "TraceRecording":
        """Return all of it for a comparison; the trace was made for one, and its kernel has come to an end."""
        kernel, words_before = self._kernel, self._words_before
        assert kernel is not None, "a trace belongs to a kernel"
        assert words_before is not None, "the trace was not made to compare"
        return TraceRecording(self._events, words_before, kernel.kept_words())

    def last(self, count: int) -> list[TraceEvent]:
        """Return the newest count events, oldest first."""
        return self._events[-count:] if count > 0 else []

    def __iter__(self) -> Iterator[TraceEvent]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)
