"""The real world: the system's clocks, daemon threads as tasks, and worlds.

With daemon threads, a store without a shutdown does not keep its process alive. The end of the process is then the same
as a process kill, and recovery handles it.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..world import World
from .files import RealFiles
from .native import load_core
from .network import RealNetwork
from .overlay import OverlayFiles

_TRIES = 1_000
"""How often a waiter tries to get a lock before it sleeps: 85 ms if no other thread runs, of which 30 ms busy."""


class RealClock:
    """Wall and monotonic clock of the operating system."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)
    """Never steps back. Without a Python wrapper, because every put calls the clock twice."""

    def utc_offset_ms(self) -> int:
        """Include daylight saving time."""
        return time.localtime().tm_gmtoff * 1000


class ThreadCell:
    """An integer in an attribute.

    A lock serialises add() and compare_and_set(). set(), the most frequent change, uses no lock, which would make it
    five times as expensive. Under the interpreter lock no thread switch is possible between the read and the write of
    the other two.
    """

    __slots__ = ("_lock", "_value")

    def __init__(self, value: int) -> None:
        self._value = value
        self._lock = threading.Lock()

    def get(self) -> int:
        return self._value

    def set(self, value: int) -> None:
        self._value = value

    def add(self, delta: int) -> int:
        with self._lock:
            self._value = value = self._value + delta
        return value

    def compare_and_set(self, expected: int, value: int) -> bool:
        with self._lock:
            if self._value != expected:
                return False
            self._value = value
        return True


class ThreadLock:
    """A mutex. One waiter at a time polls the lock; all other waiters sleep.

    If all waiters slept, a sleeping thread would get the lock while another thread runs. The running thread would then
    find the lock taken and sleep. So each use of the lock would switch threads, which takes longer than most locks are
    held. A polling waiter gets the lock without such a switch, so the holder continues until its time slice ends.
    """

    __slots__ = ("_mutex", "_next")

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._next = threading.Lock()
        """The lock of the waiter that polls `_lock`."""

    def __enter__(self) -> None:
        if not self._mutex.acquire(False):
            self._wait_on_condition()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._mutex.release()

    def _wait_on_condition(self) -> None:
        with self._next:
            for _ in range(_TRIES):
                time.sleep(0)  # let other threads run, including the holder
                if self._mutex.acquire(False):
                    return
            self._mutex.acquire()


class ThreadSignal:
    """A gate that `notify` opens and the waiting task closes.

    Invariant: while `_notified` is False the gate is closed, so no thread opens an open gate. If `_notified` is True,
    notify() may return at once: the wait that clears it has not returned yet, so the waiter will see all work done
    before this call.
    """

    __slots__ = ("_gate", "_notified", "_notifying")

    def __init__(self) -> None:
        self._notified = False
        self._notifying = threading.Lock()
        self._gate = threading.Lock()
        self._gate.acquire()

    def notify(self) -> None:
        """Wake the waiter, or let the next wait return at once. Repeated calls before the wait cost one test each."""
        if self._notified:
            return
        with self._notifying:
            if not self._notified:
                self._notified = True
                self._gate.release()

    def wait(self, timeout_ms: int | None) -> bool:
        if not self._gate.acquire(timeout=-1 if timeout_ms is None else _timeout_seconds(timeout_ms)):
            return False
        self._notified = False
        return True


class ThreadTask:
    """A daemon thread. failure is the exception that ended the thread, if any."""

    __slots__ = ("_body", "_thread", "failure", "name")

    def __init__(self, name: str, body: Callable[[], None]) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self._body = body
        self._thread = threading.Thread(target=self._run_body, name=name, daemon=True)
        self._thread.start()

    def join(self, timeout_ms: int | None) -> bool:
        """Return whether the task ended before the timeout; None: no timeout."""
        self._thread.join(None if timeout_ms is None else _timeout_seconds(timeout_ms))
        return not self._thread.is_alive()

    def _run_body(self) -> None:
        try:
            self._body()
        except BaseException as failure:
            self.failure = failure
            raise  # threading.excepthook prints it


class ThreadTasks:
    """Concurrency on threads."""

    __slots__ = ()

    def spawn(self, name: str, body: Callable[[], None]) -> ThreadTask:
        return ThreadTask(name, body)

    def sleep(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def lock(self, name: str) -> ThreadLock:
        return ThreadLock()

    def signal(self, name: str) -> ThreadSignal:
        return ThreadSignal()

    def cell(self, name: str, value: int = 0) -> ThreadCell:
        return ThreadCell(value)


def _timeout_seconds(timeout_ms: int) -> float:
    return min(max(timeout_ms, 0) / 1000, threading.TIMEOUT_MAX)


@contextmanager
def pinned_to_processor() -> Iterator[int | None]:
    """Pin this thread and threads that it starts to one processor inside a block. Yields the processor's number.

    Python runs one thread at a time. A switch to a thread that sleeps on another processor takes longer than most time
    slices. If another process uses the processor of this thread, no thread runs until the processor is free.

    Yields None, without a change, if pinning is not allowed or if Python runs threads in parallel.
    """
    allowed = _allowed_processors()
    if allowed is None:
        yield None
        return
    chosen = sorted(allowed)[os.getpid() % len(allowed)]  # so that several processes use different processors
    os.sched_setaffinity(0, {chosen})
    try:
        yield chosen
    finally:
        os.sched_setaffinity(0, allowed)


def _allowed_processors() -> set[int] | None:
    """Return None if this thread cannot or should not be pinned."""
    if not hasattr(os, "sched_setaffinity") or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, allowed)
    except OSError:  # some sandboxes forbid it
        return None
    return allowed


def real_world(network: RealNetwork | None = None) -> World:
    """Return the world of this computer: clock, threads, files, and a network, without TLS by default."""
    return World(RealClock(), ThreadTasks(), RealFiles(), network or RealNetwork(), load_core())


def overlay_world() -> World:
    """Return the world of this computer with an overlay, which keeps all changes of files in memory."""
    return World(RealClock(), ThreadTasks(), OverlayFiles(), core=load_core())


class ThisComputer(NamedTuple):
    """A `PortableWorld` of this computer: clock, threads, and files."""

    clock: RealClock
    tasks: ThreadTasks
    files: RealFiles


def this_computer() -> ThisComputer:
    """Return the world of this computer for your own code. In a simulation your code gets a `SimWorld` instead."""
    return ThisComputer(RealClock(), ThreadTasks(), RealFiles())
