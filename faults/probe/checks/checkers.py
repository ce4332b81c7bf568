"""Checkers: a pool of processes that check states.

A check that hangs or kills its process affects only the verdict on this state. The processes are forked, which is
cheap, and safe because the parent has one thread. If a check exceeds its time limit, the pool repeats it while no other
check runs, because a busy machine may have slowed it down.

A check may hang in many states. So the first confirmed time-out reduces the limit of later checks to ten times the
slowest check that returned, and at least a second. A check that exceeds the reduced limit may only be slow, so its
outcome is an assumed time-out. The caller confirms some assumed time-outs with the whole time limit.
"""

import os
import select
import shutil
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from types import FrameType, TracebackType
from typing import NamedTuple, NoReturn

from ....sim.interruption import current_interruption
from ....sim.process import CpuLimitReached, cpu_limit
from ...crashes.enumeration import CrashState
from ...disk.difference import NOTHING, ImageDifference
from ...disk.image import Image
from ..elsewhere import ProbeJob, StatesOf
from ..endings import exit_text
from ..record import Answers
from ..replay import Point
from .check import DIED, TIMED_OUT, Check, CheckOutcome, timed_out_outcome
from .reaper import descendant_processes, fork_below_reaper, kill_other_processes
from .sleep_watch import SleepLimitReached, SleepWatch
from .state_directory import StateDirectory

Question = tuple[Image | CrashState, Answers]
"""A state, and the promises and refusals before it."""
Visit = tuple[Point, StatesOf]
"""A crash point, and the states that a crash at this point may leave."""
IsKnown = Callable[[Point, str, CrashState], bool]
"""Returns whether the state of a disk at a point has a verdict."""
_FORK = get_context("fork")
_IN_MEMORY = "/dev/shm"
_SAID_BYTES_MAX = 64 << 10
_REDUCED_FACTOR, _REDUCED_SECONDS_MIN = 10.0, 1.0
_POLL_SECONDS = 0.05
_GRACE_SECONDS = 5.0  # grace period for a check in another process, which enforces the time limit itself


@dataclass(slots=True, eq=False)
class _CheckWorker:
    process: ForkProcess
    connection: Connection
    shown: Image = NOTHING
    """The last state sent to the worker. The pool sends only differences between states."""


class _PendingQuestion(NamedTuple):
    """A question that a worker is judging. began, end: start and deadline by the monotonic clock."""

    number: int
    worker: _CheckWorker
    limit_seconds: float
    began: float
    end: float


class Checkers:
    """A pool of processes that judge states. jobs: number of processes; 0: this process judges, if the check allows it.

    seconds_max: time limit of one check; if jobs is 0, the limit of its CPU time, and of its time asleep.
    may_be_killed: whether another program may kill this process, as Spark kills its workers. The pool then has its own
    process group and removes its files.
    """

    def __init__(self, check: Check, jobs: int, seconds_max: float, *, may_be_killed: bool = False) -> None:
        self._check = check
        self._owner = os.getpid() if may_be_killed else 0
        self._jobs = jobs if check.runs_here else max(1, jobs)
        self._seconds_max = seconds_max
        is_there = os.path.isdir(_IN_MEMORY) and os.access(_IN_MEMORY, os.W_OK | os.X_OK)
        parent = _IN_MEMORY if is_there else None  # an export to a file system in memory is much faster
        self._scratch = TemporaryDirectory(prefix="tornlog-probe-", dir=parent, ignore_cleanup_errors=True)
        self._idle: list[_CheckWorker] = []
        self._busy: dict[Connection, _PendingQuestion] = {}
        self.judged = 0
        self.repeated = 0
        """Number of checks repeated after they exceeded the time limit."""
        self.reduced = 0
        """Number of checks with a reduced time limit."""
        self.assumed = 0
        """Number of checks that exceeded a reduced time limit."""
        self._has_hung = False  # whether a time-out was confirmed
        self._slowest_seconds = 0.0  # duration of the slowest check that returned
        self._said = Path(self._scratch.name, "said")
        self._said.touch()
        self._here: StateDirectory | None = None
        self._watch: SleepWatch | None = None
        self._shown_here = NOTHING

    @property
    def jobs(self) -> int:
        """Return the number of states that are judged at the same time."""
        return max(1, self._jobs)

    @property
    def slowest_seconds(self) -> float:
        """Return the duration of the slowest check that returned."""
        return self._slowest_seconds

    def said(self) -> str:
        """Return the end of the standard output and standard error of checks in other processes."""
        with self._said.open("rb") as file:
            file.seek(max(0, self._said.stat().st_size - _SAID_BYTES_MAX))
            return file.read().decode(errors="replace")

    def looking_ahead(
        self, visits: Generator[Visit, None, None], job: ProbeJob, is_known: IsKnown
    ) -> Generator[Visit, None, None]:
        """Return the visits of a job in order. A pool on other machines overrides this to judge states in advance."""
        return visits

    def verdicts(self, questions: Sequence[Question]) -> list[CheckOutcome]:
        """Return the verdicts in the order of the questions. EndedEarlyError: the probe was interrupted."""
        answers = dict(self.judge_each(questions))
        return [answers[number] for number in range(len(questions))]

    def judge_each(self, questions: Sequence[Question]) -> Generator[tuple[int, CheckOutcome], None, None]:
        """Yield each verdict when it arrives, with its question's number. EndedEarlyError: the probe was
        interrupted.
        """
        self.judged += len(questions)
        if not self._jobs:
            for number, question in enumerate(questions):
                yield number, self._judge_in_this_process(*question, self._limit_seconds)
            return
        waiting = deque(enumerate(questions))
        try:
            while waiting:
                slow = []
                for number, answer in self._receive_answers(waiting, self._jobs):
                    if answer.outcome == TIMED_OUT and not answer.is_assumed:
                        slow.append((number, answer))
                    else:
                        yield number, answer
                for number, answer in slow:
                    is_reduced = self._limit_seconds < self._seconds_max  # one of `slow` is confirmed to hang
                    yield number, self._mark_assumed(answer) if is_reduced else self.judge_again(questions[number])
        finally:  # the caller may stop the iteration here
            for asked in self._busy.values():
                _end_worker(asked.worker)
            self._busy.clear()

    def judge_again(self, question: Question) -> CheckOutcome:
        """Judge a state again with the whole time limit, while no other check runs."""
        assert not self._busy, "other checks are running"
        self.repeated += 1
        if not self._jobs:
            return self._judge_in_this_process(*question, self._seconds_max)
        ((_, answer),) = self._receive_answers(deque([(0, question)]), 1, self._seconds_max)
        self._has_hung |= answer.outcome == TIMED_OUT
        return answer

    @property
    def _limit_seconds(self) -> float:
        """Return the time limit of the next check. It is reduced only if the speed of checks is known."""
        if not self._has_hung or not self._slowest_seconds:
            return self._seconds_max
        return min(self._seconds_max, max(_REDUCED_SECONDS_MIN, _REDUCED_FACTOR * self._slowest_seconds))

    def _record_duration(self, answer: CheckOutcome, began: float, limit_seconds: float) -> CheckOutcome:
        """Record the duration of a check. Return its outcome, as an assumed time-out if it exceeded a reduced limit."""
        is_reduced = limit_seconds < self._seconds_max
        self.reduced += is_reduced
        if answer.outcome != TIMED_OUT:
            self._slowest_seconds = max(self._slowest_seconds, monotonic() - began)
        return self._mark_assumed(answer) if is_reduced and answer.outcome == TIMED_OUT else answer

    def _mark_assumed(self, answer: CheckOutcome) -> CheckOutcome:
        self.assumed += 1
        return answer._replace(is_assumed=True)

    def _receive_answers(
        self, waiting: deque[tuple[int, Question]], jobs: int, limit_seconds: float | None = None
    ) -> Iterator[tuple[int, CheckOutcome]]:
        """Yield outcomes, and remove their questions from `waiting`, until a check exceeds the whole time limit."""
        is_slow = False
        while self._busy or (waiting and not is_slow):
            while waiting and not is_slow and len(self._busy) < jobs:
                self._send_question(*waiting.popleft(), limit_seconds or self._limit_seconds)
            first_end = min(asked.end for asked in self._busy.values())
            with current_interruption().interrupts_allowed():
                ready = _readable(self._busy, max(0.0, first_end - monotonic()))
            for connection, asked in list(self._busy.items()):
                if connection not in ready and monotonic() < asked.end:
                    continue
                if connection in ready:
                    answer = self._receive_verdict(asked.worker)
                else:
                    _end_worker(asked.worker)
                    answer = timed_out_outcome(asked.limit_seconds)
                del self._busy[connection]
                answer = self._record_duration(answer, asked.began, asked.limit_seconds)
                is_slow |= answer.outcome == TIMED_OUT and not answer.is_assumed
                yield asked.number, answer

    def _send_question(self, number: int, question: Question, limit_seconds: float) -> None:
        worker = self._idle.pop() if self._idle else self._start_worker()
        assert worker.connection not in self._busy, number  # a worker judges one question at a time
        state, answers = question
        image = image_of(state)
        worker.connection.send((ImageDifference.from_images(worker.shown, image), answers, limit_seconds))
        worker.shown = image
        began = monotonic()
        end = began + limit_seconds + (0.0 if self._check.runs_here else _GRACE_SECONDS)
        self._busy[worker.connection] = _PendingQuestion(number, worker, limit_seconds, began, end)

    def _receive_verdict(self, worker: _CheckWorker) -> CheckOutcome:
        """Return the outcome from a worker. If the worker has ended, the outcome is DIED."""
        try:
            verdict: CheckOutcome = worker.connection.recv()
        except EOFError:
            worker.process.join()
            code = worker.process.exitcode
            assert code is not None, "joined"
            _end_worker(worker)
            return CheckOutcome(DIED, (f"the check's process has ended: {exit_text(code)}",))
        self._idle.append(worker)
        return verdict

    def _start_worker(self) -> _CheckWorker:
        ours, theirs = _FORK.Pipe()
        others = [ours, *self._busy, *(worker.connection for worker in self._idle)]
        scratch = Path(self._scratch.name)
        arguments = (theirs, others, self._check, scratch, self._said, self._owner)
        process = _FORK.Process(target=_run_worker, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return _CheckWorker(process, ours)

    def __enter__(self) -> "Checkers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in (*self._idle, *(asked.worker for asked in self._busy.values())):
            _end_worker(worker)
        self._idle.clear()
        self._busy.clear()
        if self._here is not None:
            self._here.discard()
        if self._watch is not None:
            self._watch.close()
        self._scratch.cleanup()

    def _judge_in_this_process(self, state: Image | CrashState, answers: Answers, limit_seconds: float) -> CheckOutcome:
        image = image_of(state)
        if self._here is None or self._watch is None:
            self._here, self._watch = StateDirectory(Path(self._scratch.name)), SleepWatch()
        difference, self._shown_here = ImageDifference.from_images(self._shown_here, image), image
        root, began = self._here.show(difference), monotonic()
        try:
            with (
                current_interruption().interrupts_allowed(),
                cpu_limit(limit_seconds),
                self._watch.watching(limit_seconds),
            ):
                verdict = self._check.judge(root, answers, limit_seconds).without_escape_sequences
        except CpuLimitReached:
            verdict = CheckOutcome(TIMED_OUT, (f"no verdict within {limit_seconds:g} s of CPU time",))
        except SleepLimitReached:
            verdict = timed_out_outcome(limit_seconds)
        verdict = self._record_duration(verdict, began, limit_seconds)
        # A repetition is useless, because the load of the machine changes neither CPU time nor sleep.
        self._has_hung |= verdict.outcome == TIMED_OUT and not verdict.is_assumed
        self._here.find_check_changes(_users_of_files(os.getpid()))
        return verdict


def image_of(state: Image | CrashState) -> Image:
    return state if isinstance(state, Image) else state.image


def _readable(connections: Iterable[Connection], seconds: float) -> set[Connection]:
    """Wait until a connection has a message or has ended. `multiprocessing.connection.wait` costs ten times as much."""
    poll, by_descriptor = select.poll(), {connection.fileno(): connection for connection in connections}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    return {by_descriptor[descriptor] for descriptor, _ in poll.poll(ceil(seconds * 1000))}


def _users_of_files(process: int) -> Iterator[int]:
    yield process
    yield from descendant_processes(process)


def _run_worker(
    connection: Connection, others: list[Connection], check: Check, scratch: Path, said: Path, owner: int
) -> None:
    """Run a worker: judge states until the connection closes. Checks print to the file `said`.

    owner: the pool's process if another program may kill it, else 0.
    """
    if owner:
        os.setpgid(0, 0)
    descriptor = os.open(said, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    sys.stdout = sys.stderr = os.fdopen(2, "w", buffering=1, errors="replace", closefd=False)
    for other in others:
        other.close()

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles interrupts
    for number in (signal.SIGTERM, signal.SIGALRM):  # the inherited signal handlers are the parent's
        signal.signal(number, signal.SIG_DFL)
    fork_below_reaper(connection)

    def end(number: int, frame: FrameType | None) -> NoReturn:
        check.close()
        os._exit(0)

    if not check.runs_here:  # no signal handler may interrupt a Python check; SIGKILL ends it with its process
        signal.signal(signal.SIGTERM, end)
    directory = StateDirectory(scratch)
    while True:
        try:
            difference, answers, limit_seconds = connection.recv()
        except EOFError:
            check.close()
            if owner and _has_ended(owner):
                shutil.rmtree(scratch, ignore_errors=True)
            os._exit(0)
        verdict = check.judge(directory.show(difference), answers, limit_seconds).without_escape_sequences
        if not (check.runs_here or check.keeps_processes):  # ends the processes that do not serve the next state
            kill_other_processes()
        connection.send(verdict)
        directory.find_check_changes(_users_of_files(os.getppid()))


def _has_ended(owner: int) -> bool:
    """Wait for the end of a process, and return whether it has ended. An owner that is alive kills this process."""
    end = monotonic() + _GRACE_SECONDS
    while monotonic() < end:
        try:
            os.kill(owner, 0)
        except ProcessLookupError:
            return True
        sleep(_POLL_SECONDS)
    return False


def _end_worker(worker: _CheckWorker) -> None:
    worker.connection.close()
    worker.process.terminate()
    worker.process.join(_GRACE_SECONDS)
    worker.process.kill()
    worker.process.join()
