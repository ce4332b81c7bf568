"""Process limits: CPU time and garbage collection during runs.

A loop without world calls takes no steps and no virtual time, so the kernel's limits do not end it. A CPU timer raises
an error in the running task instead, and the kernel switches off all machines. A loop that takes steps is ended by the
kernel's step limit, at the same step on every machine.
"""

import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

STALL_SECONDS = 20.0
"""CPU time without a step after which a run counts as endless.

The longest check between two steps takes less than 1 s, so a slow machine changes no result.
"""
_SWALLOWED_SECONDS = 0.001  # pause before a retry, if Python would ignore an exception now
_OF_WEAKREF = ("weakref", "_weakrefset")
"""Modules with callbacks in which Python ignores exceptions."""


_running: list[Callable[[], int]] = []
"""For each kernel that runs, the innermost last: a function whose value changes with each step."""
_runs_begun = 0


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
def counted_steps(steps: Callable[[], int]) -> Iterator[None]:
    """Let `stall_limit` count the steps of a kernel while the block runs it.

    steps: returns a number that changes with each step.
    """
    global _runs_begun
    _runs_begun += 1
    _running.append(steps)
    try:
        yield
    finally:
        _running.pop()


def _progress() -> tuple[int, int]:
    """Return two numbers that stay equal as long as no kernel takes a step."""
    return _runs_begun, _running[-1]() if _running else 0


@contextmanager
def cpu_limit(seconds: float | None) -> Iterator[Callable[[], object]]:
    """Raise CpuLimitReached in a block after each `seconds` of CPU time (None: no limit).

    Main thread only, because other threads get no signals. Blocks do not nest. Yields a function that restarts the
    period, so that each step of a program has its own limit.
    """
    with _cpu_timer(seconds, _raise_limit) as begin:
        yield begin


@contextmanager
def stall_limit(seconds: float | None) -> Iterator[None]:
    """Raise CpuLimitReached in a block after a period of CPU time in which no kernel took a step (None: no limit).

    Periods follow one another, so the error comes after `seconds` to 2 * `seconds` without a step. See `cpu_limit`.
    """
    before = _progress()

    def raise_if_stalled() -> None:
        nonlocal before
        last, before = before, _progress()
        if last == before:
            _raise_limit()

    with _cpu_timer(seconds, raise_if_stalled):
        yield


def _raise_limit() -> None:
    raise CpuLimitReached("the CPU time is used up")


@contextmanager
def _cpu_timer(seconds: float | None, on_due: Callable[[], None]) -> Iterator[Callable[[], object]]:
    """Call on_due in the main thread after each `seconds` of CPU time. Yields a function that restarts the period."""
    if seconds is None:
        yield lambda: None
        return
    before = signal.signal(signal.SIGVTALRM, partial(_call_or_retry, on_due))
    begin = partial(signal.setitimer, signal.ITIMER_VIRTUAL, seconds, seconds)
    begin()
    try:
        yield begin
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _call_or_retry(on_due: Callable[[], None], number: int, frame: FrameType | None) -> None:
    """Call on_due, which may raise. Inside a callback, where Python ignores exceptions, retry a little later."""
    swallowing = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        is_of_weakref = frame.f_globals.get("__name__") in _OF_WEAKREF
        if frame.f_code in swallowing or frame.f_code.co_name == "__del__" or is_of_weakref:
            _, interval_seconds = signal.getitimer(signal.ITIMER_VIRTUAL)
            signal.setitimer(signal.ITIMER_VIRTUAL, _SWALLOWED_SECONDS, interval_seconds)
            return
        frame = frame.f_back
    on_due()
