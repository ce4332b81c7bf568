"""Process limits: CPU time and garbage collection during runs.

A loop without world calls takes no steps and no virtual time, so the kernel's limits do not end it. A CPU timer raises
an error in the running task instead, and the kernel switches off all machines.
"""

import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

CPU_SECONDS_MAX = 40.0
"""About 4 times the CPU time of a run with as many steps as the kernel allows, so a slow machine changes no result."""
_SWALLOWED_SECONDS = 0.001  # pause before a retry, if Python would ignore an exception now
_OF_WEAKREF = ("weakref", "_weakrefset")
"""Modules with callbacks in which Python ignores exceptions."""


class CpuLimitReached(BaseException):  # not an Exception, which a service would treat as a disk error
    """The CPU time limit is reached."""


@contextmanager
def collect_garbage_at_end() -> Iterator[None]:
    """Collect garbage once, at the end of a block with one run. Collections during a run find few cycles.

    A nested block also collects at its own end. Objects that the caller still references become garbage after the
    block. The next block collects them at its start, because the code between blocks creates too few objects to start
    the collector.
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
        # This is fast after each run, because the block's objects are in the youngest generation and in the CPU cache.
        gc.collect(0)


@contextmanager
def cpu_limit(seconds: float | None) -> Iterator[Callable[[], object]]:
    """Raise CpuLimitReached in a block after each `seconds` of CPU time (None: no limit).

    Main thread only, because other threads get no signals. Blocks do not nest. Yields a function that restarts the
    period, so that each step of a program has its own limit.
    """
    if seconds is None:
        yield lambda: None
        return
    before = signal.signal(signal.SIGVTALRM, _raise_or_retry)
    begin = partial(signal.setitimer, signal.ITIMER_VIRTUAL, seconds, seconds)
    begin()
    try:
        yield begin
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _raise_or_retry(number: int, frame: FrameType | None) -> None:
    """Raise CpuLimitReached. Inside a callback, where Python ignores exceptions, retry a little later."""
    swallowing = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        is_of_weakref = frame.f_globals.get("__name__") in _OF_WEAKREF
        if frame.f_code in swallowing or frame.f_code.co_name == "__del__" or is_of_weakref:
            _, interval_seconds = signal.getitimer(signal.ITIMER_VIRTUAL)
            signal.setitimer(signal.ITIMER_VIRTUAL, _SWALLOWED_SECONDS, interval_seconds)
            return
        frame = frame.f_back
    raise CpuLimitReached("the CPU time is used up")
