"""A failure is an artefact: `failure.json` holds all it takes to see it again, seed or no seed, whatever the code is.

format      "tornlog-failure/2"
versions    of tornlog and Python
scenario    its name; claim: its sentence; seed; mutant: its id or null
plan        what the seed drew (scenarios.plan), the operations that lives end in by name
digest      of the run; a replay by the same code gives the same
violations  what broke, the first first
story       what happened before it, as far as it concerns that, in ten lines
schedule    where tasks did not just run until they blocked, one line each (sim.schedule)
decisions   every draw that was not 0: stream -> [[label, nth, options, value], ...] (sim.choices)
shrunk      null, or a smaller run with the same breach: plan to decisions as above, and its size
"""

import json
import platform
import re
from dataclasses import dataclass, fields
from types import NoneType
from typing import Any

from .... import __version__
from ....faults.simulation.artefact import artefact_of
from ....sim.choices import Decision, decisions_of, recorded
from ....sim.schedule import ScheduleError, Switch, parse_switch
from ...claims.plan import Plan
from ...oracle.evidence import Violation
from .failing_run import FailingRun, RunRecord, Size

FORMAT = "tornlog-failure/2"
_DECISION_TEXT = re.compile(r'\[\s+(".*"),\s+(\d+),\s+(\d+),\s+(\d+)\s+\]')
"""One entry of the decisions as json indents it; a line is enough for it."""


class FailureFileError(Exception):
    """A file that is not a failure this version can read."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One broken promise with the run that broke it, and perhaps with a smaller one that breaks it, too."""

    scenario: str
    claim: str
    seed: int
    mutant: str | None
    original: FailingRun
    shrunk: FailingRun | None = None

    @property
    def smallest(self) -> FailingRun:
        """Return the shrunk run if there is one."""
        return self.shrunk or self.original

    @property
    def violations(self) -> list[Violation]:
        """Return what broke."""
        return self.original.violations

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
            **_breach_json(self.original),
            "shrunk": None if self.shrunk is None else _breach_json(self.shrunk),
        }
        return _DECISION_TEXT.sub(r"[\1, \2, \3, \4]", json.dumps(document, indent=1))

    @classmethod
    def from_json(cls, text: str) -> "Failure":
        """Read an artefact. Raises FailureFileError naming what is wrong with it."""
        try:
            document = artefact_of(text, FORMAT)
        except ValueError as error:
            raise FailureFileError(str(error)) from error
        _check_kinds("", document, _HEAD)
        shrunk = document["shrunk"]
        return cls(
            document["scenario"],
            document["claim"],
            document["seed"],
            document["mutant"],
            _breach_of("", document),
            None if shrunk is None else _breach_of("shrunk.", shrunk),
        )


def _breach_json(breach: FailingRun) -> dict[str, Any]:
    return {
        "steps": breach.steps,
        "size": {field.name: getattr(breach.size, field.name) for field in fields(Size)},
        "plan": breach.record.plan.to_json(),
        "digest": breach.digest,
        "violations": [violation.to_json() for violation in breach.violations],
        "story": breach.story,
        "schedule": [str(switch) for switch in breach.record.schedule],
        "decisions": recorded(breach.record.decisions),
    }


def _breach_of(place: str, document: dict[str, Any]) -> FailingRun:
    """Return what `_breach_json` wrote. Raises FailureFileError naming the first field that is not of its shape."""
    _check_kinds(place, document, _BREACH)
    _check_kinds(f"{place}size.", document["size"], _SIZE)
    _check_violations(place, document["violations"])
    for number, line in enumerate(document["story"]):
        if not isinstance(line, str):
            raise _wrong(f"{place}story.{number}", "str", line)
    try:
        plan = Plan.from_json(document["plan"])
    except ValueError as error:
        raise FailureFileError(f"{place}{error}") from error
    return FailingRun(
        RunRecord(_decisions(place, document["decisions"]), _schedule(place, document["schedule"]), plan),
        document["digest"],
        [Violation(**violation) for violation in document["violations"]],
        document["story"],
        Size(**{name: document["size"][name] for name in _SIZE}),
        document["steps"],
    )


_HEAD: dict[str, tuple[type, ...]] = {
    "scenario": (str,),
    "claim": (str,),
    "seed": (int,),
    "mutant": (str, NoneType),
    "shrunk": (dict, NoneType),
}
_BREACH: dict[str, tuple[type, ...]] = {
    "steps": (int,),
    "size": (dict,),
    "plan": (dict,),
    "digest": (str,),
    "violations": (list,),
    "story": (list,),
    "schedule": (list,),
    "decisions": (dict,),
}
_SIZE: dict[str, tuple[type, ...]] = {field.name: (int,) for field in fields(Size)}
_DECISION = ((str,), (int,), (int,), (int,))
_VIOLATION = {field.name: int if field.name == "offset" else str for field in fields(Violation)}
_YOUNGER = {"detail"}
"""Fields that what was stored before them has not."""


def _check_kinds(place: str, document: dict[str, Any], expected: dict[str, tuple[type, ...]]) -> None:
    for name, kinds in expected.items():
        if name not in document:
            raise FailureFileError(f"{place}{name}: missing")
        if type(document[name]) not in kinds:
            raise _wrong(place + name, " or ".join(kind.__name__ for kind in kinds), document[name])


def _check_violations(place: str, violations: list[Any]) -> None:
    if not violations:
        raise FailureFileError(f"{place}violations: expected at least one, found none")
    for number, violation in enumerate(violations):
        where = f"{place}violations.{number}"
        if not isinstance(violation, dict) or violation.keys() | _YOUNGER != _VIOLATION.keys():
            raise _wrong(where, f"the fields {', '.join(_VIOLATION)}", violation)
        for name, kind in _VIOLATION.items():
            if type(violation.get(name, "")) is not kind and (name in violation or name not in _YOUNGER):
                raise _wrong(f"{where}.{name}", kind.__name__, violation[name])


def _decisions(place: str, streams: dict[str, Any]) -> tuple[Decision, ...]:
    for stream, entries in streams.items():
        if not isinstance(entries, list):
            raise _wrong(f"{place}decisions.{stream}", "list", entries)
        for number, entry in enumerate(entries):
            if (
                not isinstance(entry, list)
                or len(entry) != len(_DECISION)
                or any(type(value) not in kinds for value, kinds in zip(entry, _DECISION, strict=True))
            ):
                raise _wrong(f"{place}decisions.{stream}.{number}", "[label, nth, options, value]", entry)
    return tuple(decisions_of(streams))


def _schedule(place: str, lines: list[Any]) -> tuple[Switch, ...]:
    switches = []
    for number, line in enumerate(lines):
        if not isinstance(line, str):
            raise _wrong(f"{place}schedule.{number}", "str", line)
        try:
            switches.append(parse_switch(line))
        except ScheduleError as error:
            raise FailureFileError(f"{place}schedule.{number}: {error}") from error
    return tuple(switches)


def _wrong(place: str, expected: str, found: object) -> FailureFileError:
    return FailureFileError(f"{place}: expected {expected}, found {json.dumps(found)[:60]}")
