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
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

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
from .reaper import SleepLimitReached, SleepWatch
from .state_directory import StateDirectory
from .worker import MESSAGE_SECONDS, CheckWorker, users_of_files

Question = tuple[Image | CrashState, Answers]
"""A state, and the promises and refusals before it."""
Visit = tuple[Point, StatesOf]
"""A crash point, and the states that a crash at this point may leave."""
IsKnown = Callable[[Point, str, CrashState], bool]
"""Returns whether the state of a disk at a point has a verdict."""
_IN_MEMORY = "/dev/shm"
_OUTPUT_BYTES_MAX = 64 << 10
_REDUCED_FACTOR, _REDUCED_SECONDS_MIN = 10.0, 1.0
_BATCH_MAX = 16
"""Maximum of questions in a batch. A longer one saves little, and an early end of the probe would lose it."""
_SECONDS_MIN = 1e-6  # a coarse clock may measure no time
_GRACE_SECONDS = 5.0  # grace period for a check in another process, which enforces the time limit itself


@dataclass(slots=True, eq=False)
class _Batch:
    """Questions that a worker is judging, oldest first. end: deadline of the first one by the monotonic clock."""

    worker: CheckWorker
    questions: deque[tuple[int, Question]]
    limit_seconds: float
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
        self._idle: list[CheckWorker] = []
        self._busy: dict[Connection, _Batch] = {}
        self._mean_seconds = MESSAGE_SECONDS  # of the last checks in other processes; before them one per batch
        self.judged = 0
        self.repeated = 0
        """Number of checks repeated after they exceeded the time limit."""
        self.reduced = 0
        """Number of checks with a reduced time limit."""
        self.assumed = 0
        """Number of checks that exceeded a reduced time limit."""
        self._has_hung = False  # whether a time-out was confirmed
        self._slowest_seconds = 0.0  # duration of the slowest check that returned
        self._output_file = Path(self._scratch.name, "output")
        self._output_file.touch()
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

    def output(self) -> str:
        """Return the end of the standard output and standard error of checks in other processes."""
        with self._output_file.open("rb") as file:
            file.seek(max(0, self._output_file.stat().st_size - _OUTPUT_BYTES_MAX))
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
            for batch in self._busy.values():
                batch.worker.end()
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

    def _record_duration(self, answer: CheckOutcome, seconds: float, limit_seconds: float) -> CheckOutcome:
        """Record the duration of a check. Return its outcome, as an assumed time-out if it exceeded a reduced limit."""
        is_reduced = limit_seconds < self._seconds_max
        self.reduced += is_reduced
        if answer.outcome != TIMED_OUT:
            self._slowest_seconds = max(self._slowest_seconds, seconds)
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
                self._send_batch(waiting, jobs, limit_seconds or self._limit_seconds)
            first_end = min(batch.end for batch in self._busy.values())
            with current_interruption().interrupts_allowed():
                ready = _readable(self._busy, max(0.0, first_end - monotonic()))
            for connection, batch in list(self._busy.items()):
                if connection not in ready and monotonic() < batch.end:
                    continue
                for number, answer in self._receive_outcomes(batch, waiting, has_message=connection in ready):
                    is_slow |= answer.outcome == TIMED_OUT and not answer.is_assumed
                    yield number, answer

    def _send_batch(self, waiting: deque[tuple[int, Question]], jobs: int, limit_seconds: float) -> None:
        """Send questions to a worker: several if checks are short."""
        worker = self._idle.pop() if self._idle else self._start_worker()
        assert worker.connection not in self._busy, "a worker judges one batch at a time"
        count = max(1, min(_BATCH_MAX, int(MESSAGE_SECONDS / self._mean_seconds), ceil(len(waiting) / jobs)))
        questions = deque(waiting.popleft() for _ in range(min(count, len(waiting))))
        worker.send([(image_of(state), answers) for _, (state, answers) in questions], limit_seconds)
        batch = self._busy[worker.connection] = _Batch(worker, questions, limit_seconds, 0.0)
        self._set_deadline(batch)

    def _set_deadline(self, batch: _Batch) -> None:
        """Set the deadline of the check that the worker of a batch began since its last message."""
        grace_seconds = 0.0 if self._check.runs_here else _GRACE_SECONDS
        batch.end = monotonic() + batch.limit_seconds + grace_seconds + (len(batch.questions) > 1) * MESSAGE_SECONDS

    def _receive_outcomes(
        self, batch: _Batch, waiting: deque[tuple[int, Question]], *, has_message: bool
    ) -> list[tuple[int, CheckOutcome]]:
        """Return the new outcomes of a batch. If its worker has ended or hangs, the other questions wait again."""
        worker, limit_seconds = batch.worker, batch.limit_seconds
        has_ended = has_message and worker.has_ended()
        outcomes = worker.new_outcomes()
        if outcomes:
            self._mean_seconds = max(sum(seconds for _, seconds in outcomes) / len(outcomes), _SECONDS_MIN)
        hangs = not has_message and not outcomes
        if has_ended and len(outcomes) < len(batch.questions):
            code = worker.process.exitcode
            assert code is not None, "joined"
            outcomes.append((CheckOutcome(DIED, (f"the check's process has ended: {exit_text(code)}",)), 0.0))
        elif hangs:
            outcomes.append((timed_out_outcome(limit_seconds), limit_seconds))
        answers = [
            (batch.questions.popleft()[0], self._record_duration(answer, seconds, limit_seconds))
            for answer, seconds in outcomes
        ]
        if has_ended or hangs:
            worker.end()
            waiting.extendleft(reversed(batch.questions))
        elif batch.questions:
            self._set_deadline(batch)
            return answers
        else:
            self._idle.append(worker)
        del self._busy[worker.connection]
        return answers

    def _start_worker(self) -> CheckWorker:
        others = [*self._busy, *(worker.connection for worker in self._idle)]
        return CheckWorker(self._check, Path(self._scratch.name), self._output_file, self._owner, others)

    def __enter__(self) -> "Checkers":
        return self

    def __exit__(self, *raised: object) -> None:
        for worker in (*self._idle, *(batch.worker for batch in self._busy.values())):
            worker.end()
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
        verdict = self._record_duration(verdict, monotonic() - began, limit_seconds)
        # A repetition is useless, because the load of the machine changes neither CPU time nor sleep.
        self._has_hung |= verdict.outcome == TIMED_OUT and not verdict.is_assumed
        self._here.find_check_changes(users_of_files(os.getpid()))
        return verdict


def image_of(state: Image | CrashState) -> Image:
    return state if isinstance(state, Image) else state.image


def _readable(connections: Iterable[Connection], seconds: float) -> set[Connection]:
    """Wait until a connection has a message or has ended. `multiprocessing.connection.wait` costs ten times as much."""
    poll, by_descriptor = select.poll(), {connection.fileno(): connection for connection in connections}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    return {by_descriptor[descriptor] for descriptor, _ in poll.poll(ceil(seconds * 1000))}
