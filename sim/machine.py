"""Machines: what dies at once. A machine owns tasks, their memory and a wall clock; disks outlive it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from .sync import SimCell, SimLock, SimSignal
from .task import SimTask, Waiting

if TYPE_CHECKING:
    from .kernel import Kernel

_SLEEP = Waiting("sleep")


class SimClock:
    """The machine's two clocks. Reading one is not a scheduling point: time stands still between timers."""

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
        """Return 0: simulated machines keep UTC."""
        return 0


class SimTasks:
    """What runs on one machine, and what its tasks meet at."""

    __slots__ = ("_kernel", "_machine")

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine
        self._kernel = machine.kernel

    def spawn(self, name: str, body: Callable[[], None]) -> SimTask:
        """Start body as a task. A scheduling point, before the task exists."""
        self._kernel.point("spawn")
        return self._kernel.spawn(self._machine, name, body)

    def sleep(self, ms: int) -> None:
        """Let ms of virtual time pass; 0 is a mere scheduling point."""
        kernel = self._kernel
        if ms <= 0:
            kernel.point("sleep")
        else:
            kernel.park(_SLEEP, kernel.now_ns + ms * 1_000_000)

    def lock(self, name: str) -> SimLock:
        """Make a mutex."""
        return SimLock(self._kernel, name)

    def signal(self, name: str) -> SimSignal:
        """Make a signal."""
        return SimSignal(self._kernel, name)

    def cell(self, name: str, value: int = 0) -> SimCell:
        """Make a cell."""
        return SimCell(self._kernel, name, value)


class Machine:
    """One machine, from switching it on to its death. `Kernel.machine` makes them."""

    __slots__ = (
        "_names_used",
        "alive",
        "at_death",
        "clock",
        "kernel",
        "leftover_tasks",
        "live_tasks",
        "name",
        "tasks",
        "wall_offset_ms",
    )

    def __init__(self, kernel: "Kernel", name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.alive = True
        self.wall_offset_ms = 0
        """Added to the wall clock; a fault may step it, also back."""
        self.at_death: list[Callable[[], None]] = []
        """Called once, when it is switched off: nothing of it may run any more, and none of its tasks has ended yet."""
        self.leftover_tasks: list[str] = []
        """Tasks that had not ended when the main task of `Kernel.run` had."""
        self.live_tasks: dict[int, SimTask] = {}
        """By number, which is the order of their spawns."""
        self._names_used: dict[str, int] = {}
        self.clock = SimClock(self)
        self.tasks = SimTasks(self)

    def name_task(self, name: str) -> str:
        """Return `machine/name`, with a number from the second use on: names are unique in a kernel."""
        count = self._names_used.get(name, 0) + 1
        self._names_used[name] = count
        return f"{self.name}/{name}" if count == 1 else f"{self.name}/{name}#{count}"
