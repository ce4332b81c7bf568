"""Tasks that wait for one thing, all of whom go on when it is there."""

from ...sim.machine import Scheduler, SimTask, Waiting


class Waiters(Waiting):
    """A crowd in front of one door. Whoever was woken looks again whether what it waited for is there."""

    __slots__ = ("_kernel", "_tasks")

    def __init__(self, kernel: Scheduler, label: str) -> None:
        super().__init__(label)
        self._kernel = kernel
        self._tasks: list[SimTask] = []

    def join(self) -> None:
        """Let the current task wait until all are woken."""
        self._tasks.append(self._kernel.current)
        self._kernel.park(self, None)

    def wake_all(self) -> None:
        """Let all go on, those first who came first."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            self._kernel.wake(task)
