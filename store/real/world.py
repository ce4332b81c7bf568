"""The real world: the system's clocks, daemon threads as tasks, and worlds.

Threads are daemons, so that a store without a shutdown does not keep its process alive. For the directory that is a
process kill, and recovery handles it.
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
"""Tries before a waiter for a lock sleeps: 85 ms if no other thread runs, 30 of them busy."""


class RealClock:
    """Wall and monotonic clock of the operating system."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)
    """Return ns since some fixed time. It never steps back. Not wrapped, because every put calls it twice."""

    def utc_offset_ms(self) -> int:
        """Return the present difference of local time and UTC, including daylight saving."""
        return time.localtime().tm_gmtoff * 1000


class ThreadCell:
    """An integer in an attribute.

    add() and compare_and_set() exclude each other with a lock. set() takes none: under the interpreter lock no thread
    switch can fall between the two halves of either. It is the most frequent change, and a lock would make it five
    times as expensive.
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
    """A mutex. One waiter at a time polls it, whenever other threads let it run; the rest sleep.

    A thread that sleeps for a lock gets it while another thread runs. That thread then finds the lock taken and sleeps
    in turn, so from then on each use of the lock switches threads, which costs more than most locks are held for. A
    polling waiter avoids this: the holder continues as long as it may run.
    """

    __slots__ = ("_mutex", "_next")

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._next = threading.Lock()
        """Held by the polling waiter."""

    def __enter__(self) -> None:
        if not self._mutex.acquire(False):
            self._wait()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._mutex.release()

    def _wait(self) -> None:
        with self._next:
            for _ in range(_TRIES):
                time.sleep(0)  # let other threads run, including the holder
                if self._mutex.acquire(False):
                    return
            self._mutex.acquire()


class ThreadSignal:
    """A gate that a notify opens and a waiter closes.

    Invariant: while _notified is False the gate is closed, so no thread opens an open gate. A notify() that finds True
    may return at once: the wait that consumes this notice has not returned yet, and sees all work done before the call.
    """

    __slots__ = ("_gate", "_notified", "_notifying")

    def __init__(self) -> None:
        self._notified = False
        self._notifying = threading.Lock()
        self._gate = threading.Lock()
        self._gate.acquire()

    def notify(self) -> None:
        """Wake the waiter, or let the next wait return at once. Costs one test while a notice is pending."""
        if self._notified:
            return
        with self._notifying:
            if not self._notified:
                self._notified = True
                self._gate.release()

    def wait(self, timeout_ms: int | None) -> bool:
        if not self._gate.acquire(timeout=-1 if timeout_ms is None else _seconds(timeout_ms)):
            return False
        self._notified = False
        return True


class ThreadTask:
    """A daemon thread. failure is the exception that ended its body, if any."""

    __slots__ = ("_body", "_thread", "failure", "name")

    def __init__(self, name: str, body: Callable[[], None]) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self._body = body
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def join(self, timeout_ms: int | None) -> bool:
        """Wait for the task to end; False after timeout_ms without its end. None: wait for ever."""
        self._thread.join(None if timeout_ms is None else _seconds(timeout_ms))
        return not self._thread.is_alive()

    def _run(self) -> None:
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


def _seconds(timeout_ms: int) -> float:
    return min(max(timeout_ms, 0) / 1000, threading.TIMEOUT_MAX)


@contextmanager
def pinned() -> Iterator[int | None]:
    """Pin this thread and its new threads to one processor inside a block. Yields its number.

    Python runs one thread at a time. A switch to a thread that sleeps on another processor takes longer than most
    turns; if another process uses that processor, no thread runs in the meantime.

    Yields None without a change if the system does not allow pinning, or if Python runs threads in parallel.
    """
    allowed = _choosable()
    if allowed is None:
        yield None
        return
    chosen = sorted(allowed)[os.getpid() % len(allowed)]  # spreads several such processes
    os.sched_setaffinity(0, {chosen})
    try:
        yield chosen
    finally:
        os.sched_setaffinity(0, allowed)


def _choosable() -> set[int] | None:
    """Return the processors that this thread may choose, None if it cannot or should not."""
    if not hasattr(os, "sched_setaffinity") or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, allowed)
    except OSError:  # some sandboxes forbid it
        return None
    return allowed


def real_world(network: RealNetwork | None = None) -> World:
    """Return this computer: clock, threads, durable files, and a network, plain by default."""
    return World(RealClock(), ThreadTasks(), RealFiles(), network or RealNetwork(), load_core())


def overlay_world() -> World:
    """Return this computer with files whose changes stay in memory: the disk never changes."""
    return World(RealClock(), ThreadTasks(), OverlayFiles(), core=load_core())


class ThisComputer(NamedTuple):
    """This computer in the form of `store.own_code`: clock, threads, and files with all operations."""

    clock: RealClock
    tasks: ThreadTasks
    files: RealFiles


def this_computer() -> ThisComputer:
    """Return this computer for your own code, which gets a `SimWorld` in a simulation."""
    return ThisComputer(RealClock(), ThreadTasks(), RealFiles())
