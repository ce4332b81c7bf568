import builtins
import io
import os
import random
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tornlog.sim.choices import Choices
from tornlog.sim.errors import LeakError, TaskFailedError
from tornlog.sim.guard import _DOORS, guard
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk

LEAKS: dict[str, Callable[[], object]] = {
    "time.time": lambda: time.time(),
    "time.time_ns": lambda: time.time_ns(),
    "time.monotonic": lambda: time.monotonic(),
    "time.monotonic_ns": lambda: time.monotonic_ns(),
    "time.perf_counter": lambda: time.perf_counter(),
    "time.perf_counter_ns": lambda: time.perf_counter_ns(),
    "time.sleep": lambda: time.sleep(0),
    "random.random": lambda: random.random(),
    "random.randint": lambda: random.randint(1, 2),
    "random.choice": lambda: random.choice("ab"),
    "random.shuffle": lambda: random.shuffle([1]),
    "random.getrandbits": lambda: random.getrandbits(3),
    "random.SystemRandom.random": lambda: random.SystemRandom().random(),
    "os.urandom": lambda: os.urandom(1),
    "os.open": lambda: os.open(os.devnull, os.O_RDONLY),
    "uuid.uuid1": lambda: uuid.uuid1(),
    "uuid.uuid4": lambda: uuid.uuid4(),
    "threading.Thread.start": lambda: threading.Thread(target=int).start(),
    "socket.socket": lambda: socket.socket(),
    "open": lambda: open(os.devnull).close(),
}


def run_in_a_task(body: Callable[[], object]) -> object:
    kernel = Kernel(RandomWalk(Choices("1").stream("policy"), 4))
    return kernel.run(kernel.machine("m"), body, time_limit_ns=0)


@pytest.mark.parametrize("function", LEAKS)
def test_a_leak_inside_a_task_names_the_function_and_the_line(function: str) -> None:
    with guard() as leaks, pytest.raises(TaskFailedError) as caught:
        run_in_a_task(LEAKS[function])

    leak = caught.value.__cause__
    assert isinstance(leak, LeakError)
    assert leak.function == function
    assert Path(leak.file).name == "test_guard.py"
    assert leak.line == LEAKS[function].__code__.co_firstlineno
    assert leaks == [leak]


def test_paths_open_through_the_same_door() -> None:
    with guard() as leaks, pytest.raises(TaskFailedError):
        run_in_a_task(lambda: Path(os.devnull).read_bytes())

    assert leaks[0].function == "open"


def test_outside_of_tasks_everything_passes(tmp_path: Path) -> None:
    with guard() as leaks:
        before = time.time()
        assert time.monotonic_ns() > 0
        assert 0 <= random.random() < 1
        assert len(os.urandom(3)) == 3
        assert uuid.uuid4() != uuid.uuid4()
        with open(tmp_path / "file", "w") as file:
            file.write("x")
        assert (tmp_path / "file").read_text() == "x"
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        socket.socket().close()
        assert time.time() >= before
    assert leaks == []


def test_inside_a_task_but_without_a_guard_everything_passes() -> None:
    assert run_in_a_task(lambda: time.time() > 0) is True


def test_a_leak_that_was_swallowed_is_still_on_the_list() -> None:
    def swallow() -> str:
        try:
            time.time()
        except Exception:
            return "went on"
        return "not caught"

    with guard() as leaks:
        assert run_in_a_task(swallow) == "went on"
        assert [leak.function for leak in leaks] == ["time.time"]


def test_the_guard_puts_everything_back_even_nested_or_after_an_error() -> None:
    before = [vars(owner)[name] for owner, name, _ in _DOORS]
    with guard():
        with guard():
            assert time.time is not before[_DOORS.index((time, "time", "time.time"))]
        inner_gone = time.time
        with pytest.raises(TaskFailedError):
            run_in_a_task(time.time)
        assert time.time is inner_gone
    assert [vars(owner)[name] for owner, name, _ in _DOORS] == before
    with pytest.raises(KeyError), guard():
        raise KeyError
    assert [vars(owner)[name] for owner, name, _ in _DOORS] == before
    assert builtins.open is io.open


def test_a_task_may_import_and_format_tracebacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported_inside_a_task.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def body() -> tuple[int, str]:
        import linecache

        import imported_inside_a_task

        linecache.clearcache()
        return imported_inside_a_task.value, linecache.getline(str(tmp_path / "imported_inside_a_task.py"), 1)

    with guard():
        assert run_in_a_task(body) == (7, "value = 7\n")
