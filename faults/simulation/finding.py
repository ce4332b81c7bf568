"""A finding is a run that failed, and all it takes to see it again: seed or no seed, whatever the code is by then.

format      "tornlog-finding/1"
seed        of the run that it began with
signature   what makes two failures the same: the promise that broke, or else the kind of error
error       what ended the run, in full
digest      of the run; a replay by the same code gives the same
steps       scheduling points it took
crashes     how lives ended: [life, profile, moment, point]
schedule    where tasks did not just run until they blocked, one line each (sim.schedule)
decisions   every draw that was not 0: stream -> [[label, nth, options, value], ...] (sim.choices)
story       the last things that happened before it
raised      the innermost line of the user's own that it came through: "file:line in function"; empty: there is none
shrunk      whether it was made smaller than the seed had it

Older documents lack the last two.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...sim.choices import Decision, decisions_of, recorded
from ...sim.schedule import parse_switch
from ...sim.shrink import Decided
from ...sim.trace import Trace
from ..crashes.profiles import PROFILES
from ..disk.crash_trigger import CrashPoint
from ..disk.fault_injector import MOMENTS
from .simulation import TAKEN, Crash

FORMAT = "tornlog-finding/1"
_STORY_EVENTS = 30
_UNTOLD = ("switch", "start", "end")
_IS_TAKEN = f" {TAKEN}"


@dataclass(frozen=True, slots=True)
class TrialRecord(Decided):
    """What decides a run: beside draws and schedule, how its lives end."""

    crashes: tuple[Crash, ...]

    @property
    def taken(self) -> tuple[Decision, ...]:
        """Return the steps of the workload that are taken, as the draws that say so."""
        return tuple(decision for decision in self.decisions if decision.label.endswith(_IS_TAKEN))


@dataclass(frozen=True, slots=True)
class Finding:
    """A run that failed. As text, all there is to read in it; as JSON, all there is to keep."""

    seed: int
    record: TrialRecord
    signature: str
    error: str
    digest: str
    steps: int
    story: tuple[str, ...]
    """The last things that happened: when, who, what."""
    raised: str = ""
    """The innermost line of the user's own that it came through: "file:line in function"; empty: there is none."""
    is_shrunk: bool = False

    def __str__(self) -> str:
        return self.text(self.raised.rpartition("/")[2])

    def text(self, raised: str) -> str:
        """Return all there is to read in it; raised: its place, as the reader knows files."""
        record = self.record
        others = (decision for decision in record.decisions if not decision.label.endswith(_IS_TAKEN))
        return "\n".join(
            [
                f"{'shrunk from ' if self.is_shrunk else ''}seed {self.seed}: {self.error}",
                *_headed("raised", [raised] if raised else []),
                *_headed(
                    "workload", (f"{step.stream}, {step.label[: -len(_IS_TAKEN)]}" for step in record.taken)
                ),
                *_headed("crashes", record.crashes),
                *_headed("schedule", record.schedule),
                *_headed("draws", others),
                *_headed("story", self.story),
            ]
        )

    def to_json(self) -> str:
        """Return the finding as a document."""
        document = {
            "format": FORMAT,
            "seed": self.seed,
            "signature": self.signature,
            "error": self.error,
            "digest": self.digest,
            "steps": self.steps,
            "crashes": [list(crash) for crash in self.record.crashes],
            "schedule": [str(switch) for switch in self.record.schedule],
            "decisions": recorded(self.record.decisions),
            "story": list(self.story),
            "raised": self.raised,
            "shrunk": self.is_shrunk,
        }
        return json.dumps(document, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Finding":
        """Read what to_json wrote. Raises ValueError saying what is wrong with another text."""
        document = json.loads(text)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            found = document.get("format") if isinstance(document, dict) else type(document).__name__
            raise ValueError(f"format: expected {FORMAT}, found {found}")
        try:
            record = TrialRecord(
                tuple(decisions_of(document["decisions"])),
                tuple(parse_switch(line) for line in document["schedule"]),
                tuple(_crash_of(*crash) for crash in document["crashes"]),
            )
            return cls(
                document["seed"],
                record,
                document["signature"],
                document["error"],
                document["digest"],
                document["steps"],
                tuple(document["story"]),
                str(document.get("raised", "")),
                bool(document.get("shrunk", False)),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a finding: {type(error).__name__}: {error}") from error


def story_of(trace: Trace) -> tuple[str, ...]:
    """Return the last things that happened, but for switches of tasks."""
    events = [event for event in trace if event.kind not in _UNTOLD]
    return tuple(
        f"{event.now_ns / 1e6:9.3f} ms  {event.task}: {event.kind} {event.text}"
        for event in events[-_STORY_EVENTS:]
    )


def _crash_of(life: str, profile: str, moment: str, point: str) -> Crash:
    if profile not in PROFILES:
        raise ValueError(f"crashes: expected a profile, found {profile}")
    if moment not in MOMENTS:
        raise ValueError(f"crashes: expected one of {', '.join(MOMENTS)}, found {moment}")
    if point:
        CrashPoint.parse(point)
    return Crash(life, profile, moment, point)


def _headed(name: str, lines: Iterable[object]) -> Iterator[str]:
    """Yield lines behind a column that names the first."""
    for line in lines:
        yield f"  {name:<9} {line}"
        name = ""
