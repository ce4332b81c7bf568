"""What tasks meet at: locks, signals and cells. Every operation is a scheduling point before it takes effect.

A point is written out in place (decrement, test), for these are the hottest lines of a simulation; its label is built
only when the point is one where something happens.
"""

from typing import TYPE_CHECKING

from .task import SimTask, Waiting

if TYPE_CHECKING:
    from .kernel import Kernel


class SimLock(Waiting):
    """A mutex. Not re-entrant, not fair: whoever comes by while it is free may take it; waiters contend anew.

    Invariant: while waiters queue and nobody holds it, one that has been woken is on its way.
    """

    __slots__ = ("_holder", "_kernel", "_waiters")

    def __init__(self, kernel: "Kernel", name: str) -> None:
        self.label = f"lock {name}"
        self._kernel = kernel
        self._holder: SimTask | None = None
        self._waiters: list[SimTask] = []  # a few at most

    def __enter__(self) -> None:
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(self.label)
        current = kernel.current
        while self._holder is not None:
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
        self._holder = None
        if self._waiters:
            kernel.wake(self._waiters.pop(0))

    def describe(self) -> str:
        """Name the lock and its holder."""
        return self.label if self._holder is None else f"{self.label} held by {self._holder.name}"


class SimSignal(Waiting):
    """One wake-up call, remembered once.

    Invariant: tasks join the waiters only while the signal is not set; setting it wakes one of them.
    """

    __slots__ = ("_is_set", "_kernel", "_waiters")

    def __init__(self, kernel: "Kernel", name: str) -> None:
        self.label = f"signal {name}"
        self._kernel = kernel
        self._is_set = False
        self._waiters: list[SimTask] = []

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
        """Wait until notified (True, and the notice is used up) or for timeout_ms (False). None: for ever."""
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

    def _park(self, due_ns: int | None) -> None:
        current = self._kernel.current
        self._waiters.append(current)
        self._kernel.park(self, due_ns)
        if current in self._waiters:
            self._waiters.remove(current)  # timed out, and no notice since


class SimCell:
    """An integer several tasks share."""

    __slots__ = ("_kernel", "_name", "_value")

    def __init__(self, kernel: "Kernel", name: str, value: int) -> None:
        self._kernel = kernel
        self._name = name
        self._value = value

    def get(self) -> int:
        """Return the value."""
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(f"cell {self._name}.get")
        return self._value

    def set(self, value: int) -> None:
        """Replace the value."""
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
        """Replace expected by value in one step; False, and no change, if something else is there."""
        kernel = self._kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(f"cell {self._name}.compare_and_set")
        if self._value != expected:
            return False
        self._value = value
        return True
