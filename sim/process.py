"""Process limits: CPU time and garbage collection of the Python process, around simulated runs.

The kernel counts steps and virtual time, and both stand still in a loop without a world call. There a timer of the
process's own CPU time raises in whatever task runs; the kernel then switches all machines off.
"""

import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

CPU_SECONDS_MAX = 10.0  # some thousand times what honest runs take, so that a slow machine changes no outcome
_SWALLOWED_SECONDS = 0.001  # until the next try, where a finalizer or a callback would swallow the first
_OF_WEAKREF = ("weakref", "_weakrefset")
"""Modules whose functions are callbacks of what goes, or may be: a moment later they are over."""


class NoEndInSight(BaseException):  # no Exception: a service would take it for a failed disk, and go on
    """The CPU time of a block is used up."""


@contextmanager
def garbage_kept() -> Iterator[None]:
    """Collect garbage once, at the end of a block that holds one run: few cycles are worth a look while it goes on.

    Blocks may be nested: within the outer one, garbage is collected where an inner one ends. What is still held by
    whoever runs the block is garbage only afterwards, and is collected where the next one begins: the collector by
    itself would not come to it, as hardly anything is made between two blocks.
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
        # What the block has made is in the youngest generation. After each run: later, it had gone from the cache.
        gc.collect(0)


@contextmanager
def cpu_limit(seconds: float | None) -> Iterator[Callable[[], object]]:
    """Raise NoEndInSight inside a block that has used so much CPU time, and again each time it has used as much more.

    None: never. For the main thread only, which is the one that gets signals, and not to be nested. Gives what makes
    the time begin anew, for a block that does many things of which each may take so long.
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
    """Raise, or, where Python would print what is raised and go on, a little later."""
    swallowing = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        is_of_weakref = frame.f_globals.get("__name__") in _OF_WEAKREF
        if frame.f_code in swallowing or frame.f_code.co_name == "__del__" or is_of_weakref:
            _, interval_seconds = signal.getitimer(signal.ITIMER_VIRTUAL)
            signal.setitimer(signal.ITIMER_VIRTUAL, _SWALLOWED_SECONDS, interval_seconds)
            return
        frame = frame.f_back
    raise NoEndInSight("the CPU time is used up")
