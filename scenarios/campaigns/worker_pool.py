"""Worker processes: ignore stop signals and end with their parent process.

A terminal or a service manager sends stop signals to all processes of a group, so workers ignore these signals.
Instead, the parent sets an event (`is_stop_wanted`). Then workers return their results. A worker that needs more than
GRACE_SECONDS is killed.
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
from threading import Thread
from typing import Any, TypeVar

from ...sim.interruption import STOP_SIGNALS, Interruption

GRACE_SECONDS = 0.6
_LOOK_SECONDS = 0.1
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>, Linux only

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


class _Worker:
    stop: Event | None = None


def is_stop_wanted() -> bool:
    """Return whether the parent wants this worker to return its results. False in other processes."""
    return _Worker.stop is not None and _Worker.stop.is_set()


def run_jobs(
    work: Callable[[_Job], _Result], jobs: Iterable[_Job], processes: int, interruption: Interruption
) -> Iterator[tuple[_Job, _Result]]:
    """Run jobs in several processes, or in this process if `processes` is 1. Yield each job with its result, in order.

    After an interruption, unfinished jobs have no result. Raises BrokenProcessPool if a process dies.
    """
    if processes > 1:
        for job, found in run_in_processes(work, jobs, processes, interruption):
            if isinstance(found, BrokenProcessPool):
                raise found
            yield job, found
        return
    for job in jobs:
        result = interruption.result_unless_requested(partial(work, job))
        if result is None:
            return
        yield job, result


def run_in_processes(
    work: Callable[[_Job], _Result], jobs: Iterable[_Job], processes: int, interruption: Interruption
) -> Iterator[tuple[_Job, _Result | BrokenProcessPool]]:
    """Run jobs in several processes. Yield each job with its result, in order.

    If a process dies, the result of its job is the error, and no further job starts. After an interruption no job
    starts, and running jobs that exceed GRACE_SECONDS have no result.
    """
    pending: dict[int, tuple[_Job, Future[_Result]]] = {}
    numbered = enumerate(jobs)
    next_out = 0
    with worker_pool(processes) as pool:
        while not interruption.is_requested:
            for number, job in islice(numbered, 2 * processes + 2 - len(pending)):
                pending[number] = (job, _submit(pool, partial(work, job)))
            assert len(pending) <= 2 * processes + 2, "the pool holds a few jobs for each process"
            if not pending:
                return
            first = pending[next_out][1]  # results are in order, so only this result lets a new job start
            while not interruption.is_requested and not wait([first], _LOOK_SECONDS).done:
                pass  # an exception within wait() would leave the futures locked
            while next_out in pending and pending[next_out][1].done():
                job, future = pending.pop(next_out)
                next_out += 1
                result = _result_of(future)
                if isinstance(result, BrokenProcessPool):
                    numbered = enumerate(())  # broken pool: pending jobs are lost, and no job starts
                    pool.kill()  # the executor sends SIGTERM, which workers ignore
                yield job, result
        pool.stop.set()
        wait([future for _, future in pending.values()], timeout=GRACE_SECONDS)
        for job, future in pending.values():
            if future.done() and not isinstance(result := _result_of(future), BrokenProcessPool):
                yield job, result
        pool.kill()


class WorkerPool(ProcessPoolExecutor):
    """Worker processes that ignore stop signals, run one job at a time, and die with this process."""

    def __init__(self, processes: int) -> None:
        context = get_context("spawn")
        self.stop = context.Event()  # also starts the resource tracker, which changes the signal mask
        self._others = set(active_children())
        self._is_killed = False
        super().__init__(processes, mp_context=context, initializer=_begin_worker, initargs=(self.stop,))

    def submit(self, work: Callable[..., _Result], /, *arguments: Any, **options: Any) -> Future[_Result]:
        """Submit work with stop signals blocked, so that no signal ends a new process before `become_worker`."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            return super().submit(work, *arguments, **options)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def kill(self) -> None:
        self._is_killed = True
        for child in set(active_children()) - self._others:
            child.kill()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        manager: Thread | None = self._executor_manager_thread  # type: ignore[assignment]  # typeshed has another type
        super().shutdown(wait=wait and not self._is_killed, cancel_futures=cancel_futures or self._is_killed)
        if self._is_killed and manager is not None:
            # At exit Python wakes the thread through a pipe, which fails while the thread closes the pipe.
            manager.join(GRACE_SECONDS)


@contextmanager
def worker_pool(processes: int) -> Iterator[WorkerPool]:
    """Yield a pool. If the `with` block raises an error, kill the worker processes."""
    with WorkerPool(processes) as pool:
        try:
            yield pool
        except BaseException:
            pool.kill()
            raise


def become_worker() -> None:
    """Ignore stop signals, and let the kernel kill this process when the parent dies."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    parent = parent_process()
    if parent is not None and not parent.is_alive():  # the parent died before prctl took effect
        os._exit(1)
    for number in STOP_SIGNALS:
        signal.signal(number, lambda number, frame: None)  # child processes do not inherit a handler
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def _begin_worker(stop: Event) -> None:
    _Worker.stop = stop
    become_worker()


def _submit(pool: WorkerPool, work: Callable[[], _Result]) -> Future[_Result]:
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
