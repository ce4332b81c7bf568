"""An end to what has none: code under test that loops without a world call, which no kernel can interrupt.

The kernel counts steps and virtual time, and both stand still in such a loop. A timer of the process's own CPU time
then raises in the midst of it, whatever task that is. It is a BaseException, so no service takes it for a failed disk;
it ends the task, and the kernel switches all machines off, as for a KeyboardInterrupt.

The figure is far above what any honest run takes, so that which runs it ends does not depend on the machine's speed.
"""

import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

CPU_SECONDS_MAX = 10.0
"""Of one run, some thousand times what runs take."""


_SWALLOWED_SECONDS = 0.001
"""Until the next try, where the first came upon a finalizer or a callback of the garbage collector."""


class NoEndInSight(BaseException):
    """The CPU time of a block is used up."""


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
        if frame.f_code in swallowing or frame.f_code.co_name == "__del__":
            _, interval_seconds = signal.getitimer(signal.ITIMER_VIRTUAL)
            signal.setitimer(signal.ITIMER_VIRTUAL, _SWALLOWED_SECONDS, interval_seconds)
            return
        frame = frame.f_back
    raise NoEndInSight("the CPU time is used up")
