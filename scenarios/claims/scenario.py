"""Scenario: a claim about the store, and the ranges of plans that test it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec

from ...store.errors import install_command
from .disk_models import DISK_MODELS
from .ranges import Options, Ranges

HAS_BROKER = find_spec("...store.broker", __package__) is not None
"""Without the broker extra, broker scenarios and broker mutants do not run."""


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


HAS_ACCOUNTS = HAS_BROKER and _is_installed("yaml")
"""Without PyYAML, a broker has no accounts."""

POLICIES = {
    "random-walk": "every runnable task is equally likely, for stretches of random length",
    "pct": "the task of highest priority runs; a few random points lower its priority below all others",
    "pos": "the pending operation of highest priority runs, and operations that race with it get new random priorities",
    "round-robin": "tasks take turns of a fixed number of points, without random choices",
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named claim. `claim` is a sentence that one seed can refute and no seed can prove."""

    name: str
    claim: str
    ranges: Ranges
    stream: str = ""
    """The name of the seed stream, if it differs from `name`.

    A renamed scenario keeps its old name here, so that its seeds keep their plans.
    """

    @property
    def seed_stream(self) -> str:
        return self.stream or self.name

    @classmethod
    def define(
        cls, name: str, claim: str, *, stream: str = "", **chosen: Options | Mapping[str, Options]
    ) -> "Scenario":
        return cls(name, claim, Ranges(**chosen), stream)

    def with_optional(self, chance: float, /, **optional: Mapping[str, Options | Mapping[str, Options]]) -> "Scenario":
        """See `Ranges.with_optional`."""
        return replace(self, ranges=self.ranges.with_optional(chance, **optional))

    def with_late_optional(
        self, chance: float, /, **optional: Mapping[str, Options | Mapping[str, Options]]
    ) -> "Scenario":
        """See `Ranges.with_late_optional`."""
        return replace(self, ranges=self.ranges.with_late_optional(chance, **optional))

    @property
    def missing(self) -> str:
        """The part that the scenario needs and that is not installed, or ""."""
        if not HAS_BROKER and self.ranges.has_brokers:
            return "the broker"
        if not HAS_ACCOUNTS and any(self.ranges["access.clients"]):
            return f"PyYAML ({install_command('acl')} installs it)"
        return ""

    def can_run_on(self, disk: str) -> bool:
        """Clusters and brokers need sound disks."""
        return DISK_MODELS[disk].is_sound or self.ranges.is_alone

    def narrowed(
        self, *, disk: str | None = None, policy: str | None = None, attribute_points: bool = False
    ) -> "Scenario":
        """Return the scenario restricted to one disk model or policy, or with attribute points in every run.

        Raises ValueError if the policy is unknown or the scenario cannot run on the disk model.
        """
        ranges = self.ranges
        if disk is not None:
            if disk not in DISK_MODELS:
                raise ValueError(f"disk: expected one of {', '.join(DISK_MODELS)}, found {disk}")
            if not self.can_run_on(disk):
                raise ValueError(f"disk: {self.name} runs several machines, which a {disk} does not support")
            ranges = ranges.replace(disk=(disk,))
        if policy is not None:
            if policy not in POLICIES:
                raise ValueError(f"policy: expected one of {', '.join(POLICIES)}, found {policy}")
            ranges = ranges.replace(policy=(policy,))
        if attribute_points:
            ranges = ranges.replace(attribute_points=(True,))
        return replace(self, ranges=ranges)
