"""Schedule of a live run: which machines are cut or paused, after which step, drawn from a seed.

The first event of a run counts the steps of its first machine from the start of the run, each later one from the
beginning of the event before it. The first event comes after the first promise, because before it there is nothing to
lose. The numbers are from a run without events, rounded up: two such runs can differ by a few steps, and a seed must
select the same step again.

    a cut of one machine     it is off for some time, and the others go on
    a cut of several         all at one moment, often all machines: only then is data lost that every machine has
    a pause of one           it lags behind, so that the others have newer data

Most runs have a cut of several machines or of one after a pause, because a cluster survives most cuts of one machine.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ....sim.choices import Choices, Stream
from .images import IMAGE_CHOICES

CUT, PAUSE = "cut", "pause"
EVENTS_MAX = 2
"""Default maximum of events in one run."""
_OFF_MS = (0, 300, 2000, 6000)
"""Durations, short and long in comparison with the time-outs of an election."""


class LiveEvent(NamedTuple):
    """One cut or pause. machines: those affected; the first one's steps are counted.

    images: how the crash image of each machine is chosen (`images`). ms: time until the restart, or of the pause.
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
    """The steps of one machine in one run: before the first promise, and all."""

    setup: int
    total: int


def schedule_of(seed: int, steps: Mapping[str, StepCount], disks: Sequence[str], events_max: int) -> list[LiveEvent]:
    """Draw the events of one run. steps: of each machine in a run without events."""
    stream = Choices(f"live {seed}").stream("schedule")
    count = stream.randint(1, events_max, "events")
    parts = {name: max(1, _rounded(made.total - made.setup) // count) for name, made in steps.items()}
    events = [_event(stream, parts, disks, number == count - 1) for number in range(count)]
    first = events[0]
    events[0] = first._replace(after_steps=_rounded(steps[first.machines[0]].setup) + first.after_steps)
    assert any(event.kind == CUT for event in events), events
    return events


def _event(stream: Stream, parts: Mapping[str, int], disks: Sequence[str], is_last: bool) -> LiveEvent:
    """Draw an event. parts: the maximum of steps of each machine before it."""
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
    # In half of the cuts all images are the oldest: data that one machine has kept is often not lost for the cluster.
    is_alike = stream.chance(0.5, "alike")
    images = tuple(IMAGE_CHOICES[0] if is_alike else stream.choice(IMAGE_CHOICES, "image") for _ in machines)
    return LiveEvent(CUT, machines, after, ms, stream.choice(disks, "disk"), images)


def _rounded(steps: int) -> int:
    """Return a number of steps rounded up to two leading bits. Steps after the last one become late cuts."""
    shift = max(0, steps.bit_length() - 2)
    return -(-steps >> shift) << shift
