"""Guard: turns a banned call in a simulated task into an error.

The guard bans clocks, unseeded randomness, threads, blocking waits, processes, the file system, signals and the
environment. A wrapper replaces each banned function. It raises LeakError inside a simulated task, and calls the
original elsewhere. In `time`, `os` and `select` all C functions except the listed pure ones are banned, also functions
that a later Python adds. Audit events of the interpreter cover files, sockets, processes and foreign libraries, even
after an import by name or for calls from C. LeakError names the innermost line outside the standard library.

The guard does not detect the following, which the ban on imports and the determinism check cover: clocks, randomness
and `os.stat` imported by name before the guard started (`from time import time`); `datetime` imported by name at any
time; generators in C other than NumPy's; waits for a bare `threading.Lock` or on an older selector; copies of
`os.environ`, `sys.argv` and other facts about the process; orders that depend on addresses or hashes: `id`, `hash` of a
text, iteration over sets.
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
from contextlib import contextmanager
from functools import lru_cache, wraps
from types import BuiltinFunctionType, FrameType, ModuleType
from typing import Any, NamedTuple

from greenlet import getcurrent

from .errors import LeakError
from .task_greenlets import TaskGreenlet

_AUDITED = (
    *("_thread", "ctypes", "fcntl", "mmap", "open", "os", "pty", "shutil", "socket", "sqlite3", "subprocess"),
    *("syslog", "tempfile", "time"),
)
"""Prefixes of the names of banned audit events.

These names do not depend on how a module imported the function.
"""
_EVENT_NAMES = {"socket.__new__": "socket.socket"}
_PURE_OF_OS = (
    *("WCOREDUMP", "WEXITSTATUS", "WIFCONTINUED", "WIFEXITED", "WIFSIGNALED", "WIFSTOPPED", "WSTOPSIG"),
    *("WTERMSIG", "_exit", "abort", "fspath", "major", "makedev", "minor", "register_at_fork", "strerror"),
    "waitstatus_to_exitcode",
)
_PURE_OF_TIME = ("get_clock_info", "strptime")
_READS_CLOCK_UNLESS_GIVEN = {"gmtime": 0, "asctime": 0, "strftime": 1}
_OF_SIGNAL = ("alarm", "getitimer", "pause", "raise_signal", "setitimer", "signal", "sigtimedwait", "sigwait")
_OF_UUID = ("getnode", "uuid1", "uuid4", "uuid6", "uuid7")
_OF_THREAD = ("start_new_thread", "start_new", "start_joinable_thread")
# These modules may read source files, for imports and tracebacks.
_EXEMPT_CALLERS = ("importlib", "linecache", "tokenize", "coverage", "_pytest")
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_INSTALLED_LIBRARIES = ("site-packages", "dist-packages")  # directories below the standard library, but not part of it
_KEPT_MAX = 1024  # cache size: more than the number of replaced functions
_active_leaks: list[list[LeakError]] = []  # leaks per active guard, outermost guard first
_replaced: list[tuple[Any, str, Any]] = []  # (owner, name, original function)
_hooks: list[Callable[[str, tuple[Any, ...]], None]] = []  # the audit hook, which Python cannot remove


class BannedCall(NamedTuple):
    """A function that the guard replaces."""

    owner: Any
    name: str
    shown: str
    """Name of the function in messages."""
    unless_given: int | None = None
    """Position of an argument, such as a seed, that makes the call deterministic and allowed."""


@contextmanager
def leak_guard() -> Iterator[list[LeakError]]:
    """Guard the block. Yields the list of leaks so far, because simulated code may catch LeakError.

    Guards nest. Only the outermost guard installs and removes the wrappers, so an inner guard is cheap.
    """
    leaks: list[LeakError] = []
    try:
        if not _active_leaks:
            _install_wrappers()
        _active_leaks.append(leaks)
        yield leaks
    finally:
        if _active_leaks:
            _active_leaks.pop()
        if not _active_leaks:
            _remove_wrappers()


def _install_wrappers() -> None:
    if not _hooks:
        sys.addaudithook(_on_audit_event)
        _hooks.append(_on_audit_event)
    for owner, name, shown, unless_given in list(find_banned_calls()):
        _replace_attribute(owner, name, _guarded_wrapper(vars(owner)[name], shown, unless_given))
    for real, names in ((datetime.datetime, ("now", "utcnow", "today")), (datetime.date, ("today",))):
        _replace_attribute(datetime, real.__name__, _replacement_class(real, names))


def _replace_attribute(owner: Any, name: str, by: Any) -> None:
    _replaced.append((owner, name, vars(owner)[name]))
    setattr(owner, name, by)


def _remove_wrappers() -> None:
    while _replaced:
        owner, name, original = _replaced.pop()
        setattr(owner, name, original)


@lru_cache(maxsize=_KEPT_MAX)
def _guarded_wrapper(original: Callable[..., Any], shown: str, unless_given: int | None = None) -> Callable[..., Any]:
    """Return the wrapper of a function. Cached, because a campaign may enter a guard a million times."""

    @wraps(original, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        if isinstance(getcurrent(), TaskGreenlet) and _active_leaks:
            given = unless_given is not None and (*args[unless_given:], *kwargs.values())
            if not given or given[0] is None:
                _raise_leak(shown, sys._getframe(1))
        return original(*args, **kwargs)

    return call


def _on_audit_event(event: str, args: tuple[Any, ...]) -> None:
    if not _active_leaks or not isinstance(getcurrent(), TaskGreenlet):
        return
    if event.partition(".")[0] in _AUDITED or event == "builtins.input":
        _raise_leak(_EVENT_NAMES.get(event, event), sys._getframe(1))


def _raise_leak(function: str, caller: FrameType) -> None:
    """Raise LeakError unless the interpreter reads source code for an import or a traceback."""
    frame: FrameType | None = caller
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_EXEMPT_CALLERS):
            return
        if not _is_standard_library(frame.f_code.co_filename):
            break
        frame = frame.f_back
    blamed = frame or caller
    leak = LeakError(function, blamed.f_code.co_filename, blamed.f_lineno)
    for leaks in _active_leaks:
        leaks.append(leak)
    raise leak


def _is_standard_library(file: str) -> bool:
    if not file.startswith((_STANDARD_LIBRARY, "<frozen ")):
        return False
    return not any(name in file for name in _INSTALLED_LIBRARIES)


def find_banned_calls() -> Iterator[BannedCall]:
    """Yield every banned call, with NumPy's global generator if NumPy is imported."""
    for name in _c_function_names(time, _PURE_OF_TIME):
        yield BannedCall(time, name, f"time.{name}", _READS_CLOCK_UNLESS_GIVEN.get(name))
    for name in _c_function_names(os, _PURE_OF_OS):
        yield BannedCall(os, name, f"os.{name}")
    yield BannedCall(type(os.environ), "__getitem__", "os.environ")
    for name in (*_c_function_names(select, ()), "epoll"):
        yield BannedCall(select, name, f"select.{name}")
    for module, names in ((signal, _OF_SIGNAL), (uuid, _OF_UUID), (_thread, _OF_THREAD)):
        for name in names:
            if hasattr(module, name):
                yield BannedCall(module, name, f"{module.__name__}.{name}")
    yield from _banned_calls_of_random()
    for name in ("start", "join"):
        yield BannedCall(threading.Thread, name, f"threading.Thread.{name}")
    yield BannedCall(threading.Condition, "wait", "threading.Condition.wait")
    yield BannedCall(subprocess.Popen, "__init__", "subprocess.Popen")
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        yield from _banned_calls_of_numpy(numpy_random)


def _c_function_names(module: ModuleType, pure: tuple[str, ...]) -> list[str]:
    """Return the names of the banned C functions in a module."""
    found = vars(module).items()
    return [name for name, value in found if isinstance(value, BuiltinFunctionType) and name not in pure]


def _banned_calls_of_random() -> Iterator[BannedCall]:
    # The functions of `random` are methods of one hidden generator.
    for name, value in list(vars(random).items()):
        if isinstance(getattr(value, "__self__", None), random.Random):
            yield BannedCall(random, name, f"random.{name}")
    yield BannedCall(random.Random, "seed", "random.Random without a seed", unless_given=1)
    for name in ("random", "getrandbits", "randbytes"):
        yield BannedCall(random.SystemRandom, name, f"random.SystemRandom.{name}")


def _banned_calls_of_numpy(module: ModuleType) -> Iterator[BannedCall]:
    for name, value in list(vars(module).items()):
        if type(getattr(value, "__self__", None)).__name__ == "RandomState":
            yield BannedCall(module, name, f"numpy.random.{name}")
    yield BannedCall(module, "default_rng", "numpy.random.default_rng without a seed", unless_given=0)


@lru_cache(maxsize=_KEPT_MAX)
def _replacement_class(real: Any, names: tuple[str, ...]) -> Any:
    """Make a replacement for a date class, because methods written in C cannot be replaced.

    The replacement creates objects of the original class, and `isinstance` accepts these.
    """

    class _ReplacementMeta(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, real)

    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        return real(*args, **kwargs)

    prefix = f"datetime.{real.__name__}"
    guarded = {name: staticmethod(_guarded_wrapper(getattr(real, name), f"{prefix}.{name}")) for name in names}
    return _ReplacementMeta(real.__name__, (real,), {"__new__": make, "__doc__": real.__doc__, **guarded})
