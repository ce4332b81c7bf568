"""Machines as seen by their tasks: clocks, locks, signals, cells, processors.

A dead machine loses its tasks, their memory and its wall clock, but not its disks. A task is a greenlet that switches
only at world calls. A call that affects other tasks passes a scheduling point before the effect. Scheduling points are
inlined here (decrement, test), because this code runs most often in a simulation. Labels are built only for calls of
the policy.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from greenlet import greenlet


class Scheduler(Protocol):
    """The part of `Kernel` that machines use, because `kernel` imports this module."""

    fuel: int
    """Number of points that the current task may pass before it calls `reschedule`."""
    now_ns: int
    wall_start_ms: int

    @property
    def current(self) -> "SimTask":
        """The running task; a placeholder outside of any task."""

    @property
    def steps(self) -> int: ...

    def scheduling_point(self, label: str) -> None: ...

    def reschedule(self, label: str) -> None: ...

    def without_scheduling_points(self) -> AbstractContextManager[None]: ...

    def park(self, why: "WaitReason", due_ns: int | None) -> bool: ...

    def wake(self, task: "SimTask") -> None: ...

    def limit_wait_to(self, task: "SimTask", due_ns: int) -> None: ...

    def raise_machine_died(self, machine: "Machine") -> None: ...

    def spawn(self, machine: "Machine", name: str, body: Callable[[], Any]) -> "SimTask": ...


class WaitReason:
    """The reason why a task is parked."""

    __slots__ = ("label",)

    def __init__(self, label: str) -> None:
        self.label = label

    def describe(self) -> str:
        return self.label


_SLEEP = WaitReason("sleep")
_COMPUTING = WaitReason("processor")


class SimTask:
    """A task. The kernel numbers the tasks of all machines."""

    __slots__ = (
        *("body", "due_ns", "ended", "failure", "greenlet", "is_unwinding", "joiners", "machine", "name", "number"),
        *("park_number", "refusals", "value", "waiting", "woken"),
    )

    def __init__(self, machine: "Machine", name: str, number: int, body: Callable[[], Any]) -> None:
        self.greenlet: greenlet | None = None  # from the first switch to the end of the task
        self.is_unwinding = False
        """Whether the next switch to the task raises MachineDied in it."""
        self.machine = machine
        self.name = name
        self.number = number
        self.body = body
        self.ended = False  # also true for a task that will never start
        self.value: Any = None
        self.failure: Exception | None = None
        self.waiting: WaitReason | None = None  # None while the task runs or can run
        self.due_ns: int | None = None  # timeout of the current park
        self.park_number = 0  # timers with the number of an earlier park are stale
        self.woken = False
        self.refusals = 0
        self.joiners: list[SimTask] = []

    def join(self, timeout_ms: int | None) -> bool:
        kernel = self.machine.kernel
        why = WaitReason(f"join {self.name}")
        kernel.scheduling_point(why.label)
        due_ns = None if timeout_ms is None else kernel.now_ns + timeout_ms * 1_000_000
        if not self.ended:
            joiner = kernel.current
            self.joiners.append(joiner)
            if not kernel.park(why, due_ns):
                self.joiners.remove(joiner)  # otherwise the end of this task would wake the joiner from a later wait
        return self.ended

    def describe_wait(self, now_ns: int) -> str:
        if self.waiting is None:
            return "runnable"
        wait = self.waiting.describe()
        return wait if self.due_ns is None else f"{wait} until +{(self.due_ns - now_ns) / 1e6:g} ms"


class SimLock(WaitReason):
    """A mutex, neither re-entrant nor fair.

    Invariant: if tasks wait although the lock is free, one of them was woken and has not run yet.
    """

    __slots__ = ("_holder", "_kernel", "_waiters")

    def __init__(self, kernel: Scheduler, name: str) -> None:
        self.label = f"lock {name}"
        self._kernel = kernel
        self._holder: SimTask | None = None
        self._waiters: list[SimTask] = []  # contains a few tasks at most

    def __enter__(self) -> None:
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(self.label)
        current = kernel.current
        while self._holder is not None:  # not fair: the first task that runs gets the lock
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


class WaitQueue(WaitReason):
    """Tasks that wait for one event. A task leaves the queue when it is woken or times out."""

    __slots__ = ("_kernel", "_waiters")

    def __init__(self, kernel: Scheduler, label: str) -> None:
        self.label = label
        self._kernel = kernel
        self._waiters: list[SimTask] = []

    def _park_current_task(self, due_ns: int | None) -> None:
        current = self._kernel.current
        assert current not in self._waiters, f"{self.label}: {current.name} waits twice"
        self._waiters.append(current)
        self._kernel.park(self, due_ns)
        if current in self._waiters:
            self._waiters.remove(current)  # the task timed out and was not woken


class SimSignal(WaitQueue):
    """Wakes one task: a task that waits now, otherwise the next task that calls `wait`.

    Invariant: tasks queue only while the signal is not set. `notify` sets the signal and wakes one task.
    """

    __slots__ = ("_is_set",)

    def __init__(self, kernel: Scheduler, name: str) -> None:
        super().__init__(kernel, f"signal {name}")
        self._is_set = False

    def notify(self) -> None:
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
        """Wait for `notify`, and clear the signal. Returns False after timeout_ms; None: no timeout."""
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(self.label)
        due_ns = None if timeout_ms is None else kernel.now_ns + timeout_ms * 1_000_000
        while not self._is_set:
            if due_ns is not None and due_ns <= kernel.now_ns:
                return False
            self._park_current_task(due_ns)
        self._is_set = False
        return True


class WaitGate(WaitQueue):
    """Tasks that wait for a change. `open` wakes them all, and each checks its condition again.

    Invariant: every waiting task is parked in this queue, and is woken once.
    """

    __slots__ = ()

    def wait(self, due_ns: int | None) -> None:
        self._park_current_task(due_ns)

    def open(self) -> None:
        # replaced first, because a task with a false condition waits for the next `open`
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            self._kernel.wake(waiter)

    def open_at(self, due_ns: int) -> None:
        for waiter in self._waiters:
            self._kernel.limit_wait_to(waiter, due_ns)


@dataclass(slots=True, eq=False)
class SimCell:
    """An integer shared by tasks. Each call is atomic."""

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
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(f"cell {self._name}.add")
        self._value += delta
        return self._value

    def compare_and_set(self, expected: int, value: int) -> bool:
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(f"cell {self._name}.compare_and_set")
        if self._value != expected:
            return False
        self._value = value
        return True


@dataclass(slots=True, eq=False)
class SimProcessor:
    """One processor. It computes for one task at a time, in the order of requests.

    Simulated code takes no virtual time, so models of CPU time call `compute`.

    Invariant: if `_free_at_ns` is in the future, the processor is busy until then.
    """

    _kernel: Scheduler
    _free_at_ns: int = 0
    busy_ns: int = 0

    def compute(self, cost_ns: int) -> None:
        if cost_ns <= 0:
            return
        kernel = self._kernel
        self._free_at_ns = max(kernel.now_ns, self._free_at_ns) + cost_ns
        self.busy_ns += cost_ns
        assert self.busy_ns <= self._free_at_ns, "two tasks never compute at the same time"
        kernel.park(_COMPUTING, self._free_at_ns)


class SimClock:
    """The two clocks of a machine. Reads are no scheduling points, because time advances only with timers."""

    __slots__ = ("_kernel", "_machine")

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine
        self._kernel = machine.kernel

    def now_ms(self) -> int:
        machine = self._machine
        kernel = self._kernel
        if not machine.alive:
            kernel.raise_machine_died(machine)
        return kernel.wall_start_ms + kernel.now_ns // 1_000_000 + machine.wall_offset_ms

    def monotonic_ns(self) -> int:
        if not self._machine.alive:
            self._kernel.raise_machine_died(self._machine)
        return self._kernel.now_ns

    def utc_offset_ms(self) -> int:
        return 0


class SimTasks:
    """Makes the tasks of one machine, and their locks, signals and cells."""

    __slots__ = ("_kernel", "_machine")

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine
        self._kernel = machine.kernel

    def spawn(self, name: str, body: Callable[[], None]) -> SimTask:
        """Start a task, after a scheduling point."""
        self._kernel.scheduling_point("spawn")
        return self._kernel.spawn(self._machine, name, body)

    def sleep(self, ms: int) -> None:
        """Sleep for ms of virtual time. 0 only passes a scheduling point."""
        kernel = self._kernel
        if ms <= 0:
            kernel.scheduling_point("sleep")
        else:
            kernel.park(_SLEEP, kernel.now_ns + ms * 1_000_000)

    def lock(self, name: str) -> SimLock:
        return SimLock(self._kernel, name)

    def signal(self, name: str) -> SimSignal:
        return SimSignal(self._kernel, name)

    def cell(self, name: str, value: int = 0) -> SimCell:
        return SimCell(self._kernel, name, value)


class Machine:
    """One machine from power-on to death. Made by `Kernel.create_machine`."""

    __slots__ = (
        *("_names_used", "alive", "at_death", "clock", "kernel", "leftover_tasks", "live_tasks", "name"),
        *("tasks", "wall_offset_ms"),
    )

    def __init__(self, kernel: Scheduler, name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.alive = True
        self.wall_offset_ms = 0
        """Offset of the wall clock. Clock steps change this offset."""
        self.at_death: list[Callable[[], None]] = []
        """Functions to call once when the machine is switched off, before its tasks end."""
        self.leftover_tasks: list[str] = []
        """Names of tasks that still ran when the main task of `Kernel.run` ended."""
        self.live_tasks: dict[int, SimTask] = {}
        """Tasks by number, in spawn order. The kernel unwinds them in this order."""
        self._names_used: dict[str, int] = {}
        self.clock = SimClock(self)
        self.tasks = SimTasks(self)

    def unique_task_name(self, name: str) -> str:
        count = self._names_used.get(name, 0) + 1
        self._names_used[name] = count
        return f"{self.name}/{name}" if count == 1 else f"{self.name}/{name}#{count}"
