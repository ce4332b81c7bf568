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
from dataclasses import dataclass
from typing import Any

from .. import __version__
from ..sim.choices import Choices
from ..sim.policies.replay import Replay
from ..sim.trace import Trace
from .evidence import Violation
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
        try:
            return cls(
                document["scenario"],
                document["claim"],
                document["seed"],
                document["mutant"],
                Plan.from_json(document["plan"]),
                document["choices"],
                document["schedule"],
                document["digest"],
                [Violation(**violation) for violation in document["violations"]],
                document["story"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FailureFileError(f"{type(error).__name__}: {error}") from error


def replay(failure: Failure, trace: Trace | None = None) -> Outcome:
    """Run a failure again, decision by decision. Raises ReplayDivergedError where the record no longer fits."""
    choices = Choices.replaying(failure.choices)
    outcome = Run(failure.plan, choices, Replay(failure.schedule), trace).execute()
    if choices.divergence is not None:
        raise choices.divergence
    return outcome


def tell_story(failure: Failure) -> list[str]:
    """Return the last things that happened, from a replay with its trace on."""
    trace = Trace()
    replay(failure, trace)
    told = [str(event) for event in trace if event.kind not in _UNTOLD]
    return told[-STORY_EVENTS:]
