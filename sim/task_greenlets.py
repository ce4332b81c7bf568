"""Task greenlets: run the tasks of kernels, one task after another.

CPython maps memory for a new greenlet and unmaps it at the end, which takes longer than a short task. So a greenlet
whose task has ended waits for the next task, also of another kernel.
"""

from _thread import _local as local  # only the data of a thread; simulated code has no threads

from greenlet import getcurrent, greenlet


class TaskGreenlet(greenlet):
    """A greenlet that runs one task at a time."""

    __slots__ = ()


class _Idle(local):
    """The waiting greenlets of a thread, as many as the most tasks that existed at once.

    A greenlet inherits the call depth of the greenlet that starts it. So one greenlet starts all others, and the
    recursion limit is the same for all tasks of the thread.
    """

    def __init__(self) -> None:
        self.waiting: list[greenlet] = []
        self.starter = greenlet(_start_greenlets)


# The suspended frames of these two functions must not refer to their own greenlets. The garbage collector does not look
# into suspended greenlets, so the greenlets of an ended thread would stay.
def _run_tasks() -> None:
    while True:
        work = _parent().switch(None)
        work()
        del work  # a waiting greenlet must not keep the kernel of its last task
        _idle.waiting.append(getcurrent())


def _start_greenlets(_: None) -> None:
    while True:
        started = TaskGreenlet(_run_tasks)
        started.switch()
        _parent().switch(started)


def _parent() -> greenlet:
    parent = getcurrent().parent
    assert parent is not None, "only the main greenlet has no parent"
    return parent


_idle = _Idle()


def take_greenlet(parent: greenlet) -> greenlet:
    """Return a greenlet that waits for a function. It calls the function of its next switch, then switches to parent.

    An exception ends the greenlet, and is raised in the parent.
    """
    if _idle.waiting:
        taken = _idle.waiting.pop()
        taken.gr_context = None  # the next task must not see the context variables of the last one
    else:
        _idle.starter.parent = getcurrent()
        taken = _idle.starter.switch(None)
    taken.parent = parent
    return taken
