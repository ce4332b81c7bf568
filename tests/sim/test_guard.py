import _thread
import ctypes
import datetime
import importlib
import io
import linecache
import mmap
import multiprocessing
import os
import queue
import random
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import uuid
from collections.abc import Callable
from os import listdir, scandir
from pathlib import Path

import pytest

from tornlog.sim import guard as guard_module
from tornlog.sim.choices import Choices
from tornlog.sim.errors import LeakError, TaskFailedError
from tornlog.sim.guard import BannedCall, find_banned_calls, leak_guard
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk

# Each on one line, because the leak names the line.
LEAKS: list[tuple[str, Callable[[], object]]] = [
    ("time.time", lambda: time.time()),
    ("time.process_time", lambda: time.process_time()),
    ("time.sleep", lambda: time.sleep(0)),
    ("time.gmtime", lambda: time.gmtime()),
    ("time.gmtime", lambda: time.gmtime(None)),
    ("time.strftime", lambda: time.strftime("%Y")),
    ("time.localtime", lambda: time.localtime(0)),
    ("datetime.datetime.now", lambda: datetime.datetime.now()),
    ("datetime.datetime.now", lambda: datetime.datetime.now(datetime.UTC)),
    ("datetime.datetime.today", lambda: datetime.datetime.today()),
    ("datetime.date.today", lambda: datetime.date.today()),
    ("random.random", lambda: random.random()),
    ("random.shuffle", lambda: random.shuffle([1])),
    ("random.Random without a seed", lambda: random.Random()),
    ("random.Random without a seed", lambda: random.Random(None)),
    ("random.Random without a seed", lambda: random.Random(1).seed()),
    ("random.SystemRandom.random", lambda: random.SystemRandom().random()),
    ("random.SystemRandom.getrandbits", lambda: secrets.choice("ab")),
    ("random.SystemRandom.randbytes", lambda: secrets.token_bytes(3)),
    ("os.urandom", lambda: os.urandom(1)),
    ("uuid.uuid1", lambda: uuid.uuid1()),
    ("uuid.uuid4", lambda: uuid.uuid4()),
    ("uuid.getnode", lambda: uuid.getnode()),
    ("open", lambda: open(os.devnull)),  # noqa: SIM115
    ("open", lambda: io.open(os.devnull)),  # noqa: SIM115, UP020
    ("open", lambda: Path(os.devnull).read_bytes()),
    ("os.open", lambda: os.open(os.devnull, os.O_RDONLY)),
    ("os.stat", lambda: os.path.exists(os.devnull)),
    ("os.stat", lambda: Path(os.devnull).exists()),
    ("os.listdir", lambda: os.listdir("/")),
    ("os.listdir", lambda: listdir("/")),
    ("os.walk", lambda: list(os.walk("/"))),
    ("os.scandir", lambda: scandir("/")),
    ("os.stat", lambda: os.makedirs("/nowhere/at/all", exist_ok=True)),
    ("os.getpid", lambda: os.getpid()),
    ("os.getcwd", lambda: os.path.abspath("x")),
    ("os.environ", lambda: os.environ["PATH"]),
    ("os.environ", lambda: os.getenv("PATH")),
    ("os.fork", lambda: os.fork()),
    ("os.system", lambda: os.system("true")),
    ("mmap.__new__", lambda: mmap.mmap(-1, 10)),
    ("ctypes.dlopen", lambda: ctypes.CDLL(None)),
    ("shutil.rmtree", lambda: shutil.rmtree("/nowhere/at/all")),
    ("open", lambda: tempfile.TemporaryFile("wb", 0, dir="/nowhere/at/all")),  # noqa: SIM115
    ("subprocess.Popen", lambda: subprocess.run(["true"], check=True)),
    ("threading.Thread.start", lambda: threading.Thread(target=int).start()),
    ("_thread.start_new_thread", lambda: _thread.start_new_thread(int, ())),
    ("threading.Condition.wait", lambda: threading.Event().wait(0)),
    ("threading.Condition.wait", lambda: queue.Queue[int]().get(timeout=1)),
    ("socket.socket", lambda: socket.socket()),
    ("socket.getaddrinfo", lambda: socket.getaddrinfo("localhost", 1)),
    ("select.select", lambda: select.select([], [], [], 0)),
    ("select.epoll", lambda: select.epoll()),
    ("signal.alarm", lambda: signal.alarm(1)),
    ("builtins.input", lambda: input()),
]


def label_of(value: object) -> str | None:
    return f"{value}" if isinstance(value, str) else None


def run_in_a_task(body: Callable[[], object]) -> object:
    kernel = Kernel(RandomWalk(Choices("1").stream("policy"), 4))
    return kernel.run(kernel.create_machine("m"), body, time_limit_ns=0)


def leak_of(body: Callable[[], object]) -> LeakError:
    """Run a body that leaks; return the leak, which must be the one in the list."""
    with leak_guard() as leaks, pytest.raises(TaskFailedError) as caught:
        run_in_a_task(body)
    leak = caught.value.__cause__
    assert isinstance(leak, LeakError), leak
    assert leaks[0] is leak
    return leak


@pytest.mark.parametrize(("function", "leak_in"), LEAKS, ids=label_of)
def test_a_leak_inside_a_task_names_the_banned_function_and_the_line_of_the_program(
    function: str, leak_in: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # or the leak of its own generator would be found first
    monkeypatch.setattr(tempfile, "_name_sequence", iter("abc"))
    leak = leak_of(leak_in)
    assert leak.function == function
    assert leak.file == __file__
    assert leak.line == leak_in.__code__.co_firstlineno


@pytest.mark.parametrize(
    "call", list(find_banned_calls()), ids=lambda call: f"{getattr(call.owner, '__name__', '')}.{call.name}"
)
def test_every_banned_call_is_reported_with_its_line(call: BannedCall) -> None:
    """The call raises before its arguments are used, so no arguments are passed."""

    def go_through() -> object:
        return vars(call.owner)[call.name]()

    leak = leak_of(go_through)
    assert (leak.function, leak.file) == (call.shown, __file__)
    assert leak.line == go_through.__code__.co_firstlineno + 1
    assert str(leak) == f"{__file__}:{leak.line}: simulated code called {call.shown}"


def test_a_banned_call_inside_a_library_is_reported_with_the_line_of_the_program() -> None:
    def start_a_process() -> None:
        multiprocessing.get_context("fork").Process(target=int).start()

    leak = leak_of(start_a_process)
    assert (leak.file, leak.line) == (__file__, start_a_process.__code__.co_firstlineno + 1)


def test_deterministic_calls_of_guarded_modules_are_allowed() -> None:
    def body() -> tuple[object, ...]:
        moment = datetime.datetime(2026, 1, 2) + datetime.timedelta(days=1)
        return (
            random.Random(7).random() == random.Random(7).random(),
            time.gmtime(0).tm_year,
            time.strftime("%Y", (2000, *(1,) * 8)),
            moment.isoformat(),
            type(moment) is type(datetime.datetime.min),
            isinstance(moment, datetime.datetime) and issubclass(datetime.datetime, datetime.date),
            os.fspath("x"),
        )

    with leak_guard() as leaks:
        told = (True, 1970, "2000", "2026-01-03T00:00:00", True, True, "x")
        assert run_in_a_task(body) == told
    assert leaks == []


def test_banned_calls_outside_of_tasks_are_allowed(tmp_path: Path) -> None:
    with leak_guard() as leaks:
        before = time.time()
        assert time.monotonic_ns() > 0
        assert 0 <= random.random() < 1
        assert random.Random().random() != random.Random().random()
        assert len(os.urandom(3)) == 3
        assert uuid.uuid4() != uuid.uuid4()
        with open(tmp_path / "file", "w") as file:
            file.write("x")
        assert (tmp_path / "file").read_text() == "x"
        assert os.environ["PATH"]
        assert subprocess.run(["true"], check=False).returncode == 0
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        socket.socket().close()
        assert isinstance(datetime.datetime.now(), datetime.datetime)
        assert time.time() >= before
    assert leaks == []


def test_banned_calls_inside_a_task_without_a_guard_are_allowed(tmp_path: Path) -> None:
    with leak_guard():
        kept = time.time, random.Random, datetime.datetime
    (tmp_path / "file").touch()

    def body() -> bool:
        assert kept[0]() > 0
        assert kept[1]().random() < 1
        assert kept[2].now() <= datetime.datetime.now()
        return (tmp_path / "file").exists()

    assert run_in_a_task(body) is True


def test_a_banned_call_whose_error_was_caught_is_in_the_list_of_leaks() -> None:
    def swallow() -> str:
        try:
            time.time()
        except Exception:
            return "went on"
        return "not caught"

    with leak_guard() as leaks:
        assert run_in_a_task(swallow) == "went on"
        assert [leak.function for leak in leaks] == ["time.time"]


def test_each_guard_lists_the_leaks_of_its_own_block() -> None:
    def leak() -> None:
        time.time()

    with leak_guard() as outer:
        with leak_guard() as first, pytest.raises(TaskFailedError):
            run_in_a_task(leak)
        with leak_guard() as second:
            run_in_a_task(int)
        assert (len(outer), first, second) == (1, outer, [])


def test_the_guard_restores_every_function_even_nested_or_after_an_error() -> None:
    def standing() -> list[object]:
        return [vars(call.owner)[call.name] for call in before] + [datetime.datetime, datetime.date]

    before = list(find_banned_calls())
    originals = standing()
    with leak_guard():
        closed = standing()
        assert not any(one is other for one, other in zip(closed, originals, strict=True))
        with leak_guard():
            assert standing() == closed
        with pytest.raises(TaskFailedError):
            run_in_a_task(time.time)
        assert standing() == closed
    assert standing() == originals
    with pytest.raises(KeyError), leak_guard():
        raise KeyError
    assert standing() == originals


def test_a_guard_that_fails_to_install_restores_every_function(monkeypatch: pytest.MonkeyPatch) -> None:
    original = time.time
    monkeypatch.setattr(guard_module, "_OF_UUID", ("NAMESPACE_DNS",))
    with monkeypatch.context() as patched:
        patched.delattr(subprocess.Popen, "__init__")
        with pytest.raises(KeyError), leak_guard():
            raise AssertionError("not reached")
    assert time.time is original
    with leak_guard() as leaks:
        assert leaks == []


def test_a_task_may_import_and_format_tracebacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported_inside_a_task.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def body() -> tuple[int, str]:
        found = importlib.import_module("imported_inside_a_task").value
        linecache.clearcache()
        return found, linecache.getline(str(tmp_path / "imported_inside_a_task.py"), 1)

    with leak_guard() as leaks:
        assert run_in_a_task(body) == (7, "value = 7\n")
    assert leaks == []


def test_a_leak_names_a_line_of_the_standard_library_only_if_there_is_no_other(tmp_path: Path) -> None:
    code = "import time\ndef look(): return time.time()\n"
    for file in (f"{os.path.dirname(os.__file__)}/site-packages/clock.py", "/elsewhere/clock.py"):
        names: dict[str, Callable[[], float]] = {}
        exec(compile(code, file, "exec"), names)
        leak = leak_of(names["look"])
        assert (leak.file, leak.line) == (file, 2)


class RandomState:
    """The attributes of NumPy's RandomState that the guard reads."""

    def uniform(self) -> float:
        return 0.5


def test_numpys_global_generator_is_banned_if_numpy_was_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("numpy.random")
    module.uniform = RandomState().uniform  # type: ignore[attr-defined]
    module.default_rng = lambda seed=None: seed  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "numpy.random", module)
    assert leak_of(lambda: module.uniform()).function == "numpy.random.uniform"
    assert leak_of(lambda: module.default_rng()).function == "numpy.random.default_rng without a seed"
    with leak_guard():
        assert run_in_a_task(lambda: (module.default_rng(7), module.default_rng(seed=8))) == (7, 8)
