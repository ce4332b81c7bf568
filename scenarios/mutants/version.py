"""Real version of RocketMQ: its known bugs and other deviations, as mutants."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from .. import mutants
from ..claims.ranges import Ranges
from .mutant import Mutant, compose_mutants


class BugPresence(StrEnum):
    """Whether a version has a bug."""

    HAS = "has"
    HAS_NOT = "has not"
    UNCERTAIN = "not certain"


@dataclass(frozen=True, slots=True)
class BugInVersion:
    """One bug of the catalogue in one version."""

    id: str
    verdict: BugPresence
    reason: str
    """The reason for the status and its source: RocketMQ's code, an issue, or an observation."""
    left_out: str = ""
    """The reason why a bug of the version is disabled."""

    @property
    def is_present(self) -> bool:
        return self.verdict is BugPresence.HAS and not self.left_out


@dataclass(frozen=True, slots=True)
class Version:
    """A version to run: its certain bugs from the catalogue and its other deviations."""

    id: str
    summary: str
    facts: tuple[BugInVersion, ...]
    """One fact for each bug of the catalogue."""
    deviations: tuple[Mutant, ...]
    """Bugs of the version that are not in the catalogue."""
    narrow: Callable[[Ranges], Ranges]
    """Removes settings that the version does not have."""

    def __post_init__(self) -> None:
        ids = [fact.id for fact in self.facts]
        assert len({*ids}) == len(ids), "a bug has one verdict"
        known = mutants.MUTANTS.keys()
        assert known <= {*ids}, known - {*ids}

    @property
    def members(self) -> dict[str, Mutant]:
        catalogue = {fact.id: mutants.MUTANTS[fact.id] for fact in self.facts if fact.is_present}
        return catalogue | {mutant.id: mutant for mutant in self.deviations}

    def mutant(self, *, without: str | None = None) -> Mutant:
        assert without is None or without in self.members, without
        members = [mutant for name, mutant in self.members.items() if name != without]
        name, summary = self.id, self.summary
        if without is not None:
            name, summary = f"{self.id} without {without}", f"{self.summary}, {without} mended"
        return compose_mutants(name, summary, members, self.narrow(Ranges()))
