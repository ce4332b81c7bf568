"""The real world: the operating system's clocks, daemon threads as tasks, their processor, and worlds made of them.

Threads are daemons, because a store that was never shut down must not keep its process alive: to the directory that is
a process kill, which recovery is for.
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
"""How often a lock is tried before who waits for it sleeps: for 85 ms, 30 of them at work, if nobody else runs."""


class RealClock:
    """Wall and monotonic clock of the operating system."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return the wall clock in ms since 1970. It may step back."""
        return time.time_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)
    """Return ns since some fixed moment. It never steps back. No call of ours around it: every put asks twice."""

    def utc_offset_ms(self) -> int:
        """Return how far this process's local time is ahead of UTC now, daylight saving included."""
        return time.localtime().tm_gmtoff * 1000


class ThreadCell:
    """An integer in an attribute.

    add() and compare_and_set() exclude each other with a lock. set() takes none: under the interpreter lock
    no thread switch falls between the two halves of either, and for the most frequent change a lock would
    cost five times the work.
    """

    __slots__ = ("_lock", "_value")

    def __init__(self, value: int) -> None:
        self._value = value
        self._lock = threading.Lock()

    def get(self) -> int:
        """Return the value."""
        return self._value

    def set(self, value: int) -> None:
        """Replace the value."""
        self._value = value

    def add(self, delta: int) -> int:
        """Add delta in one step and return the new value."""
        with self._lock:
            self._value = value = self._value + delta
        return value

    def compare_and_set(self, expected: int, value: int) -> bool:
        """Replace expected by value in one step; False, and no change, if something else is there."""
        with self._lock:
            if self._value != expected:
                return False
            self._value = value
        return True


class ThreadLock:
    """A mutex. Of those who find it taken one at a time tries again, whenever others have let it run; the rest sleep.

    A thread that sleeps for a lock gets it while another one runs, which finds it taken when it comes back, and sleeps
    in turn: from then on threads change at each use of the lock, which costs more than most are held for. So one who
    waits asks again instead, until the lock is held for long, and whoever has it goes on for as long as it may run.
    """

    __slots__ = ("_mutex", "_next")

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._next = threading.Lock()
        """Held by the one who tries again."""

    def __enter__(self) -> None:
        if not self._mutex.acquire(False):
            self._wait()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._mutex.release()

    def _wait(self) -> None:
        with self._next:
            for _ in range(_TRIES):
                time.sleep(0)  # let others run, the holder among them
                if self._mutex.acquire(False):
                    return
            self._mutex.acquire()


class ThreadSignal:
    """A gate that one notice opens and one waiter shuts behind itself.

    Invariant: while _notified is False the gate is shut, so nobody opens an open one. A notify() that finds
    True may leave at once: the wait that uses this notice up has not returned yet, and will see all that was
    done before the call.
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
        """Wait until notified (True, and the notice is used up) or for timeout_ms (False). None: for ever."""
        if not self._gate.acquire(timeout=-1 if timeout_ms is None else _seconds(timeout_ms)):
            return False
        self._notified = False
        return True


class ThreadTask:
    """A daemon thread. failure holds what escaped its body, if anything did."""

    __slots__ = ("_body", "_thread", "failure", "name")

    def __init__(self, name: str, body: Callable[[], None]) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self._body = body
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def join(self, timeout_ms: int | None) -> bool:
        """Wait for the task to end; False if it still runs after timeout_ms. None: wait for ever."""
        self._thread.join(None if timeout_ms is None else _seconds(timeout_ms))
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._body()
        except BaseException as failure:
            self.failure = failure
            raise  # threading.excepthook prints it


class ThreadTasks:
    """Everything that runs at the same time as something else, on threads."""

    __slots__ = ()

    def spawn(self, name: str, body: Callable[[], None]) -> ThreadTask:
        """Start body as a thread of that name."""
        return ThreadTask(name, body)

    def sleep(self, ms: int) -> None:
        """Let at least ms pass."""
        time.sleep(ms / 1000)

    def lock(self, name: str) -> ThreadLock:
        """Make a mutex, to be used with `with`. Not re-entrant, not fair."""
        return ThreadLock()

    def signal(self, name: str) -> ThreadSignal:
        """Make a signal."""
        return ThreadSignal()

    def cell(self, name: str, value: int = 0) -> ThreadCell:
        """Make a cell."""
        return ThreadCell(value)


def _seconds(timeout_ms: int) -> float:
    return min(max(timeout_ms, 0) / 1000, threading.TIMEOUT_MAX)


@contextmanager
def pinned() -> Iterator[int | None]:
    """Pin this thread, and those that it starts, to one processor inside of a block; gives its number.

    Python lets one thread run at a time. To hand that over to a thread that sleeps on another processor takes longer
    than most turns do; where that processor is somebody else's just then, nobody runs meanwhile.

    None, and nothing changes, where a thread cannot choose, and where Python's threads do run at the same time.
    """
    allowed = _choosable()
    if allowed is None:
        yield None
        return
    chosen = sorted(allowed)[os.getpid() % len(allowed)]  # several such processes spread
    os.sched_setaffinity(0, {chosen})
    try:
        yield chosen
    finally:
        os.sched_setaffinity(0, allowed)


def _choosable() -> set[int] | None:
    """Return the processors that this thread may choose from, None if it may not or should not."""
    if not hasattr(os, "sched_setaffinity") or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, allowed)
    except OSError:  # some sandboxes forbid it
        return None
    return allowed


def real_world(network: RealNetwork | None = None) -> World:
    """Return this computer: clock, threads, files mapped and synced for good, and a network, plain if none is given."""
    return World(RealClock(), ThreadTasks(), RealFiles(), network or RealNetwork(), load_core())


def overlay_world() -> World:
    """Return this computer with files whose changes stay in memory: nothing on disk is ever altered."""
    return World(RealClock(), ThreadTasks(), OverlayFiles(), core=load_core())


class ThisComputer(NamedTuple):
    """This computer as `store.own_code` has a world: clock, threads, and files by all that they can do."""

    clock: RealClock
    tasks: ThreadTasks
    files: RealFiles


def this_computer() -> ThisComputer:
    """Return this computer for code of your own, which in a simulation is given a `SimWorld`."""
    return ThisComputer(RealClock(), ThreadTasks(), RealFiles())
