"""Task greenlets: run the tasks of kernels, one task after another.

CPython maps memory for a new greenlet and unmaps it at the end, which takes longer than a short task. So a greenlet
whose task has ended waits for the next task, also of another kernel.
"""

from collections.abc import Callable
from threading import local

from greenlet import getcurrent, greenlet


class TaskGreenlet(greenlet):
    """Runs one task at a time, and switches to its parent at the end of each."""

    __slots__ = ("work",)
    work: Callable[[], None] | None

    def run(self) -> None:
        while True:
            assert self.parent is not None, "only the main greenlet has no parent"
            self.parent.switch(None)
            work, self.work = self.work, None
            assert work is not None, "a task greenlet continues only with work"
            work()
            del work  # a waiting greenlet must not keep the kernel of its last task
            _idle.waiting.append(self)


class _Idle(local):
    """The waiting greenlets of a thread, as many as the most tasks that existed at once.

    A greenlet inherits the call depth of the greenlet that starts it. So one greenlet starts all others, and the
    recursion limit is the same for all tasks of the thread.
    """

    def __init__(self) -> None:
        self.waiting: list[TaskGreenlet] = []
        self.starter = greenlet(_start_greenlets)


def _start_greenlets(_: None) -> None:
    starter = getcurrent()
    while True:
        started = TaskGreenlet(parent=starter)
        started.switch()
        assert starter.parent is not None, "only the main greenlet has no parent"
        starter.parent.switch(started)


_idle = _Idle()


def take_greenlet(work: Callable[[], None], parent: greenlet) -> TaskGreenlet:
    """Return a greenlet that calls work at the next switch to it, and then switches to its parent."""
    if _idle.waiting:
        taken = _idle.waiting.pop()
        taken.gr_context = None  # the next task must not see the context variables of the last one
    else:
        _idle.starter.parent = getcurrent()
        taken = _idle.starter.switch(None)
    taken.parent = parent
    taken.work = work
    return taken
