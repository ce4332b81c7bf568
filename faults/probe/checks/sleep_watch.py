"""Sleep watch: ends a check in this process that sleeps longer than its time limit.

A CPU time limit cannot end a check that sleeps or waits for other processes. The watch does not count time in the run
queue, so a busy machine changes no verdict. To keep short checks cheap, the watch measures a check only after a fifth
of its time limit.

The watch uses the real timer. If a limit of the whole work also uses this timer, the watch restores its end and its
handler. Sources: setitimer(2); Documentation/scheduler/sched-stats.rst of Linux.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, thread_time
from types import FrameType

_SCHEDULED = "/proc/thread-self/schedstat"
"""File with the nanoseconds of this thread on a processor, and in the run queue."""
_FIRST_LOOK = 0.2  # fraction of the limit
_SECONDS_MIN = 0.001  # setitimer(0) disables the timer


class SleepLimitReached(BaseException):  # not an Exception, which would be a breach
    """A check has slept for its time limit."""


class SleepWatch:
    """Watches one check at a time, in the main thread. Between checks the watch does not use the timer."""

    def __init__(self) -> None:
        self._outer = signal.getsignal(signal.SIGALRM)
        left_seconds, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        self._outer_end = monotonic() + left_seconds if left_seconds else None
        self._limit_seconds = 0.0
        self._measured_from: tuple[float, float] | None = None
        """Monotonic time and time awake at the start of the measurement."""
        signal.signal(signal.SIGALRM, self._on_alarm)
        self._rest()

    def close(self) -> None:
        signal.signal(signal.SIGALRM, self._outer)

    @contextmanager
    def watching(self, limit_seconds: float) -> Iterator[None]:
        """Raise SleepLimitReached in a block that sleeps longer than the limit."""
        self._limit_seconds, self._measured_from = limit_seconds, None
        self._set_timer(limit_seconds * _FIRST_LOOK)
        try:
            yield
        finally:
            self._rest()

    def _rest(self) -> None:
        if self._outer_end is None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        else:
            self._set_timer(self._outer_end - monotonic())

    def _set_timer(self, seconds: float) -> None:
        if self._outer_end is not None:
            seconds = min(seconds, self._outer_end - monotonic())
        signal.setitimer(signal.ITIMER_REAL, max(seconds, _SECONDS_MIN))

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        now = monotonic()
        if self._outer_end is not None and now >= self._outer_end:
            self._outer_end = None
            self._set_timer(self._limit_seconds or _SECONDS_MIN)
            if callable(self._outer):
                self._outer(number, frame)
            return
        awake = _seconds_awake()
        if self._measured_from is None:
            self._measured_from = now, awake
        began, awake_before = self._measured_from
        slept = now - began - (awake - awake_before)
        self._set_timer(max(self._limit_seconds - slept, _SECONDS_MIN) if slept < self._limit_seconds else 1.0)
        if slept >= self._limit_seconds:
            raise SleepLimitReached(f"asleep for {slept:g} s")


def _seconds_awake() -> float:
    """Return the time that this thread was on a processor or in the run queue."""
    try:
        with open(_SCHEDULED, "rb", buffering=0) as file:
            running_ns, waiting_ns, _ = map(int, file.read().split())
    except (OSError, ValueError):  # this system has no such file, so time in the run queue counts as sleep
        return thread_time()
    return (running_ns + waiting_ns) / 1e9
