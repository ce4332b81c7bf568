"""States for other processes: identifies states by crash point and number, and rebuilds them.

A probe on several machines sends the record once. Then it sends the crash point and number of each state instead of its
image, which can be long. Both sides enumerate states in the same order, which the key confirms.
"""

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from ...sim.choices import Choices
from ..crashes.enumeration import CrashState, PossibleStates
from ..disk.image import Image
from .record import Answers, ProgramRecord, RecordError
from .replay import Point, Replayer

StatesOf = Mapping[str, PossibleStates]
"""The states that a crash at one point may leave, by disk."""


class ProbeJob(NamedTuple):
    """The input of a probe, from which states are rebuilt. limit: maximum of states per crash."""

    record: ProgramRecord
    start: Image
    disks: tuple[str, ...]
    limit: int


class StatePlace(NamedTuple):
    """Identifies a state by the crash that may leave it, and by its number among the states of this crash."""

    point: Point
    disk: str
    number: int
    key: int


def states_of_disk(replayer: Replayer, point: Point, disk: str, limit: int, chances: Choices) -> PossibleStates:
    """Return the states that a crash may leave on a disk at a point. The replayer must be at the point."""
    return replayer.states(disk, limit, chances.stream(f"{disk} after {point.operations}"))


class StateFinder:
    """Rebuilds states of one job. This is fast in the order of the record."""

    def __init__(self, job: ProbeJob) -> None:
        self._job = job
        self._answers = job.record.answers
        self._rewind()

    def _rewind(self) -> None:
        self._replayer = Replayer(self._job.record, self._job.start, disks=self._job.disks)
        self._points = self._replayer.points()
        self._at = next(self._points)
        self._states: dict[str, PossibleStates] = {}

    def found(self, place: StatePlace) -> tuple[CrashState, Answers]:
        """Return a state, and the promises and refusals before it. RecordError: this job has no such state."""
        self._go_to(place.point)
        states = self._states.get(place.disk)
        if states is None:
            # New choices, because the old stream would continue after the random values of an earlier visit.
            states = states_of_disk(self._replayer, place.point, place.disk, self._job.limit, Choices("probe"))
            self._states[place.disk] = states
        state = next(islice(states, place.number, None), None)
        found = None if state is None else state.key
        if state is None or found != place.key:
            raise RecordError(f"state {place.number} of {place.disk}: expected key {place.key}, found {found}")
        return state, Answers.from_steps(self._answers[: place.point.answers])

    def _go_to(self, point: Point) -> None:
        if point < self._at:
            self._rewind()
        while self._at != point:
            following = next(self._points, None)
            if following is None:
                raise RecordError(f"point: expected one of the record's, found {point}")
            if following.operations != self._at.operations:
                self._states = {}
            self._at = following
