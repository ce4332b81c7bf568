"""A scenario: one claim about the store, and the ranges within which each seed tries to refute it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec

from .disk_models import DISK_MODELS
from .ranges import Options, Ranges

HAS_BROKER = find_spec("...store.broker", __package__) is not None
"""Whether the broker is installed. It is an extra: without it, its scenarios are not run, and its mutants left out."""

POLICIES = {
    "random-walk": "every runnable task is as likely as any other, for stretches of random length",
    "pct": "the task of highest priority runs, and falls below the others at a few random points",
    "pos": "the pending operation of highest priority goes, and those that race with it are drawn anew",
    "round-robin": "tasks take turns of a few points, nothing is left to chance",
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named claim. `claim` is a sentence that one seed can prove wrong and none can prove right."""

    name: str
    claim: str
    ranges: Ranges
    stream: str = ""
    """What its seeds are drawn by. The name if empty; a scenario that is renamed keeps its old name here."""

    @property
    def seed_stream(self) -> str:
        """Return the name of the stream that a seed's choices are drawn from."""
        return self.stream or self.name

    @classmethod
    def of(cls, name: str, claim: str, **chosen: Options | Mapping[str, Options]) -> "Scenario":
        """Return a scenario of `Ranges(**chosen)`."""
        return cls(name, claim, Ranges(**chosen))

    @property
    def can_run(self) -> bool:
        """Return whether all that its runs need is installed."""
        return HAS_BROKER or not self.ranges.has_brokers

    def admits(self, disk: str) -> bool:
        """Return whether it is judged on a disk: clusters and brokers are on sound ones only."""
        return DISK_MODELS[disk].is_sound or self.ranges.is_alone

    def narrowed(
        self, *, disk: str | None = None, policy: str | None = None, attribute_points: bool = False
    ) -> "Scenario":
        """Return the scenario with one disk or one policy only, or with attribute points in all of its runs.

        ValueError if there is no such disk or policy for it.
        """
        ranges = self.ranges
        if disk is not None:
            if disk not in DISK_MODELS:
                raise ValueError(f"disk: expected one of {', '.join(DISK_MODELS)}, found {disk}")
            if not self.admits(disk):
                raise ValueError(f"disk: {self.name} is of several machines, which are not judged on a {disk}")
            ranges = ranges.replace(disk=(disk,))
        if policy is not None:
            if policy not in POLICIES:
                raise ValueError(f"policy: expected one of {', '.join(POLICIES)}, found {policy}")
            ranges = ranges.replace(policy=(policy,))
        if attribute_points:
            ranges = ranges.replace(attribute_points=(True,))
        return replace(self, ranges=ranges)
