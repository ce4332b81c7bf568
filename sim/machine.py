"""Machines as seen by their tasks: clocks, locks, signals, cells, processors.

If a machine dies, its tasks, their memory and its wall clock are gone; its disks remain. A task is a greenlet that
switches only at world calls. Every call with an effect on other tasks passes a scheduling point before the effect. The
code here runs most often in a simulation. So points are inlined (decrement, test), and a label is built only when the
policy is called.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from greenlet import greenlet


class Scheduler(Protocol):
    """The interface of the kernel to machines. The kernel's module imports this one."""

    fuel: int
    """Points that the current task may pass before `reschedule`; passing one subtracts 1."""
    now_ns: int
    wall_start_ms: int

    @property
    def current(self) -> "SimTask":
        """Return the running task; outside of any task, a placeholder for the caller."""

    @property
    def steps(self) -> int:
        """See `Kernel.steps`."""

    def point(self, label: str) -> None:
        """See `Kernel.point`."""

    def reschedule(self, label: str) -> None:
        """See `Kernel.reschedule`."""

    def at_one_moment(self) -> AbstractContextManager[None]:
        """See `Kernel.at_one_moment`."""

    def park(self, why: "Waiting", due_ns: int | None) -> bool:
        """See `Kernel.park`."""

    def wake(self, task: "SimTask") -> None:
        """See `Kernel.wake`."""

    def hasten(self, task: "SimTask", due_ns: int) -> None:
        """See `Kernel.hasten`."""

    def refuse(self, machine: "Machine") -> None:
        """See `Kernel.refuse`."""

    def spawn(self, machine: "Machine", name: str, body: Callable[[], Any]) -> "SimTask":
        """See `Kernel.spawn`."""


class Waiting:
    """The reason for which a task is parked. Locks and signals are subclasses."""

    __slots__ = ("label",)

    def __init__(self, label: str) -> None:
        self.label = label

    def describe(self) -> str:
        """Describe the reason for a reader."""
        return self.label


_SLEEP = Waiting("sleep")
_COMPUTING = Waiting("processor")


class SimTask(greenlet):
    """One task of a machine. Tasks are compared by identity and ordered by `number`, which the kernel assigns."""

    __slots__ = (
        *("body", "due_ns", "ended", "failure", "joiners", "machine", "name", "number", "park_number"),
        *("refusals", "value", "waiting", "woken"),
    )

    def __init__(
        self, machine: "Machine", name: str, number: int, body: Callable[[], Any], run: Callable[[], None]
    ) -> None:
        """Make a task whose greenlet starts with run; run must call body."""
        super().__init__(run)
        self.machine = machine
        self.name = name
        self.number = number
        self.body = body
        self.ended = False  # also true if the task will never start
        self.value: Any = None
        self.failure: Exception | None = None
        self.waiting: Waiting | None = None  # None while it runs or can run
        self.due_ns: int | None = None  # when the current park times out
        self.park_number = 0  # timers of an earlier park are stale
        self.woken = False
        self.refusals = 0
        self.joiners: list[SimTask] = []

    def join(self, timeout_ms: int | None) -> bool:
        """Wait until the task ends (True) or for timeout_ms (False). None: no timeout."""
        kernel = self.machine.kernel
        why = Waiting(f"join {self.name}")
        kernel.point(why.label)
        due_ns = None if timeout_ms is None else kernel.now_ns + timeout_ms * 1_000_000
        if not self.ended:
            joiner = kernel.current
            self.joiners.append(joiner)
            if not kernel.park(why, due_ns):
                self.joiners.remove(joiner)  # or the end of the task would wake the joiner from a later wait
        return self.ended

    def describe_wait(self, now_ns: int) -> str:
        """Describe why the task waits: the reason, the holder of a lock, and the timeout."""
        if self.waiting is None:
            return "runnable"
        wait = self.waiting.describe()
        return wait if self.due_ns is None else f"{wait} until +{(self.due_ns - now_ns) / 1e6:g} ms"


class SimLock(Waiting):
    """A mutex, neither re-entrant nor fair.

    Invariant: if waiters are queued and the lock is free, one waiter was woken and has not run yet.
    """

    __slots__ = ("_holder", "_kernel", "_waiters")

    def __init__(self, kernel: Scheduler, name: str) -> None:
        self.label = f"lock {name}"
        self._kernel = kernel
        self._holder: SimTask | None = None
        self._waiters: list[SimTask] = []  # a few at most

    def __enter__(self) -> None:
        # `Kernel.point` is inlined here and below, because this code runs most often in a simulation.
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(self.label)
        current = kernel.current
        while self._holder is not None:  # not fair: the task that runs first gets the lock, and the others wait again
            if self._holder is current:
                raise RuntimeError(f"{self.label}: {current.name} holds it already, and it is not re-entrant")
            self._waiters.append(current)
            kernel.park(self, None)
        self._holder = current

    def __exit__(self, *_: object) -> None:
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(f"un{self.label}")
        assert self._holder is kernel.current, self.label
        self._holder = None
        if self._waiters:
            kernel.wake(self._waiters.pop(0))

    def describe(self) -> str:
        return self.label if self._holder is None else f"{self.label} held by {self._holder.name}"


class WaitQueue(Waiting):
    """Tasks that wait for the same event. A task leaves the queue when it is woken or its wait times out."""

    __slots__ = ("_kernel", "_waiters")

    def __init__(self, kernel: Scheduler, label: str) -> None:
        self.label = label
        self._kernel = kernel
        self._waiters: list[SimTask] = []

    def _park(self, due_ns: int | None) -> None:
        current = self._kernel.current
        assert current not in self._waiters, f"{self.label}: {current.name} waits twice"
        self._waiters.append(current)
        self._kernel.park(self, due_ns)
        if current in self._waiters:
            self._waiters.remove(current)  # timed out and not woken


class SimSignal(WaitQueue):
    """A wake-up for one task. Without a waiting task, the signal stays set for the next wait.

    Invariant: tasks queue only while the signal is not set. `notify` sets it and wakes one task.
    """

    __slots__ = ("_is_set",)

    def __init__(self, kernel: Scheduler, name: str) -> None:
        super().__init__(kernel, f"signal {name}")
        self._is_set = False

    def notify(self) -> None:
        """Wake one waiter, or let the next wait return at once."""
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(f"notify {self.label}")
        if self._is_set:
            return
        self._is_set = True
        if self._waiters:
            kernel.wake(self._waiters.pop(0))

    def wait(self, timeout_ms: int | None) -> bool:
        """Wait for `notify` (True; clears the signal) or for timeout_ms (False). None: no timeout."""
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(self.label)
        due_ns = None if timeout_ms is None else kernel.now_ns + timeout_ms * 1_000_000
        while not self._is_set:
            if due_ns is not None and due_ns <= kernel.now_ns:
                return False
            self._park(due_ns)
        self._is_set = False
        return True


class Gate(WaitQueue):
    """A queue of tasks that wait for a change. `open` wakes all, and each task checks its condition again.

    Invariant: every waiter is parked in this queue, and is woken once.
    """

    __slots__ = ()

    def wait(self, due_ns: int | None) -> None:
        """Wait for `open` or until due_ns; None: no timeout."""
        self._park(due_ns)

    def open(self) -> None:
        """Wake every waiter, in the order of arrival."""
        # replaced before the wake-ups: a waiter whose condition is false waits for the next `open`
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            self._kernel.wake(waiter)

    def open_at(self, due_ns: int) -> None:
        """Wake every current waiter at due_ns at the latest."""
        for waiter in self._waiters:
            self._kernel.hasten(waiter, due_ns)


@dataclass(slots=True, eq=False)
class SimCell:
    """An integer shared by tasks."""

    _kernel: Scheduler
    _name: str
    _value: int

    def get(self) -> int:
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(f"cell {self._name}.get")
        return self._value

    def set(self, value: int) -> None:
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(f"cell {self._name}.set")
        self._value = value

    def add(self, delta: int) -> int:
        """Add delta in one step and return the new value."""
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(f"cell {self._name}.add")
        self._value += delta
        return self._value

    def compare_and_set(self, expected: int, value: int) -> bool:
        """Replace expected by value in one step. Return False, without a change, if the cell has another value."""
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(f"cell {self._name}.compare_and_set")
        if self._value != expected:
            return False
        self._value = value
        return True


@dataclass(slots=True, eq=False)
class Processor:
    """One processor: one task computes at a time, in the order of requests.

    Simulated code takes no virtual time by itself. Models that need CPU time call `work`.

    Invariant: if `_free_at_ns` is in the future, the processor is busy until then.
    """

    _kernel: Scheduler
    _free_at_ns: int = 0
    busy_ns: int = 0

    def work(self, cost_ns: int) -> None:
        """Compute for cost_ns, after all earlier requests."""
        if cost_ns <= 0:
            return
        kernel = self._kernel
        # No queue is stored: the next request begins when all earlier work ends.
        self._free_at_ns = max(kernel.now_ns, self._free_at_ns) + cost_ns
        self.busy_ns += cost_ns
        assert self.busy_ns <= self._free_at_ns, "two tasks never compute at the same time"
        kernel.park(_COMPUTING, self._free_at_ns)


class SimClock:
    """The two clocks of a machine. A read is no scheduling point, because time advances only with timers."""

    __slots__ = ("_kernel", "_machine")

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine
        self._kernel = machine.kernel

    def now_ms(self) -> int:
        """Return the wall clock in ms since 1970: virtual time plus the machine's `wall_offset_ms`."""
        machine = self._machine
        kernel = self._kernel
        if not machine.alive:
            kernel.refuse(machine)
        return kernel.wall_start_ms + kernel.now_ns // 1_000_000 + machine.wall_offset_ms

    def monotonic_ns(self) -> int:
        """Return virtual time in ns."""
        if not self._machine.alive:
            self._kernel.refuse(self._machine)
        return self._kernel.now_ns

    def utc_offset_ms(self) -> int:
        """Return 0: simulated machines use UTC."""
        return 0


class SimTasks:
    """The tasks of one machine and their synchronisation."""

    __slots__ = ("_kernel", "_machine")

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine
        self._kernel = machine.kernel

    def spawn(self, name: str, body: Callable[[], None]) -> SimTask:
        """Start body as a task. The scheduling point is before the task exists."""
        self._kernel.point("spawn")
        return self._kernel.spawn(self._machine, name, body)

    def sleep(self, ms: int) -> None:
        """Sleep for ms of virtual time; 0 is only a scheduling point."""
        kernel = self._kernel
        if ms <= 0:
            kernel.point("sleep")
        else:
            kernel.park(_SLEEP, kernel.now_ns + ms * 1_000_000)

    def lock(self, name: str) -> SimLock:
        return SimLock(self._kernel, name)

    def signal(self, name: str) -> SimSignal:
        return SimSignal(self._kernel, name)

    def cell(self, name: str, value: int = 0) -> SimCell:
        return SimCell(self._kernel, name, value)


class Machine:
    """One machine, from power-on to its death. `Kernel.machine` makes them."""

    __slots__ = (
        *("_names_used", "alive", "at_death", "clock", "kernel", "leftover_tasks", "live_tasks", "name"),
        *("tasks", "wall_offset_ms"),
    )

    def __init__(self, kernel: Scheduler, name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.alive = True
        self.wall_offset_ms = 0
        """Added to the wall clock; a fault may move it forward or backward."""
        self.at_death: list[Callable[[], None]] = []
        """Functions to call once when the machine is switched off, before its tasks end."""
        self.leftover_tasks: list[str] = []
        """Tasks still running when the main task of `Kernel.run` ended."""
        self.live_tasks: dict[int, SimTask] = {}
        """Tasks by number, in the order of spawning, which is also the order of unwinding."""
        self._names_used: dict[str, int] = {}
        self.clock = SimClock(self)
        self.tasks = SimTasks(self)

    def name_task(self, name: str) -> str:
        """Return `machine/name`, unique in the kernel. The second task of that name is `machine/name#2`, and so on."""
        count = self._names_used.get(name, 0) + 1
        self._names_used[name] = count
        return f"{self.name}/{name}" if count == 1 else f"{self.name}/{name}#{count}"
