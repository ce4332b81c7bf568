"""The guard: while it stands, a task that reaches past the world gets an error naming the line that did.

It replaces the doors to the outside (clocks, unseeded random, entropy, threads, sockets, opening files) by
ones that look who is calling: inside a simulated task they raise LeakError, elsewhere they pass. Not seen: a
function imported by name before the guard stood (`from time import time`), and types in C such as
`datetime.datetime`; the ban on importing them covers those.
"""

import builtins
import io
import os
import random
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from greenlet import getcurrent

from .errors import LeakError
from .task import SimTask

_TIME_FUNCTIONS = ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep", "time", "time_ns")

# The module-level functions of `random` are methods of one hidden generator, whatever Python adds to them.
_RANDOM_FUNCTIONS = [
    name
    for name, value in vars(random).items()
    if isinstance(getattr(value, "__self__", None), random.Random)
]

_DOORS: list[tuple[Any, str, str]] = [
    *((time, name, f"time.{name}") for name in _TIME_FUNCTIONS),
    *((random, name, f"random.{name}") for name in _RANDOM_FUNCTIONS),
    (random.SystemRandom, "random", "random.SystemRandom.random"),
    (random.SystemRandom, "getrandbits", "random.SystemRandom.getrandbits"),
    (random.SystemRandom, "randbytes", "random.SystemRandom.randbytes"),
    (os, "urandom", "os.urandom"),
    (os, "open", "os.open"),
    (io, "open", "open"),
    (builtins, "open", "open"),
    (uuid, "uuid1", "uuid.uuid1"),
    (uuid, "uuid4", "uuid.uuid4"),
    (threading.Thread, "start", "threading.Thread.start"),
    (socket.socket, "__init__", "socket.socket"),
]

_EXEMPT_CALLERS = ("importlib", "linecache", "tokenize", "coverage")  # Python reading its own source

_installed: list[tuple[Any, str, Any]] = []  # (owner, name, original) while the outermost guard stands
_leaks: list[LeakError] = []


@contextmanager
def guard() -> Iterator[list[LeakError]]:
    """Guard the block; yields the list of leaks found so far, for simulated code may swallow the error.

    Guards nest: the outermost installs and uninstalls, and all share one list.
    """
    if _installed:
        yield _leaks
        return
    _leaks.clear()
    try:
        for owner, name, shown in _DOORS:
            original = vars(owner)[name]
            setattr(owner, name, _guarded(original, shown))
            _installed.append((owner, name, original))
        yield _leaks
    finally:
        while _installed:
            owner, name, original = _installed.pop()
            setattr(owner, name, original)


def _guarded(original: Callable[..., Any], shown: str) -> Callable[..., Any]:
    def door(*args: Any, **kwargs: Any) -> Any:
        if isinstance(getcurrent(), SimTask):
            caller = sys._getframe(1)
            if not str(caller.f_globals.get("__name__")).startswith(_EXEMPT_CALLERS):
                leak = LeakError(shown, caller.f_code.co_filename, caller.f_lineno)
                _leaks.append(leak)
                raise leak
        return original(*args, **kwargs)

    return door
