"""Spread checkers: a pool of checkers that checks crash states on Spark executors.

As without Spark, the driver enumerates states and counts verdicts, so the results are the same. The driver enumerates
the states of each crash point before the probe needs them, and sends several states per task (a pack). If a verdict has
not arrived when the probe needs it, the probe waits. This process checks all other states: the end of the run, attempts
of shrinking, repeated timeouts, and jobs with few states.
"""

import os
import tarfile
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from threading import Condition, Thread

from ....faults.crashes.enumeration import CrashState
from ....faults.probe.checks.check import TIMED_OUT, Check, CheckOutcome
from ....faults.probe.checks.checkers import Checkers, IsKnown, Question, Visit, image_of
from ....faults.probe.elsewhere import ProbeJob, StatePlace
from ....sim.interruption import current_interruption
from ..spark.engine import BundleSize, Engine, ExecutorError
from ..spark.options import engine_for
from .judging import CheckOrder, PackAnswer, PackJudge, TrialState

_FEW = 12
"""This process checks the states of a smaller job, because a Spark job takes as long as several checks."""
_FIRST_PACK = 8
_PACKS_PER_CORE = 4
"""Packs per core that are in flight or ready to be sent. The engine runs two of these as tasks."""
_AHEAD_MAX = 8
"""Maximum number of states enumerated ahead, as a multiple of the states in flight. Packs can overtake a slow pack."""
_VISITS_MAX = 2048
_WAIT_SECONDS = 0.5
_ARCHIVES = "spark.archives"
Key = tuple[int, int]
"""The key of a state, and the number of acknowledgements and refusals before the crash."""


class _Packs(Iterator[Sequence[StatePlace]]):
    """The packs that are ready to be sent. Iteration stops when no pack is ready, and can be resumed later."""

    def __init__(self) -> None:
        self.ready: deque[list[StatePlace]] = deque()

    def __next__(self) -> Sequence[StatePlace]:
        try:
            return self.ready.popleft()
        except IndexError:
            raise StopIteration from None


def _key_of(place: StatePlace) -> Key:
    return place.key, place.point.answers


class _JobAhead:
    """The states of one job that are sent before the probe needs their verdicts.

    Invariant: each key in `_expected` is in the open pack, in a ready pack, in flight, or in `_arrived`.
    """

    def __init__(self, engine: Engine, judge: Callable[[], PackJudge], size: BundleSize) -> None:
        self._engine = engine
        self._judge = judge
        self._size = size
        self._changed = Condition()
        self._packs = _Packs()
        self._open: list[StatePlace] = []
        self._expected: set[Key] = set()
        self._arrived: dict[Key, CheckOutcome] = {}
        self._in_flight = 0
        self._thread: Thread | None = None
        self._is_closed = False
        self._error: BaseException | None = None
        self.slowest_seconds = 0.0
        self.output: list[str] = []

    @property
    def wants_more(self) -> bool:
        wanted = self._size.items * _PACKS_PER_CORE * self._engine.cores
        return self._in_flight < wanted and len(self._expected) < _AHEAD_MAX * wanted

    def add_state(self, place: StatePlace) -> None:
        key = _key_of(place)
        if key in self._expected:
            return
        self._expected.add(key)
        with self._changed:
            self._in_flight += 1
        self._open.append(place)
        if len(self._open) >= self._size.items:
            self._send()

    def send_rest(self) -> None:
        """Send the last states. If the job has few states, this process checks them instead."""
        if self._thread is None and len(self._open) < _FEW:
            self._expected.clear()
            self._open.clear()
            return
        self._send()

    def take_verdict(self, key: Key) -> CheckOutcome | None:
        """Remove and return the verdict on a state; None if the state was not sent.

        Raises ExecutorError if no executor can run the check, EndedEarlyError if the probe was interrupted.
        """
        if key not in self._expected:
            return None
        if any(_key_of(place) == key for place in self._open):
            self._send()
        with self._changed:
            while key not in self._arrived:
                if self._error is not None:
                    raise self._error
                with current_interruption().interrupts_allowed():
                    self._changed.wait(_WAIT_SECONDS)
            self._expected.discard(key)
            return self._arrived.pop(key)

    def close(self) -> None:
        """Send no more states. Running tasks continue."""
        with self._changed:
            self._is_closed = True
            self._packs.ready.clear()
            self._changed.notify_all()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _send(self) -> None:
        pack, self._open = self._open, []
        if not pack:
            return
        with self._changed:
            self._packs.ready.append(pack)
            self._changed.notify_all()
        if self._thread is None:
            self._thread = Thread(target=self._run_packs, args=(self._judge(),), name="probe-states", daemon=True)
            self._thread.start()

    def _run_packs(self, judge: PackJudge) -> None:
        """The function of the thread: run packs until the job is closed."""
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closed or self._packs.ready)
                    if self._is_closed:
                        return
                for answer in self._engine.results(judge, self._packs):
                    self._store_answer(answer)
        except Exception as error:  # raised later by `take_verdict` in the thread of the probe
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _store_answer(self, answer: PackAnswer) -> None:
        if answer.problem:
            raise ExecutorError(f"the check cannot run on executors: {answer.problem}. --ship DIR sends its files")
        with self._changed:
            for place, verdict in zip(answer.places, answer.verdicts, strict=True):
                self._arrived[_key_of(place)] = verdict
            self._in_flight -= len(answer.places)
            self._size.adapt(len(answer.places), answer.seconds)
            self.slowest_seconds = max(self.slowest_seconds, answer.slowest_seconds)
            self.output.append(answer.output)
            self._changed.notify_all()


class SpreadCheckers(Checkers):
    """Checkers on Spark. jobs: number of local processes for states that are not sent to executors."""

    def __init__(self, check: Check, jobs: int, seconds_max: float, engine: Engine, order: CheckOrder) -> None:
        super().__init__(check, jobs, seconds_max)
        self._engine = engine
        self._order = order
        self._size = BundleSize(_FIRST_PACK)
        self._trial: TrialState | None = None
        self._ahead: list[_JobAhead] = []
        """The jobs in progress, innermost last: a recovery job runs during the job of the program."""
        self._closed: list[_JobAhead] = []
        self._jobs_seen = 0

    def looking_ahead(
        self, visits: Generator[Visit, None, None], job: ProbeJob, is_known: IsKnown
    ) -> Generator[Visit, None, None]:
        with self._ahead_of(job) as ahead:
            taken: deque[Visit] = deque()
            is_ended = False
            while True:
                while not is_ended and (not taken or (ahead.wants_more and len(taken) < _VISITS_MAX)):
                    visit = next(visits, None)
                    if visit is None:
                        is_ended = True
                        ahead.send_rest()
                    else:
                        taken.append(visit)
                        _take_states(ahead, visit, is_known)
                if not taken:
                    return
                yield taken.popleft()

    @contextmanager
    def _ahead_of(self, job: ProbeJob) -> Iterator[_JobAhead]:
        trial = self._trial
        assert trial is not None, "the end of the run is judged first"
        self._jobs_seen += 1
        number, shared = self._jobs_seen, self._engine.shared
        ahead = _JobAhead(self._engine, lambda: PackJudge(self._order, number, shared(job), shared(trial)), self._size)
        self._ahead.append(ahead)
        try:
            yield ahead
        finally:
            ahead.close()
            last = self._ahead.pop()
            assert last is ahead, "jobs are nested"
            self._closed.append(ahead)

    def judge_each(self, questions: Sequence[Question]) -> Generator[tuple[int, CheckOutcome], None, None]:
        own = []
        for number, question in enumerate(questions):
            verdict = self._sent_verdict(question)
            if verdict is None:
                own.append(number)
            else:
                yield number, verdict
        for number, verdict in super().judge_each([questions[number] for number in own]):
            if self._trial is None:
                state, answers = questions[own[number]]
                self._trial = TrialState(image_of(state), answers, verdict)
            yield own[number], verdict

    def _sent_verdict(self, question: Question) -> CheckOutcome | None:
        """Return the verdict of an executor; None if the state was not sent. Applies the time limits of this pool."""
        state, answers = question
        if not self._ahead or not isinstance(state, CrashState):
            return None
        ahead = self._ahead[-1]
        verdict = ahead.take_verdict((state.key, len(answers.acknowledged) + len(answers.refused)))
        if verdict is None:
            return None
        is_reduced = self._limit_seconds < self._seconds_max
        if verdict.outcome == TIMED_OUT and not is_reduced:
            # The executor assumed this timeout, because an earlier state had timed out twice.
            if verdict.is_assumed:
                return self.judge_again(question)
            self.repeated += 1
            self._has_hung = True
            return verdict
        self.reduced += is_reduced
        if verdict.outcome == TIMED_OUT:
            return self._mark_assumed(verdict)
        self._slowest_seconds = max(self._slowest_seconds, ahead.slowest_seconds)
        return verdict

    def output(self) -> str:
        return super().output() + "".join(text for ahead in self._closed for text in ahead.output)

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        if any(ahead.is_running for ahead in self._closed):
            self._engine.cancel()
        for ahead in self._closed:
            ahead.join()


def _take_states(ahead: _JobAhead, visit: Visit, is_known: IsKnown) -> None:
    point, states_of = visit
    for disk, states in states_of.items():
        for number, state in enumerate(states):
            if not is_known(point, disk, state):
                ahead.add_state(StatePlace(point, disk, number, state.key))


@contextmanager
def checkers_on(
    master: str, ship: Sequence[str], conf: Sequence[str], check: Check, jobs: int, seconds_max: float
) -> Iterator[Checkers]:
    """Yield checkers on a Spark master. Raises BadParameter for user errors, and if executors cannot run the check."""
    directories = {os.path.abspath(one): f"check-{number}" for number, one in enumerate(ship) if os.path.isdir(one)}
    order = CheckOrder(check.kind, check.name, seconds_max, os.getcwd(), tuple(directories.items()))
    with TemporaryDirectory(prefix="tornlog-ship-") as aside:
        archives = [value for key, _, value in (one.partition("=") for one in conf) if key == _ARCHIVES]
        for place, name in directories.items():
            archives.append(f"{aside}/{name}.tar.gz#{name}")
            with tarfile.open(f"{aside}/{name}.tar.gz", "w:gz", compresslevel=1) as file:
                file.add(place, ".")
        code = [one for one in ship if not os.path.isdir(one)]
        # A property, because Spark would use the Python in the first archive of --ship.
        properties = [*conf, *([f"{_ARCHIVES}={','.join(archives)}"] if archives else [])]
        with (
            engine_for(master, code, properties) as engine,
            SpreadCheckers(check, jobs, seconds_max, engine, order) as checkers,
        ):
            yield checkers
