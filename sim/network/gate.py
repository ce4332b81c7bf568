"""Where tasks of any machine wait for something to change. Who is let through looks again at what it came for."""

from ..kernel import Kernel
from ..task import SimTask, Waiting


class Gate(Waiting):
    """Lets everyone through who waits when it is opened."""

    __slots__ = ("_kernel", "_waiters")

    def __init__(self, kernel: Kernel, label: str) -> None:
        super().__init__(label)
        self._kernel = kernel
        self._waiters: list[SimTask] = []

    def wait(self, due_ns: int | None) -> None:
        """Wait until it is opened or until due_ns; None: for ever."""
        current = self._kernel.current
        self._waiters.append(current)
        self._kernel.park(self, due_ns)
        if current in self._waiters:
            self._waiters.remove(current)

    def open(self) -> None:
        """Let everyone through, in the order they came."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            self._kernel.wake(waiter)
