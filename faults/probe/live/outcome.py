"""Plan and outcome of a live run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...disk.image import Image
from ..checks.check import Check, CheckOutcome
from ..record import Answers
from ..recording.run import ProgramError
from .images import CrashImage
from .schedule import CUT, LiveEvent, StepCount

DISCARDED = "discarded"
"""Outcome of a run without a verdict."""


@dataclass(frozen=True, slots=True)
class LivePlan:
    """The input of a live run. machines: directories by name. restart: command of a machine, with {machine}.

    start: initial files below the working directory. seconds_max: time limit of the program.
    """

    program: Sequence[str]
    machines: Mapping[str, str]
    restart: Sequence[str]
    start: Image
    check: Check
    check_seconds: float
    seconds_max: float
    stores: str
    takes_refusals: bool


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """A completed event. promises: number of earlier promises. steps: steps of each affected machine since its last
    start.

    images: crash images by machine; empty for a pause. was_late: whether the program had already ended.
    """

    event: LiveEvent
    promises: int
    steps: Mapping[str, int]
    images: Mapping[str, CrashImage]
    was_late: bool


@dataclass(slots=True)
class LiveOutcome:
    """The result of a live run. steps: empty for a run with events. logs: last lines of each log, by name."""

    answers: Answers
    carried_out: list[CarriedOut]
    steps: Mapping[str, StepCount]
    verdict: CheckOutcome
    logs: Mapping[str, str]

    @property
    def cuts(self) -> int:
        """Number of power cuts. A power cut of several machines counts once."""
        return sum(one.event.kind == CUT for one in self.carried_out)


class DiscardedRunError(ProgramError):
    """A run has no verdict. outcome: the events and logs so far."""

    def __init__(self, reason: str, outcome: LiveOutcome) -> None:
        super().__init__(reason)
        self.outcome = outcome
