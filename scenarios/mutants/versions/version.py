"""A real version: of every bug in the catalogue whether it has it, and what else it does otherwise."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ...claims.ranges import Ranges
from .. import MUTANTS
from ..mutant import Mutant, composed


class BugPresence(StrEnum):
    """Whether a version has a bug."""

    HAS = "has"
    HAS_NOT = "has not"
    UNCERTAIN = "not certain"


@dataclass(frozen=True, slots=True)
class Fact:
    """One bug of the catalogue in one version."""

    id: str
    verdict: BugPresence
    reason: str
    """Why, and where that is known from: RocketMQ's code, its documented versions, or what was observed."""
    left_out: str = ""
    """Why the version is run without it although it has it."""

    @property
    def is_on(self) -> bool:
        """Return whether it is among what the version is run with."""
        return self.verdict is BugPresence.HAS and not self.left_out


@dataclass(frozen=True, slots=True)
class Version:
    """A version as it can be run: the catalogue's bugs that it has for certain, and deviations that it has beside."""

    id: str
    summary: str
    facts: tuple[Fact, ...]
    """One for every bug of the catalogue."""
    deviations: tuple[Mutant, ...]
    """What it does otherwise that no entry of the catalogue speaks of."""
    narrow: Callable[[Ranges], Ranges]
    """Takes the settings out of a run that the version does not have."""

    @property
    def members(self) -> dict[str, Mutant]:
        """Return all that is put in, by id."""
        catalogue = {fact.id: MUTANTS[fact.id] for fact in self.facts if fact.is_on}
        return catalogue | {mutant.id: mutant for mutant in self.deviations}

    def mutant(self, *, without: str | None = None) -> Mutant:
        """Return the version as one mutant, or all of it but one member."""
        members = [mutant for name, mutant in self.members.items() if name != without]
        name, summary = self.id, self.summary
        if without is not None:
            name, summary = f"{self.id} without {without}", f"{self.summary}, {without} mended"
        return composed(name, summary, members, self.narrow(Ranges()))
