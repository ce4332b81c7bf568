"""Tasks run on greenlets that are used again."""

import gc
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from threading import Thread
from typing import TypeVar

import pytest
from greenlet import getcurrent

from tests.sim.rigs import make

T = TypeVar("T")
SECOND_NS = 1_000_000_000
VALUE: ContextVar[str] = ContextVar("value", default="unset")


def run_new(body: Callable[[], T]) -> T:
    kernel, machine = make()
    return kernel.run(machine, body, time_limit_ns=SECOND_NS)


def test_a_later_kernel_uses_the_greenlet_of_an_ended_task_again() -> None:
    assert run_new(getcurrent) is run_new(getcurrent)


def test_a_killed_task_gives_its_greenlet_back_after_its_cleanup() -> None:
    kernel, machine = make()
    found = []

    def sleeper() -> None:
        try:
            machine.tasks.sleep(1_000)
        finally:
            found.append(getcurrent())

    def main() -> None:
        machine.tasks.spawn("sleeper", sleeper)
        machine.tasks.sleep(1)

    kernel.run(machine, main, time_limit_ns=SECOND_NS)
    assert run_new(getcurrent) is found[0]


def test_a_task_does_not_see_the_context_variables_of_an_earlier_task() -> None:
    run_new(lambda: VALUE.set("of the first task"))
    assert run_new(VALUE.get) == "unset"


def test_an_interrupted_task_does_not_give_its_greenlet_back() -> None:
    found = []

    def interrupted() -> None:
        found.append(getcurrent())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_new(interrupted)
    assert found[0].dead
    assert run_new(getcurrent) is not found[0]


def test_a_waiting_greenlet_does_not_keep_its_last_task() -> None:
    class Marker:
        """An object that only the task's function references."""

    marker = Marker()
    gone = weakref.ref(marker)
    run_new(lambda kept=marker: None)
    del marker
    gc.collect()
    assert gone() is None


def test_the_greenlets_of_an_ended_thread_are_freed() -> None:
    gone: list[weakref.ref[object]] = []
    thread = Thread(target=lambda: gone.append(weakref.ref(run_new(getcurrent))))
    thread.start()
    thread.join()
    run_new(getcurrent)  # greenlets of other threads are freed at the next switch
    gc.collect()
    assert gone[0]() is None
