"""Worker processes of a campaign: they take no stop signal, and end with their parent.

A terminal or a service manager sends the stop signals to all processes of a group. An event asks the workers to return
their results (`is_stop_wanted`); after GRACE_SECONDS they are killed.
"""

import ctypes
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.synchronize import Event
from typing import Any, TypeVar

from ...sim.interruption import STOP_SIGNALS, Interruption

GRACE_SECONDS = 0.6
"""The time that processes have to end their present work."""
_LOOK_SECONDS = 0.1
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>, Linux only

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


class _Worker:
    """State of a worker process."""

    stop: Event | None = None


def is_stop_wanted() -> bool:
    """Return whether a worker process has to return its results so far; false in any other process."""
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
    pending: dict[int, tuple[_Job, Future[_Result]]] = {}
    numbered = enumerate(jobs)
    next_out = 0
    with worker_pool(processes) as pool:
        while not interruption.is_wanted:
            for number, job in islice(numbered, 2 * processes + 2 - len(pending)):
                pending[number] = (job, _submit(pool, partial(work, job)))
            if not pending:
                return
            first = pending[next_out][1]  # no other lets a job begin: results are yielded in order
            while not interruption.is_wanted and not wait([first], _LOOK_SECONDS).done:
                pass  # it is not broken off: it would keep the locks of futures
            while next_out in pending and pending[next_out][1].done():
                job, future = pending.pop(next_out)
                next_out += 1
                result = _result_of(future)
                if isinstance(result, BrokenProcessPool):
                    numbered = enumerate(())  # the pool is gone: pending jobs are lost, and no job is begun
                    pool.kill()  # the executor sends SIGTERM, which workers do not take
                yield job, result
        pool.stop.set()
        wait([future for _, future in pending.values()], timeout=GRACE_SECONDS)
        for job, future in pending.values():
            if future.done() and not isinstance(result := _result_of(future), BrokenProcessPool):
                yield job, result
        pool.kill()


class WorkerPool(ProcessPoolExecutor):
    """Processes that see no stop signal, do one piece of work at a time, and end with this process."""

    def __init__(self, processes: int) -> None:
        context = get_context("spawn")
        self.stop = context.Event()  # starts the resource tracker, too, which meddles with the mask of signals
        self._others = set(active_children())
        self._is_killed = False
        super().__init__(processes, mp_context=context, initializer=_begin, initargs=(self.stop,))

    def submit(self, work: Callable[..., _Result], /, *arguments: Any, **options: Any) -> Future[_Result]:
        """Submit work. A process begun for it inherits the mask, so that no signal ends it before `_begin`."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            return super().submit(work, *arguments, **options)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def kill(self) -> None:
        """End the processes, hung ones included."""
        self._is_killed = True
        for child in set(active_children()) - self._others:
            child.kill()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the processes to end, unless they were killed."""
        super().shutdown(wait=wait and not self._is_killed, cancel_futures=cancel_futures or self._is_killed)


@contextmanager
def worker_pool(processes: int) -> Iterator[WorkerPool]:
    """Yield a pool for a `with` block. If the block does not end by itself, the processes are killed."""
    with WorkerPool(processes) as pool:
        try:
            yield pool
        except BaseException:
            pool.kill()
            raise


def become_worker() -> None:
    """Leave the stop signals to the parent, and have the kernel kill this process when the parent dies, however."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    parent = parent_process()
    if parent is not None and not parent.is_alive():  # it died before the kernel knew
        os._exit(1)
    for number in STOP_SIGNALS:
        signal.signal(
            number, lambda number, frame: None
        )  # a handler, which a process started from here does not inherit
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def _begin(stop: Event) -> None:
    _Worker.stop = stop
    become_worker()


def _submit(pool: WorkerPool, work: Callable[[], _Result]) -> Future[_Result]:
    """Submit work; to a pool that is broken, as one that failed."""
    try:
        return pool.submit(work)
    except BrokenProcessPool as error:
        failed: Future[_Result] = Future()
        failed.set_exception(error)
        return failed


def _result_of(future: Future[_Result]) -> _Result | BrokenProcessPool:
    try:
        return future.result()
    except BrokenProcessPool as error:
        return error
