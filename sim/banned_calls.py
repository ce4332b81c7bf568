"""Banned calls: every function through which simulated code could reach past the world, by its name.

Clocks, chance nobody seeded, threads, waiting, processes, the file system, signals, the environment. Where a module is
nothing but banned calls, the rule is "all of it, but for", so that functions which a later Python adds are closed, too.
"""

import _thread
import datetime
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, ModuleType
from typing import Any, NamedTuple

AUDITED = (
    *(
        "_thread",
        "ctypes",
        "fcntl",
        "mmap",
        "open",
        "os",
        "pty",
        "shutil",
        "socket",
        "sqlite3",
        "subprocess",
        "syslog",
    ),
    *("tempfile", "time"),
)
"""First words of the audit events that tell of a way out, whatever name the function was called by."""


class BannedCall(NamedTuple):
    """One attribute to replace."""

    owner: Any
    name: str
    shown: str
    """What a reader knows it by."""
    unless_given: int | None = None
    """Position of the argument with which the call asks nothing of the outside, such as a seed."""


_PURE_OF_OS = (
    *(
        "WCOREDUMP",
        "WEXITSTATUS",
        "WIFCONTINUED",
        "WIFEXITED",
        "WIFSIGNALED",
        "WIFSTOPPED",
        "WSTOPSIG",
        "WTERMSIG",
    ),
    *(
        "_exit",
        "abort",
        "fspath",
        "major",
        "makedev",
        "minor",
        "register_at_fork",
        "strerror",
        "waitstatus_to_exitcode",
    ),
)
_PURE_OF_TIME = ("get_clock_info", "strptime")
_TELLS_NOW_UNLESS_GIVEN = {"gmtime": 0, "asctime": 0, "strftime": 1}
_OF_SIGNAL = ("alarm", "getitimer", "pause", "raise_signal", "setitimer", "signal", "sigtimedwait", "sigwait")
_OF_UUID = ("getnode", "uuid1", "uuid4", "uuid6", "uuid7")
_OF_THREAD = ("start_new_thread", "start_new", "start_joinable_thread")


def find_banned_calls() -> Iterator[BannedCall]:
    """Yield every banned call there is now: those of NumPy's hidden generator only once it has been imported."""
    for name in _functions(time, _PURE_OF_TIME):
        yield BannedCall(time, name, f"time.{name}", _TELLS_NOW_UNLESS_GIVEN.get(name))
    for name in _functions(os, _PURE_OF_OS):
        yield BannedCall(os, name, f"os.{name}")
    yield BannedCall(type(os.environ), "__getitem__", "os.environ")
    for name in (*_functions(select, ()), "epoll"):
        yield BannedCall(select, name, f"select.{name}")
    for module, names in ((signal, _OF_SIGNAL), (uuid, _OF_UUID), (_thread, _OF_THREAD)):
        for name in names:
            if hasattr(module, name):
                yield BannedCall(module, name, f"{module.__name__}.{name}")
    yield from _calls_of_random()
    for name in ("start", "join"):
        yield BannedCall(threading.Thread, name, f"threading.Thread.{name}")
    yield BannedCall(threading.Condition, "wait", "threading.Condition.wait")
    yield BannedCall(subprocess.Popen, "__init__", "subprocess.Popen")
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        yield from _calls_of_numpy(numpy_random)


def _functions(module: ModuleType, pure: tuple[str, ...]) -> list[str]:
    """Return the names of a module's functions in C; those in Python lead to these."""
    found = vars(module).items()
    return [name for name, value in found if isinstance(value, BuiltinFunctionType) and name not in pure]


def _calls_of_random() -> Iterator[BannedCall]:
    # The module's functions are methods of one hidden generator, whatever Python adds to them.
    for name, value in list(vars(random).items()):
        if isinstance(getattr(value, "__self__", None), random.Random):
            yield BannedCall(random, name, f"random.{name}")
    yield BannedCall(random.Random, "seed", "random.Random without a seed", unless_given=1)
    for name in ("random", "getrandbits", "randbytes"):
        yield BannedCall(random.SystemRandom, name, f"random.SystemRandom.{name}")


def _calls_of_numpy(module: ModuleType) -> Iterator[BannedCall]:
    for name, value in list(vars(module).items()):
        if type(getattr(value, "__self__", None)).__name__ == "RandomState":
            yield BannedCall(module, name, f"numpy.random.{name}")
    yield BannedCall(module, "default_rng", "numpy.random.default_rng without a seed", unless_given=0)


Wrap = Callable[[Callable[..., Any], str], Callable[..., Any]]
"""Returns a function that looks who is calling before it calls; takes the function, and what it is shown as."""


def calendars(wrap: Wrap) -> Iterator[tuple[Any, str, Any]]:
    """Yield (owner, name, stand-in) of the classes in C that tell the date: their methods cannot be replaced.

    A stand-in makes objects of the class it stands for, and takes them for its own.
    """
    for real, names in ((datetime.datetime, ("now", "utcnow", "today")), (datetime.date, ("today",))):
        yield datetime, real.__name__, _stand_in(real, names, wrap)


def _stand_in(real: Any, names: tuple[str, ...], wrap: Wrap) -> Any:
    class _Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, real)

    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        return real(*args, **kwargs)

    guarded = {
        name: staticmethod(wrap(getattr(real, name), f"datetime.{real.__name__}.{name}")) for name in names
    }
    return _Kind(real.__name__, (real,), {"__new__": make, "__doc__": real.__doc__, **guarded})
