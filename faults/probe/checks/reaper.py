"""Ends of checks: a reaper that ends all processes of a check, and a watch that ends a sleeping check.

A check may start processes outside of its process group, such as daemons. When the parent of a daemon ends, Linux makes
the reaper its parent. On other systems, or if the kernel does not list children, the reaper kills only the process
group.

A CPU time limit cannot end a check that sleeps or waits for other processes. The watch does not count time in the run
queue, so a busy machine changes no verdict. To keep short checks cheap, the watch measures a check only after a fifth
of its time limit.

The watch uses the real timer. If a limit of the whole work also uses this timer, the watch restores its end and its
handler. Sources: setitimer(2); Documentation/scheduler/sched-stats.rst of Linux.
"""

import ctypes
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic, sleep, thread_time
from types import FrameType
from typing import NoReturn

_TAKE_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
_ENDING_SECONDS, _POLL_SECONDS = 1.0, 0.001


def fork_below_reaper(connection: Connection) -> None:
    """Fork, and return in the child. The caller becomes the reaper, and later ends with the child's exit status.

    connection: only the child keeps it open, so that the peer notices the end of the child.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_TAKE_ORPHANS, 1, 0, 0, 0)

    child = 0

    def end(number: int, frame: FrameType | None) -> NoReturn:
        if child:  # kill the child's group too, because without /proc its children are unknown
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        kill_children(os.getpid())
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    child = os.fork()
    if child:
        connection.close()
        _reap_until_end_of(child)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def kill_other_processes() -> None:
    """Kill the processes that a check has left running. The caller must be a child of the reaper and must have no
    children.
    """
    kill_children(os.getppid(), spared=os.getpid())


def kill_children(reaper: int, spared: int = 0) -> None:
    """Kill all children of a reaper except `spared`, also orphans that become its children during the call."""
    end = monotonic() + _ENDING_SECONDS
    while (children := _children_of(reaper) - {spared}) and monotonic() < end:
        for child in children:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        sleep(_POLL_SECONDS)
        if reaper == os.getpid():
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def descendant_processes(process: int) -> Iterator[int]:
    """Yield the children of a process, their children, and so on."""
    for child in _children_of(process):
        yield child
        yield from descendant_processes(child)


def _children_of(process: int) -> set[int]:
    children: set[int] = set()
    with suppress(OSError):
        for task in os.listdir(f"/proc/{process}/task"):  # the kernel lists children by thread
            with suppress(OSError):
                children.update(map(int, Path(f"/proc/{process}/task/{task}/children").read_text().split()))
    return children


def _reap_until_end_of(child: int) -> NoReturn:
    found = status = 0
    while found != child:
        found, status = os.wait()
    kill_children(os.getpid())
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump of the child is already complete
        with suppress(OSError):  # SIGKILL cannot have a handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


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
        self._stop_timer()

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
            self._stop_timer()

    def _stop_timer(self) -> None:
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
