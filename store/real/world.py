"""The real world: system clocks, tasks on daemon threads, and world factories.

Daemon threads do not keep the process alive if a store was not shut down. Recovery then handles the process end like a
process kill.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ..world import World
from .files import RealFiles
from .native import load_core
from .network import RealNetwork
from .overlay import OverlayFiles

_TRIES = 1_000
"""Attempts of a waiter before it sleeps: 85 ms if no other thread runs, with 30 ms of CPU time."""


class RealClock:
    """Wall clock and monotonic clock of the operating system."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)
    """Not wrapped in a Python method, because each put calls the clock twice."""

    def utc_offset_ms(self) -> int:
        """Return the offset of local time, including daylight saving time."""
        return time.localtime().tm_gmtoff * 1000


class ThreadCell:
    """An integer with atomic operations.

    add() and compare_and_set() use a lock. set(), the most frequent change, does not: the lock would make it five times
    as expensive. The GIL allows no thread switch between the read and the write in the other two.
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
    """A mutex. One waiter polls the lock; all other waiters sleep.

    If all waiters slept, a release would give the lock to a sleeping thread. The running thread would find the lock
    taken at its next use and sleep, so each use would cost a thread switch, which takes longer than most critical
    sections. With polling, the holder can release and take the lock again until its time slice ends.
    """

    __slots__ = ("_mutex", "_next")

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._next = threading.Lock()
        """Held by the waiter that polls `_mutex`."""

    def __enter__(self) -> None:
        if not self._mutex.acquire(False):
            self._poll_mutex()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._mutex.release()

    def _poll_mutex(self) -> None:
        with self._next:
            for _ in range(_TRIES):
                time.sleep(0)  # let the holder run
                if self._mutex.acquire(False):
                    return
            self._mutex.acquire()


class ThreadSignal:
    """A signal that `notify` sets and the waiting task clears.

    Invariant: while `_notified` is False the gate is locked, so that no thread unlocks it twice. While `_notified` is
    True, notify() may return at once: the wait that clears the flag has not returned, so the waiter will see all work
    done before this call.
    """

    __slots__ = ("_gate", "_next_in_turn", "_notified", "_notifying", "is_waited_for")

    def __init__(self) -> None:
        self.is_waited_for = False
        self._next_in_turn: list[ThreadSignal] = []
        """Signals that the woken thread notifies."""
        self._notified = False
        self._notifying = threading.Lock()
        self._gate = threading.Lock()
        self._gate.acquire()

    def notify(self) -> None:
        """Wake the waiter, or let the next wait return at once. A repeated call costs one test."""
        if self._notified:
            return
        with self._notifying:
            if not self._notified:
                self._notified = True
                self._gate.release()

    def wait(self, timeout_ms: int | None) -> bool:
        self.is_waited_for = True
        try:
            if not self._gate.acquire(timeout=-1 if timeout_ms is None else _timeout_seconds(timeout_ms)):
                return False
        finally:  # also after KeyboardInterrupt, or the other threads would sleep until their timeouts
            self.is_waited_for = False
            if self._next_in_turn:
                _notify_in_turn(self._next_in_turn)
        self._notified = False
        return True

    def notify_before(self, others: "list[ThreadSignal]") -> bool:
        """Notify, and let the waiter notify the others. Returns False if no thread waits; the caller must do it then.

        The order of the steps matters. If a wait ends meanwhile, this thread, the other thread or both notify the
        others. This does no harm, because each thread takes a signal from the list before it notifies the signal.
        """
        self._next_in_turn = others
        self.notify()
        return self.is_waited_for


def _notify_in_turn(waiting: list[ThreadSignal]) -> None:
    while True:
        try:
            signal = waiting.pop()
        except IndexError:  # another thread may have taken the last one
            return
        if signal.notify_before(waiting):
            return


class ThreadTask:
    """A daemon thread. `failure` is the exception that ended it, or None."""

    __slots__ = ("_body", "_thread", "failure", "name")

    def __init__(self, name: str, body: Callable[[], None]) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self._body = body
        self._thread = threading.Thread(target=self._run_body, name=name, daemon=True)
        self._thread.start()

    def join(self, timeout_ms: int | None) -> bool:
        """Return whether the task has ended before the timeout; None: no timeout."""
        self._thread.join(None if timeout_ms is None else _timeout_seconds(timeout_ms))
        return not self._thread.is_alive()

    def _run_body(self) -> None:
        try:
            self._body()
        except BaseException as failure:
            self.failure = failure
            raise  # threading.excepthook prints it


class ThreadTasks:
    """Tasks, locks, signals and cells on threads."""

    __slots__ = ()

    def spawn(self, name: str, body: Callable[[], None]) -> ThreadTask:
        return ThreadTask(name, body)

    def sleep(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def lock(self, name: str) -> ThreadLock:
        return ThreadLock()

    def signal(self, name: str) -> ThreadSignal:
        return ThreadSignal()

    def notify_in_turn(self, signals: Sequence[ThreadSignal]) -> None:
        """Notify one signal. Each woken thread notifies the next signal.

        Threads that wake at once compete for the GIL: most of them sleep again, and the notifying thread has to wait
        for all of them when it needs the GIL next.
        """
        _notify_in_turn([*reversed(signals)])

    def cell(self, name: str, value: int = 0) -> ThreadCell:
        return ThreadCell(value)


def _timeout_seconds(timeout_ms: int) -> float:
    return min(max(timeout_ms, 0) / 1000, threading.TIMEOUT_MAX)


@contextmanager
def pinned_to_processor() -> Iterator[int | None]:
    """Inside the block, pin this thread and threads that it starts to one processor. Yields its number.

    With the GIL, only one thread runs at a time, and a switch to a thread that sleeps on another processor takes longer
    than most time slices. While another process uses the chosen processor, no thread runs.

    Yields None, without pinning, if the system forbids pinning or if Python runs without the GIL.
    """
    allowed = _allowed_processors()
    if allowed is None:
        yield None
        return
    chosen = sorted(allowed)[os.getpid() % len(allowed)]  # different processes choose different processors
    os.sched_setaffinity(0, {chosen})
    try:
        yield chosen
    finally:
        os.sched_setaffinity(0, allowed)


def _allowed_processors() -> set[int] | None:
    """Return None if the system forbids pinning or Python runs without the GIL."""
    if not hasattr(os, "sched_setaffinity") or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, allowed)
    except OSError:  # some sandboxes forbid it
        return None
    return allowed


def real_world(network: RealNetwork | None = None) -> World:
    """Return a world with this computer's clock, threads, files and network, by default without TLS."""
    return World(RealClock(), ThreadTasks(), RealFiles(), network or RealNetwork(), load_core())


def overlay_world() -> World:
    """Return a world of this computer with an overlay over its files."""
    return World(RealClock(), ThreadTasks(), OverlayFiles(), core=load_core())


class ThisComputer(NamedTuple):
    """A `PortableWorld` with the clock, threads and files of this computer."""

    clock: RealClock
    tasks: ThreadTasks
    files: RealFiles


def this_computer() -> ThisComputer:
    """Return a world for your own code outside simulations. In a simulation your code gets a `SimWorld`."""
    return ThisComputer(RealClock(), ThreadTasks(), RealFiles())
