"""Every mutant that can be named: the catalogue's, real versions and what they have beside, the systematic ones."""

from contextlib import AbstractContextManager, nullcontext

from . import MUTANTS
from .mutant import Mutant
from .systematic import find_systematic, systematic_mutants
from .versions import find_in_versions

SETS = ("catalogue", "systematic", "all")


def find_mutant(name: str) -> Mutant | None:
    """Return the mutant of a name, None if there is none. A systematic one need not be among those that are hunted."""
    return MUTANTS.get(name) or find_in_versions(name) or find_systematic(name)


def mutant_named(name: str) -> Mutant:
    """Return the mutant of a name; KeyError if there is none."""
    mutant = find_mutant(name)
    if mutant is None:
        raise KeyError(name)
    return mutant


def applied_mutant(name: str | None) -> AbstractContextManager[None]:
    """Return a `with` block in which the mutant of a name is applied; None for the store as it is."""
    return nullcontext() if name is None else mutant_named(name).applied()


def mutants_in(which: str) -> dict[str, Mutant]:
    """Return the mutants of one of SETS that are hunted, by id."""
    found: dict[str, Mutant] = {}
    if which in ("catalogue", "all"):
        found |= MUTANTS
    if which in ("systematic", "all"):
        found |= systematic_mutants()
    return found
