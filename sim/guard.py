"""The guard: while it stands, a task that reaches past the world gets an error naming the line that did.

It replaces the calls of `sim.banned_calls` by ones that look who is calling: inside a simulated task they raise
LeakError, elsewhere they pass. Beneath them it listens to the interpreter's audit events, which tell of files, sockets,
processes and foreign libraries also where a function was imported by name or is called from C. The line named is the
innermost one that is not the standard library's.

Not seen, and left to the ban on imports and to running everything twice: clocks, chance and `os.stat` imported by name
(`from time import time`) before the guard stood, `datetime` imported by name at any time, generators of libraries in C
other than NumPy's, waiting for a bare `threading.Lock` or on a selector that was made before, copies of `os.environ`,
`sys.argv` and other facts about the process, and orders that come from addresses or hashes: `id`, `hash` of a text,
iteration over sets.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any

from greenlet import getcurrent

from .banned_calls import AUDITED, calendars, find_banned_calls
from .errors import LeakError
from .task import SimTask

_EXEMPT_CALLERS = (
    "importlib",
    "linecache",
    "tokenize",
    "coverage",
    "_pytest",
)  # Python reading its own source
_SHOWN_EVENTS = {"socket.__new__": "socket.socket"}
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_INSTALLED_LIBRARIES = ("site-packages", "dist-packages")  # which are below it, and are not it

_standing: list[list[LeakError]] = []  # what each guard that stands has found, the outermost first
_replaced: list[tuple[Any, str, Any]] = []  # owner, name, original
_hooks: list[Callable[[str, tuple[Any, ...]], None]] = []  # ours, once it was added: it cannot be taken back


@contextmanager
def guard() -> Iterator[list[LeakError]]:
    """Guard the block; yields the list of leaks found in it so far, for simulated code may swallow the error.

    Guards nest, and one inside another costs next to nothing: the outermost installs and uninstalls.
    """
    leaks: list[LeakError] = []
    try:
        if not _standing:
            _close_doors()
        _standing.append(leaks)
        yield leaks
    finally:
        if _standing:
            _standing.pop()
        if not _standing:
            _open_doors()


def _close_doors() -> None:
    if not _hooks:
        sys.addaudithook(_on_event)
        _hooks.append(_on_event)
    for owner, name, shown, unless_given in list(find_banned_calls()):
        _replace(owner, name, _guarded(vars(owner)[name], shown, unless_given))
    for owner, name, stand_in in calendars(_guarded):
        _replace(owner, name, stand_in)


def _replace(owner: Any, name: str, by: Any) -> None:
    _replaced.append((owner, name, vars(owner)[name]))
    setattr(owner, name, by)


def _open_doors() -> None:
    while _replaced:
        owner, name, original = _replaced.pop()
        setattr(owner, name, original)


def _guarded(original: Callable[..., Any], shown: str, unless_given: int | None = None) -> Callable[..., Any]:
    @wraps(original, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        if isinstance(getcurrent(), SimTask) and _standing:
            given = unless_given is not None and (*args[unless_given:], *kwargs.values())
            if not given or given[0] is None:
                _refuse(shown, sys._getframe(1))
        return original(*args, **kwargs)

    return call


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    """Take an audit event; most are none of ours."""
    if not _standing or not isinstance(getcurrent(), SimTask):
        return
    if event.partition(".")[0] in AUDITED or event == "builtins.input":
        _refuse(_SHOWN_EVENTS.get(event, event), sys._getframe(1))


def _refuse(function: str, caller: FrameType) -> None:
    """Raise LeakError, unless it is Python that reads its own source."""
    frame: FrameType | None = caller
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_EXEMPT_CALLERS):
            return
        if not _is_standard_library(frame.f_code.co_filename):
            break
        frame = frame.f_back
    blamed = frame or caller
    leak = LeakError(function, blamed.f_code.co_filename, blamed.f_lineno)
    for leaks in _standing:
        leaks.append(leak)
    raise leak


def _is_standard_library(file: str) -> bool:
    if not file.startswith((_STANDARD_LIBRARY, "<frozen ")):
        return False
    return not any(name in file for name in _INSTALLED_LIBRARIES)
