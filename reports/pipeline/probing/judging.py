"""Executor side of a probe: rebuilds crash states from a record, and checks them.

A Python worker of Spark keeps its check process for later tasks, because a server may be slow to start. Before its
first task the worker checks a state that the driver has checked too. If the verdicts differ, for example because the
executor lacks the interpreter of the check, the probe ends with an error.
"""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

from pyspark import SparkFiles

from ....faults.disk.image import Image
from ....faults.probe.checks.check import CheckError, CheckOutcome
from ....faults.probe.checks.checkers import Checkers
from ....faults.probe.checks.command import CHECK_KINDS, CheckServer
from ....faults.probe.elsewhere import ProbeJob, StateFinder, StatePlace
from ....faults.probe.record import Answers
from ..spark.engine import Shared

_FINDERS_MAX = 2
"""A process keeps the replays of this number of jobs. A recovery job runs in the middle of the job of the program."""


class TrialState(NamedTuple):
    """A state that the driver has checked, and the verdict."""

    image: Image
    answers: Answers
    verdict: CheckOutcome


@dataclass(frozen=True, slots=True)
class CheckOrder:
    """The check that executors run. shipped: absolute directories on the driver, with the names of their archives."""

    kind: str
    name: str
    seconds_max: float
    directory: str
    """The driver's working directory."""
    shipped: tuple[tuple[str, str], ...] = ()


class PackAnswer(NamedTuple):
    """The verdicts on a pack of states. problem: the reason why this executor cannot run the check, or empty."""

    places: Sequence[StatePlace]
    verdicts: Sequence[CheckOutcome]
    seconds: float
    slowest_seconds: float
    output: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PackJudge:
    """The task that checks several states on an executor. number: the number of the job in this probe."""

    order: CheckOrder
    number: int
    job: Shared[ProbeJob]
    trial: Shared[TrialState]

    def __call__(self, places: Sequence[StatePlace]) -> PackAnswer:
        try:
            check_here = _check_for(self.order, self.trial)
        except CheckError as error:
            return PackAnswer(places, (), 0.0, 0.0, "", str(error))
        return check_here.judged(self.number, self.job, places)


class _CheckHere:
    def __init__(self, order: CheckOrder, trial: TrialState) -> None:
        self.order = order
        # Links are resolved, because a check reports its own path without links.
        self._moved = [(place, os.path.realpath(SparkFiles.get(name))) for place, name in order.shipped]
        name = self._here(order.name)
        if order.kind == CheckServer.kind:
            name = shlex.join(map(self._here, shlex.split(order.name)))
        check = CHECK_KINDS[order.kind].make(name)
        if isinstance(check, CheckServer):
            directory = self._here(order.directory)
            check.directory = directory if os.path.isdir(directory) else None
        self._checkers = Checkers(check, 1, order.seconds_max, may_be_killed=True)
        self._finders: dict[int, StateFinder] = {}
        self._output = ""
        (found,) = self._checkers.verdicts([(trial.image, trial.answers)])
        if (found.outcome, self._as_on_driver(found).signature) != (trial.verdict.outcome, trial.verdict.signature):
            expected, differing = _first_line(trial.verdict), _first_line(found)
            self.close()
            raise CheckError(f"{name}: expected the verdict of the driver, {expected}, found {differing}")

    def judged(self, number: int, job: Shared[ProbeJob], places: Sequence[StatePlace]) -> PackAnswer:
        finder = self._finders.pop(number, None) or StateFinder(job.value)
        self._finders[number] = finder
        while len(self._finders) > _FINDERS_MAX:
            del self._finders[next(iter(self._finders))]
        began = perf_counter()
        verdicts = [self._as_on_driver(one) for one in self._checkers.verdicts([*map(finder.found, places)])]
        output, before = self._checkers.output(), self._output
        self._output = output
        new = output.removeprefix(before)
        seconds, slowest = perf_counter() - began, self._checkers.slowest_seconds
        return PackAnswer(places, verdicts, seconds, slowest, new)

    def close(self) -> None:
        self._checkers.__exit__()

    def _here(self, path: str) -> str:
        """Translate a path of the driver into a path of this executor. Other words of a command stay the same."""
        absolute = os.path.normpath(os.path.join(self.order.directory, path))
        for place, moved in self._moved:
            here = moved + absolute.removeprefix(place)
            if f"{absolute}/".startswith(f"{place}/") and os.path.lexists(here):
                return here
        return path

    def _as_on_driver(self, verdict: CheckOutcome) -> CheckOutcome:
        lines = verdict.lines
        for place, moved in self._moved:
            lines = tuple(line.replace(moved, place) for line in lines)
        return verdict._replace(lines=lines)


_current: list[_CheckHere] = []


def _check_for(order: CheckOrder, trial: Shared[TrialState]) -> _CheckHere:
    """Return the check of this process. Raises CheckError if the check cannot run on this executor."""
    if not _current or _current[0].order != order:
        close_check()
        _current.append(_CheckHere(order, trial.value))
    return _current[0]


def close_check() -> None:
    while _current:
        _current.pop().close()


def _first_line(verdict: CheckOutcome) -> str:
    return verdict.lines[0] if verdict.lines else verdict.outcome
