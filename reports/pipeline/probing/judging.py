"""Judging on an executor: rebuilds crash states from a record, and runs the check on them.

A Python process of Spark keeps its check for later tasks, because a server may be slow to start. Before its first task
it repeats a check that the driver has done. So an executor without the check's interpreter or files is an error, not a
broken promise.
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
from ....faults.probe.checks.command import CheckServer
from ....faults.probe.checks.kinds import CHECK_KINDS
from ....faults.probe.elsewhere import ProbeJob, StateFinder, StatePlace
from ....faults.probe.record import Answers
from ..spark.engine import Shared

_FINDERS_MAX = 2
"""Jobs whose replays a process keeps: the recoveries of a probe interrupt the job of the program."""


class TrialState(NamedTuple):
    """A state that the driver has judged, and its verdict."""

    image: Image
    answers: Answers
    verdict: CheckOutcome


@dataclass(frozen=True, slots=True)
class CheckOrder:
    """The check that executors run. shipped: absolute directories of the driver by the name of their archive."""

    kind: str
    name: str
    seconds_max: float
    directory: str
    """The driver's working directory."""
    shipped: tuple[tuple[str, str], ...] = ()


class PackAnswer(NamedTuple):
    """The verdicts on a pack of states. problem: why the check cannot run here; empty if it can."""

    places: Sequence[StatePlace]
    verdicts: Sequence[CheckOutcome]
    seconds: float
    slowest_seconds: float
    said: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PackJudge:
    """The task of an executor. number: of the job in this probe."""

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
    """The check of an order in this process."""

    def __init__(self, order: CheckOrder, trial: TrialState) -> None:
        self.order = order
        # The path without links, because a check reports its own path without links.
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
        self._said = ""
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
        said, before = self._checkers.said(), self._said
        self._said = said
        new = said.removeprefix(before)
        seconds, slowest = perf_counter() - began, self._checkers.slowest_seconds
        return PackAnswer(places, verdicts, seconds, slowest, new)

    def close(self) -> None:
        self._checkers.__exit__(None, None, None)

    def _here(self, path: str) -> str:
        """Return where a path of the driver is on this executor. A word of a command may be no path."""
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
"""The check of this process, if it has one."""


def _check_for(order: CheckOrder, trial: Shared[TrialState]) -> _CheckHere:
    """Return the check of an order. CheckError: the check cannot run here."""
    if not _current or _current[0].order != order:
        close_check()
        _current.append(_CheckHere(order, trial.value))
    return _current[0]


def close_check() -> None:
    """End the check of this process. It ends by itself if Spark kills the process."""
    while _current:
        _current.pop().close()


def _first_line(verdict: CheckOutcome) -> str:
    return verdict.lines[0] if verdict.lines else verdict.outcome
