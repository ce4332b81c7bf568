"""Process limits: CPU time and garbage collection during runs.

A loop without a world call takes no steps and no virtual time, so the limits of the kernel do not end it. A CPU timer
raises an error in the running task instead; the kernel then switches off all machines.
"""

import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

CPU_SECONDS_MAX = 10.0  # about a thousand times the CPU time of a normal run, so a slow machine changes no outcome
_SWALLOWED_SECONDS = 0.001  # until the next try, if Python would ignore an exception now
_OF_WEAKREF = ("weakref", "_weakrefset")
"""Modules of weak reference callbacks. Python ignores exceptions in these."""


class NoEndInSight(BaseException):  # no Exception: a service would treat it as a disk error and continue
    """The CPU time limit of a block is reached."""


@contextmanager
def garbage_kept() -> Iterator[None]:
    """Collect garbage once, at the end of a block that makes one run. Collections during a run find few cycles.

    Blocks nest; each inner block collects at its end too. Objects that the caller of a block still references become
    garbage only after the block. The next block collects them at its start, because the code between two blocks makes
    too few objects to start the collector.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    if was_enabled:
        gc.collect(1)
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        # The objects of the block are in the youngest generation. A collection after each run is fast, because the
        # objects are in the CPU cache.
        gc.collect(0)


@contextmanager
def cpu_limit(seconds: float | None) -> Iterator[Callable[[], object]]:
    """Raise NoEndInSight inside a block after so many seconds of CPU time, and again after each further period.

    None: no limit. Main thread only, because other threads get no signals; blocks do not nest. Yields a function that
    restarts the period, for blocks of many steps with a limit per step.
    """
    if seconds is None:
        yield lambda: None
        return
    before = signal.signal(signal.SIGVTALRM, _end)
    begin = partial(signal.setitimer, signal.ITIMER_VIRTUAL, seconds, seconds)
    begin()
    try:
        yield begin
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _end(number: int, frame: FrameType | None) -> None:
    """Raise NoEndInSight. Inside a callback, where Python would ignore the exception, retry a little later."""
    swallowing = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        is_of_weakref = frame.f_globals.get("__name__") in _OF_WEAKREF
        if frame.f_code in swallowing or frame.f_code.co_name == "__del__" or is_of_weakref:
            _, interval_seconds = signal.getitimer(signal.ITIMER_VIRTUAL)
            signal.setitimer(signal.ITIMER_VIRTUAL, _SWALLOWED_SECONDS, interval_seconds)
            return
        frame = frame.f_back
    raise NoEndInSight("the CPU time is used up")
