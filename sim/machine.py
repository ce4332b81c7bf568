"""Machines as seen by their tasks: clocks, locks, signals, cells, processors.

A machine dies as a whole, with its tasks, their memory and its wall clock; disks outlive it. A task is a greenlet that
switches only at world calls. Every call that other tasks can notice is a scheduling point before it takes effect. The
hottest lines of a simulation are here: points are inlined (decrement, test), and a label is built only when the policy
is asked.
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
    """The reason for which a task is parked. Locks and signals are reasons themselves."""

    __slots__ = ("label",)

    def __init__(self, label: str) -> None:
        self.label = label

    def describe(self) -> str:
        """Describe the reason for a reader."""
        return self.label


_SLEEP = Waiting("sleep")
_COMPUTING = Waiting("processor")


class SimTask(greenlet):
    """One task of a machine. Compared by identity, ordered by `number`, which the kernel counts."""

    __slots__ = (
        *("body", "due_ns", "ended", "failure", "joiners", "machine", "name", "number", "park_number"),
        *("refusals", "value", "waiting", "woken"),
    )

    def __init__(
        self, machine: "Machine", name: str, number: int, body: Callable[[], Any], run: Callable[[], None]
    ) -> None:
        """Make a task that begins with run in its own greenlet; run must call body."""
        super().__init__(run)
        self.machine = machine
        self.name = name
        self.number = number
        self.body = body
        self.ended = False  # also true of a task that will never be started
        self.value: Any = None
        self.failure: Exception | None = None
        self.waiting: Waiting | None = None  # None while it runs or can run
        self.due_ns: int | None = None  # when the present park times out
        self.park_number = 0  # timers of an earlier park are stale
        self.woken = False
        self.refusals = 0
        self.joiners: list[SimTask] = []

    def join(self, timeout_ms: int | None) -> bool:
        """Wait for the task to end; False after timeout_ms without its end. None: wait for ever."""
        kernel = self.machine.kernel
        why = Waiting(f"join {self.name}")
        kernel.point(why.label)
        due_ns = None if timeout_ms is None else kernel.now_ns + timeout_ms * 1_000_000
        if not self.ended:
            joiner = kernel.current
            self.joiners.append(joiner)
            if not kernel.park(why, due_ns):
                self.joiners.remove(joiner)  # else the end of the task would wake it from another wait
        return self.ended

    def describe_wait(self, now_ns: int) -> str:
        """Describe the wait: its reason, the holder of a lock, and the timeout."""
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
        # `Kernel.point` is inlined here and below, and labels are built only when the policy is asked: these are the
        # hottest lines of a simulation.
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(self.label)
        current = kernel.current
        while self._holder is not None:  # not fair: the first to run takes it, and waiters contend again
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
    """Tasks that wait for the same event until a waker removes them from here or their time is up."""

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
    """A wake-up that is remembered once.

    Invariant: tasks queue only while the signal is not set. Setting it wakes one of them.
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
        """Wait until notified (True; consumes the notice) or for timeout_ms (False). None: for ever."""
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
    """A queue of tasks that wait for a change. Opening wakes all, and each checks its condition again.

    Invariant: every waiter is parked here, and is woken once.
    """

    __slots__ = ()

    def wait(self, due_ns: int | None) -> None:
        """Wait until it is opened or until due_ns; None: for ever."""
        self._park(due_ns)

    def open(self) -> None:
        """Wake every waiter, in the order of arrival."""
        # replaced at once: a waiter whose condition fails waits for the next opening
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            self._kernel.wake(waiter)

    def open_at(self, due_ns: int) -> None:
        """Wake every present waiter at due_ns at the latest."""
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
        """Replace expected by value in one step; return False without a change if the value differs."""
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
    """One processor, first come, first served: one task computes at a time, and computing takes time.

    Simulated code takes no virtual time by itself; a model that needs costs reports them here.

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
        # The end of the queue is enough: the next request begins there.
        self._free_at_ns = max(kernel.now_ns, self._free_at_ns) + cost_ns
        self.busy_ns += cost_ns
        assert self.busy_ns <= self._free_at_ns, "one processor is never taken twice"
        kernel.park(_COMPUTING, self._free_at_ns)


class SimClock:
    """The two clocks of a machine. Reading one is no scheduling point: time stands still between timers."""

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
        """Start body as a task. A scheduling point, before the task exists."""
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
        """Added to the wall clock; a fault may step it ahead or back."""
        self.at_death: list[Callable[[], None]] = []
        """Called once when the machine is switched off, before any of its tasks has ended."""
        self.leftover_tasks: list[str] = []
        """Tasks still running when the main task of `Kernel.run` ended."""
        self.live_tasks: dict[int, SimTask] = {}
        """By number: the order of spawning, and of unwinding."""
        self._names_used: dict[str, int] = {}
        self.clock = SimClock(self)
        self.tasks = SimTasks(self)

    def name_task(self, name: str) -> str:
        """Return `machine/name`, with a number from the second use on: names are unique in a kernel."""
        count = self._names_used.get(name, 0) + 1
        self._names_used[name] = count
        return f"{self.name}/{name}" if count == 1 else f"{self.name}/{name}#{count}"
