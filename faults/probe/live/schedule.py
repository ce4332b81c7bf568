"""Schedule and outcome of a live run: derives power cuts and pauses, with their steps, from a seed.

The step of an event counts steps of its first machine from the start of the previous event, or of the run. The first
event follows the first promise, because an earlier crash cannot break a promise. The maximum comes from the steps of a
run without events, rounded up, so that runs that differ by a few steps give the same events for a seed.

    cut of one machine     the others run on without it
    cut of several         at one moment, often of all machines, which alone loses data that every machine has
    pause of one           the others get newer data meanwhile

A cluster survives most power cuts of one machine, so most runs cut several machines, or one after a pause.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ....sim.choices import Choices, Stream
from ...disk.image import Image
from ..checks.check import Check, CheckOutcome
from ..record import Answers
from ..recording.run import ProgramError
from .directory import IMAGE_CHOICES, CrashImage

CUT, PAUSE = "cut", "pause"
EVENTS_MAX = 2
"""Default maximum of events per run."""
_OFF_MS = (0, 300, 2000, 6000)
"""Durations, shorter and longer than usual election time-outs."""


class LiveEvent(NamedTuple):
    """One power cut or pause. machines: affected machines; the steps are those of the first one.

    images: choice of each crash image (`directory`). ms: time until the restart, or length of the pause.
    """

    kind: str
    machines: tuple[str, ...]
    after_steps: int
    ms: int
    disk: str = ""
    images: tuple[str, ...] = ()

    def __str__(self) -> str:
        who = ", ".join(self.machines)
        moment = f"after {self.after_steps:,} steps of {self.machines[0]}"
        if self.kind == PAUSE:
            return f"pause {who} {moment}, for {self.ms / 1000:g} s"
        images = ", ".join(dict.fromkeys(self.images))
        return f"cut {who} {moment}, on {self.disk}, image: {images}; restart after {self.ms / 1000:g} s"


class StepCount(NamedTuple):
    """The steps of one machine in one run: number before the first promise, and total."""

    setup: int
    total: int


def schedule_of(seed: int, steps: Mapping[str, StepCount], disks: Sequence[str], events_max: int) -> list[LiveEvent]:
    """Return the events of a seed. steps: steps of each machine in a run without events."""
    stream = Choices(f"live {seed}").stream("schedule")
    count = stream.randint(1, events_max, "events")
    parts = {name: max(1, _rounded(made.total - made.setup) // count) for name, made in steps.items()}
    events = [_event(stream, parts, disks, number == count - 1) for number in range(count)]
    first = events[0]
    events[0] = first._replace(after_steps=_rounded(steps[first.machines[0]].setup) + first.after_steps)
    assert any(event.kind == CUT for event in events), events
    return events


def _event(stream: Stream, parts: Mapping[str, int], disks: Sequence[str], is_last: bool) -> LiveEvent:
    """Return a random event. parts: maximum steps of each machine before the event."""
    names = list(parts)
    first = stream.choice(names, "machine")
    others = [name for name in names if name != first]
    after = stream.randint(1, parts[first], "step")
    if not is_last and stream.chance(0.5, "pause"):
        return LiveEvent(PAUSE, (first,), after, stream.choice(_OFF_MS[1:], "duration"))
    ms = stream.choice(_OFF_MS, "duration")
    size = stream.choice((1, 1, len(names) // 2 + 1, len(names), len(names)), "machines")
    while len(others) >= size:
        del others[stream.randbelow(len(others), "spared")]
    machines = (first, *others)
    # Half of the cuts have only oldest images, because one machine that keeps its data may save the cluster's data.
    is_alike = stream.chance(0.5, "alike")
    images = tuple(IMAGE_CHOICES[0] if is_alike else stream.choice(IMAGE_CHOICES, "image") for _ in machines)
    return LiveEvent(CUT, machines, after, ms, stream.choice(disks, "disk"), images)


def _rounded(steps: int) -> int:
    """Round a number of steps up to two leading bits. A step beyond the end of the program becomes a late cut."""
    shift = max(0, steps.bit_length() - 2)
    return -(-steps >> shift) << shift


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
class CompletedEvent:
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
    completed_events: list[CompletedEvent]
    steps: Mapping[str, StepCount]
    verdict: CheckOutcome
    logs: Mapping[str, str]

    @property
    def cuts(self) -> int:
        """Number of power cuts. A power cut of several machines counts once."""
        return sum(one.event.kind == CUT for one in self.completed_events)


class DiscardedRunError(ProgramError):
    """A run has no verdict. outcome: the events and logs so far."""

    def __init__(self, reason: str, outcome: LiveOutcome) -> None:
        super().__init__(reason)
        self.outcome = outcome
