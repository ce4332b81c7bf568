"""Process limits: CPU time and garbage collection during runs.

The kernel's limits do not end a loop without world calls, which takes no steps and no virtual time. A CPU timer raises
an error in the running task instead; the kernel then switches off all machines.
"""

import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

CPU_SECONDS_MAX = 10.0  # about 1000 times a normal run, so a slow machine changes no outcome
_SWALLOWED_SECONDS = 0.001  # until the next try, if Python would ignore an exception now
_OF_WEAKREF = ("weakref", "_weakrefset")
"""Modules with callbacks in which Python ignores exceptions."""


class CpuLimitReached(BaseException):  # no Exception: a service would treat it as a disk error and continue
    """The CPU time limit is reached."""


@contextmanager
def collect_garbage_at_end() -> Iterator[None]:
    """Collect garbage once, at the end of a block that contains one run. Collections during a run find few cycles.

    A nested block collects garbage at its own end too. Objects that the caller still references become garbage only
    after the block; the next block collects them at its start, because the code between two blocks makes too few
    objects to start the collector.
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
        # Fast after each run: the objects of the block are in the youngest generation and in the CPU cache.
        gc.collect(0)


@contextmanager
def cpu_limit(seconds: float | None) -> Iterator[Callable[[], object]]:
    """Raise CpuLimitReached in a block after each period of so many seconds of CPU time; None: no limit.

    Main thread only, because other threads get no signals; blocks do not nest. Yields a function that restarts the time
    limit, so that each step of a program has its own limit.
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
    """Raise CpuLimitReached. Python ignores an exception raised inside a callback, so retry a little later."""
    swallowing = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        is_of_weakref = frame.f_globals.get("__name__") in _OF_WEAKREF
        if frame.f_code in swallowing or frame.f_code.co_name == "__del__" or is_of_weakref:
            _, interval_seconds = signal.getitimer(signal.ITIMER_VIRTUAL)
            signal.setitimer(signal.ITIMER_VIRTUAL, _SWALLOWED_SECONDS, interval_seconds)
            return
        frame = frame.f_back
    raise CpuLimitReached("the CPU time is used up")
