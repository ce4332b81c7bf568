"""Tasks, and what they wait for. A task is a greenlet: plain code, switched away at world calls only."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenlet import greenlet

from .errors import MachineDied

if TYPE_CHECKING:
    from .kernel import Kernel
    from .machine import Machine


class Waiting:
    """What a parked task waits for. Locks and signals are their own."""

    __slots__ = ("label",)

    def __init__(self, label: str) -> None:
        self.label = label

    def describe(self) -> str:
        """Say what the task waits for, for a message to a reader."""
        return self.label


class SimTask(greenlet):
    """One task of one machine. Compare by identity, order by `number`: the kernel counts spawns."""

    __slots__ = (
        "_body",
        "due_ns",
        "ended",
        "failure",
        "joiners",
        "kernel",
        "machine",
        "name",
        "number",
        "park_number",
        "refusals",
        "value",
        "waiting",
        "woken",
    )

    def __init__(self, machine: "Machine", name: str, number: int, body: Callable[[], Any]) -> None:
        super().__init__()
        self.kernel: Kernel = machine.kernel
        self.machine = machine
        self.name = name
        self.number = number
        self.ended = False  # also true of a task that was never started and never will be
        self.value: Any = None
        self.failure: Exception | None = None
        self.waiting: Waiting | None = None  # None while it runs or could
        self.due_ns: int | None = None  # when the present park times out
        self.park_number = 0  # a timer of an earlier park is stale
        self.woken = False
        self.refusals = 0
        self.joiners: list[SimTask] = []
        self._body = body

    def run(self) -> None:
        """Run the body; the greenlet's entry. What it raises is judged by the kernel."""
        kernel = self.kernel
        if kernel.trace is not None:
            kernel.trace.add("start", self.name)
        try:
            self.value = self._body()
        except MachineDied as death:
            if self.machine.alive:
                self.failure = RuntimeError(f"called a dead machine: {death}")
        except Exception as failure:
            self.failure = failure
        kernel.task_ended(self)

    def join(self, timeout_ms: int | None) -> bool:
        """Wait for the task to end; False if it still runs after timeout_ms. None: wait for ever."""
        kernel = self.kernel
        why = Waiting(f"join {self.name}")
        kernel.point(why.label)
        due_ns = None if timeout_ms is None else kernel.now_ns + timeout_ms * 1_000_000
        if not self.ended:
            joiner = kernel.current
            self.joiners.append(joiner)
            if not kernel.park(why, due_ns):
                self.joiners.remove(joiner)
        return self.ended
