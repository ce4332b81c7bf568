"""Process limits: CPU time and garbage collection during runs.

A loop without a world call takes no steps and no virtual time, so the limits of the kernel do not end it. A timer of
CPU time raises an error in the running task instead; the kernel then switches off all machines.
"""

import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

CPU_SECONDS_MAX = 10.0  # about a thousand times the CPU time of a normal run, so a slow machine changes no outcome
_SWALLOWED_SECONDS = 0.001  # until the next try, if a finalizer or a callback would swallow the first
_OF_WEAKREF = ("weakref", "_weakrefset")
"""Modules of weak reference callbacks, which end soon."""


class NoEndInSight(BaseException):  # no Exception: a service would treat it as a disk error and go on
    """The CPU time of a block is used up."""


@contextmanager
def garbage_kept() -> Iterator[None]:
    """Collect garbage once, at the end of a block that holds one run. Collections during a run find few cycles.

    Blocks nest; the end of an inner block collects inside the outer one. Objects that the caller of a block still holds
    become garbage only after the block. The next block collects them at its start, because too few objects are made
    between two blocks to start the collector.
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
        # The objects of the block are in the youngest generation. Collecting after each run is fast: they are in the
        # cache.
        gc.collect(0)


@contextmanager
def cpu_limit(seconds: float | None) -> Iterator[Callable[[], object]]:
    """Raise NoEndInSight inside a block after so much CPU time, and again after each further period.

    None: no limit. Main thread only, because only it gets signals; blocks do not nest. Yields a function that restarts
    the period, for a block of many steps with a limit for each.
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
    """Raise NoEndInSight; retry a little later where Python would print the exception and go on."""
    swallowing = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        is_of_weakref = frame.f_globals.get("__name__") in _OF_WEAKREF
        if frame.f_code in swallowing or frame.f_code.co_name == "__del__" or is_of_weakref:
            _, interval_seconds = signal.getitimer(signal.ITIMER_VIRTUAL)
            signal.setitimer(signal.ITIMER_VIRTUAL, _SWALLOWED_SECONDS, interval_seconds)
            return
        frame = frame.f_back
    raise NoEndInSight("the CPU time is used up")
