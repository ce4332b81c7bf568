"""A failure is an artefact: `failure.json` holds all it takes to see it again, seed or no seed.

format      "tornlog-failure/1"
versions    of tornlog and Python
scenario    its name; claim: its sentence; seed; mutant: its id or null
plan        what the seed drew (scenarios.plan)
choices     every draw: stream -> [[label, options, value], ...]
schedule    every switch of tasks: [points passed, label, task]
digest      of the run; a replay must give the same
violations  what broke, the first first
story       the last things that happened before it
"""

import json
import platform
from dataclasses import dataclass, fields
from types import NoneType
from typing import Any

from .. import __version__
from ..sim.choices import Choices
from ..sim.errors import ReplayDivergedError
from ..sim.policies.replay import Replay
from ..sim.trace import Trace, TraceEvent
from .judging.evidence import Violation
from .machine import ROOT
from .plan import Plan
from .run import Outcome, Run

FORMAT = "tornlog-failure/1"
STORY_EVENTS = 30
_UNTOLD = ("switch", "start", "end")


class FailureFileError(Exception):
    """A file that is not a failure this version can read."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One broken promise with the run that broke it."""

    scenario: str
    claim: str
    seed: int
    mutant: str | None
    plan: Plan
    choices: dict[str, list[list[Any]]]
    schedule: list[list[Any]]
    digest: str
    violations: list[Violation]
    story: list[str]

    @property
    def signature(self) -> str:
        """Return what names the file: scenario and kind of breach."""
        return f"{self.scenario}-{self.violations[0].signature}"

    def to_json(self) -> str:
        """Return the artefact's text."""
        document = {
            "format": FORMAT,
            "versions": {"tornlog": __version__, "python": platform.python_version()},
            "scenario": self.scenario,
            "claim": self.claim,
            "seed": self.seed,
            "mutant": self.mutant,
            "plan": self.plan.to_json(),
            "digest": self.digest,
            "violations": [violation.to_json() for violation in self.violations],
            "story": self.story,
            "schedule": self.schedule,
            "choices": self.choices,
        }
        return json.dumps(document, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Failure":
        """Read an artefact. Raises FailureFileError naming what is wrong with it."""
        try:
            document = json.loads(text)
        except ValueError as error:
            raise FailureFileError(f"not JSON: {error}") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            found = document.get("format") if isinstance(document, dict) else type(document).__name__
            raise FailureFileError(f"format: expected {FORMAT}, found {found}")
        _check(document)
        try:
            plan = Plan.from_json(document["plan"])
        except ValueError as error:
            raise FailureFileError(str(error)) from error
        return cls(
            document["scenario"],
            document["claim"],
            document["seed"],
            document["mutant"],
            plan,
            document["choices"],
            document["schedule"],
            document["digest"],
            [Violation(**violation) for violation in document["violations"]],
            document["story"],
        )


_KINDS: dict[str, tuple[type, ...]] = {
    "scenario": (str,),
    "claim": (str,),
    "seed": (int,),
    "mutant": (str, NoneType),
    "plan": (dict,),
    "choices": (dict,),
    "schedule": (list,),
    "digest": (str,),
    "violations": (list,),
    "story": (list,),
}
_DRAW = ((str,), (int, float), (int,))
_SWITCH = ((int,), (str,), (str,))
_VIOLATION = {field.name: int if field.name == "offset" else str for field in fields(Violation)}


def _check(document: dict[str, Any]) -> None:
    """Raise FailureFileError naming the first field that is not what a replay can work with."""
    for name, kinds in _KINDS.items():
        if name not in document:
            raise FailureFileError(f"{name}: missing")
        if type(document[name]) not in kinds:
            raise _wrong(name, " or ".join(kind.__name__ for kind in kinds), document[name])
    for stream, draws in document["choices"].items():
        if not isinstance(draws, list):
            raise _wrong(f"choices.{stream}", "list", draws)
        _check_rows(f"choices.{stream}", draws, _DRAW, "[label, options, value]")
    _check_rows("schedule", document["schedule"], _SWITCH, "[points, label, task]")
    if not document["violations"]:
        raise FailureFileError("violations: expected at least one, found none")
    for number, violation in enumerate(document["violations"]):
        place = f"violations.{number}"
        if not isinstance(violation, dict) or violation.keys() != _VIOLATION.keys():
            raise _wrong(place, f"the fields {', '.join(_VIOLATION)}", violation)
        for name, kind in _VIOLATION.items():
            if type(violation[name]) is not kind:
                raise _wrong(f"{place}.{name}", kind.__name__, violation[name])
    for number, line in enumerate(document["story"]):
        if not isinstance(line, str):
            raise _wrong(f"story.{number}", "str", line)


def _check_rows(place: str, rows: list[Any], kinds: tuple[tuple[type, ...], ...], shape: str) -> None:
    for number, row in enumerate(rows):
        if (
            not isinstance(row, list)
            or len(row) != len(kinds)
            or any(type(value) not in wanted for value, wanted in zip(row, kinds, strict=True))
        ):
            raise _wrong(f"{place}.{number}", shape, row)


def _wrong(place: str, expected: str, found: object) -> FailureFileError:
    return FailureFileError(f"{place}: expected {expected}, found {json.dumps(found)[:60]}")


def replay(failure: Failure, trace: Trace | None = None) -> Outcome:
    """Run a failure again, decision by decision.

    Raises ReplayDivergedError where the record no longer fits, or where the run ends before its schedule does.
    """
    choices, schedule = Choices.replaying(failure.choices), Replay(failure.schedule)
    outcome = Run(failure.plan, choices, schedule, trace).execute()
    if choices.divergence is not None:
        raise choices.divergence
    if schedule.left:
        index = len(failure.schedule) - schedule.left
        raise ReplayDivergedError("schedule", index, tuple(failure.schedule[index]), "the end of the run")
    return outcome


def tell_story(failure: Failure) -> list[str]:
    """Return the last things that happened, from a replay with its trace on: when, who, what."""
    trace = Trace()
    replay(failure, trace)
    told = [_told(event) for event in trace if event.kind not in _UNTOLD]
    return told[-STORY_EVENTS:]


def _told(event: TraceEvent) -> str:
    what = event.text.replace(f"{ROOT}/", "")
    return f"{event.now_ns / 1e6:9.3f} ms  {event.task}: {event.kind} {what}"
