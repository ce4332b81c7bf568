"""Interruption: Ctrl-C ends work within two seconds and keeps what is done, in this process and in others.

A SIGINT is noted at once. Only work that was begun through `Interruption.unless_wanted` is broken off by it: what that
has not finished is lost, and whoever sums up results is never interrupted himself. A second SIGINT is a
KeyboardInterrupt wherever it comes.

Processes do not see SIGINT, which a terminal sends to all of a group: an event ends them: they have GRACE_SECONDS to
hand in what they have (`is_stop_wanted`), and are then terminated.
"""

import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from multiprocessing import active_children, get_context
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from threading import current_thread, main_thread
from types import FrameType
from typing import TypeVar

GRACE_SECONDS = 0.6
"""How long processes have to end what they are at."""
_LOOK_SECONDS = 0.1

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


class Interruption:
    """Whether the user has asked for an end."""

    def __init__(self) -> None:
        self.is_wanted = False
        self._breaks_off = False

    def note(self, number: int, frame: FrameType | None) -> None:
        """Take the signal."""
        insists, self.is_wanted = self.is_wanted, True
        if insists or self._breaks_off:
            raise KeyboardInterrupt

    def unless_wanted(self, work: Callable[[], _Result]) -> _Result | None:
        """Return what some work returns; None if the user wants an end, before it or in its midst.

        Whatever the work raises once it is interrupted is its way to end, and passed over.
        """
        if self.is_wanted:
            return None
        try:
            self._breaks_off = True
            try:
                result = work()
            finally:
                self._breaks_off = False
        except BaseException:
            if self.is_wanted:
                return None
            raise
        return None if self.is_wanted else result


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Take SIGINT inside a `with` block, and give what knows of it. Only the main thread gets signals."""
    interruption = Interruption()
    if current_thread() is not main_thread():
        yield interruption
        return
    before = signal.signal(signal.SIGINT, interruption.note)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, before)


# -- in processes ----------------------------------------------------------------------------------


class _Worker:
    """What a worker process knows."""

    stop: Event | None = None


def is_stop_wanted() -> bool:
    """Return, in a worker process, whether it is to hand in what it has. Elsewhere it never is."""
    return _Worker.stop is not None and _Worker.stop.is_set()


def in_processes(
    work: Callable[[_Job], _Result],
    jobs: Iterable[_Job],
    processes: int,
    interruption: Interruption,
) -> Iterator[tuple[_Job, _Result | BrokenProcessPool]]:
    """Do jobs in so many processes; yield each with its result, in order. A process that dies is the result.

    After that no job is begun; nor after an interruption, which leaves out those that are not done in time.
    """
    context = get_context("spawn")
    stop = context.Event()  # starts the resource tracker, too, which meddles with the mask of signals
    others = set(active_children())
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(stop,))
    pending: dict[int, tuple[_Job, Future[_Result]]] = {}
    numbered = enumerate(jobs)
    next_out = 0
    is_done = False
    try:
        while not interruption.is_wanted:
            for number, job in islice(numbered, 2 * processes + 2 - len(pending)):
                pending[number] = (job, _submit(pool, partial(work, job)))
            if not pending:
                is_done = True
                return
            first = pending[next_out][1]  # no other lets a job begin: results are yielded in order
            while not interruption.is_wanted and not wait([first], _LOOK_SECONDS).done:
                pass  # it is not broken off: it would keep the locks of futures
            while next_out in pending and pending[next_out][1].done():
                job, future = pending.pop(next_out)
                next_out += 1
                result = _result_of(future)
                if isinstance(result, BrokenProcessPool):
                    numbered = enumerate(())  # the pool is gone: what is pending is lost, and no more is begun
                yield job, result
        stop.set()
        wait([future for _, future in pending.values()], timeout=GRACE_SECONDS)
        for job, future in pending.values():
            if future.done() and not isinstance(result := _result_of(future), BrokenProcessPool):
                yield job, result
    finally:
        if not is_done:
            _terminate(set(active_children()) - others)
        pool.shutdown(wait=is_done, cancel_futures=True)


def _begin(stop: Event) -> None:
    _Worker.stop = stop


def _submit(pool: ProcessPoolExecutor, work: Callable[[], _Result]) -> Future[_Result]:
    """Submit work; to a pool that is broken, as one that failed. A process begun for it never sees SIGINT."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return pool.submit(work)
    except BrokenProcessPool as error:
        failed: Future[_Result] = Future()
        failed.set_exception(error)
        return failed
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _result_of(future: Future[_Result]) -> _Result | BrokenProcessPool:
    try:
        return future.result()
    except BrokenProcessPool as error:
        return error


def _terminate(children: set[BaseProcess]) -> None:
    for child in children:
        child.terminate()
