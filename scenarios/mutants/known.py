"""Known mutants: finds mutants in the catalogue, versions, modules and files.

A mutant in an importable module has the name `MODULE:ID`, in a file `FILE.py:ID`. The module defines `MUTANTS`, a
mapping from ids to mutants. It may define `SURVIVORS`, which maps the ids of mutants that no run finds to the reasons.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib import import_module

from .. import mutants
from .activity import Activity
from .files import is_in_file, mutant_in_file, names_in_file
from .mutant import Mutant


def find_mutant(name: str) -> Mutant | None:
    """Return a mutant, with its full name as the id. Raises MutantFileError for an invalid file."""
    if is_in_file(name):
        return mutant_in_file(name)
    module, colon, id_ = name.partition(":")
    if not colon:
        from .versions import find_in_versions  # here, because it collects all mutants

        return mutants.MUTANTS.get(name) or find_in_versions(name)
    try:
        mutant = _mutants_of(module).get(id_)
    except LookupError:
        return None
    return mutant and replace(mutant, id=name)


def mutant_named(name: str) -> Mutant:
    """Raises KeyError or MutantFileError."""
    mutant = find_mutant(name)
    if mutant is None:
        raise KeyError(name)
    return mutant


def applied_mutant(name: str | None) -> AbstractContextManager[Activity]:
    """Return a context manager that applies and counts a mutant. None applies no mutant."""
    return nullcontext(Activity()) if name is None else mutant_named(name).applied()


def mutant_names(name: str) -> list[str]:
    """Return the name itself, or the names of all mutants if it is the name of a file. Raises MutantFileError."""
    return names_in_file(name) if is_in_file(name) else [name]


def mutants_in(module: str | None) -> list[str]:
    """None means the catalogue. Raises LookupError."""
    return list(mutants.MUTANTS) if module is None else [f"{module}:{id_}" for id_ in _mutants_of(module)]


def survivors_in(module: str | None) -> dict[str, str]:
    """Return the mutants of a module that no run finds, with the reasons. The catalogue has no such mutants."""
    if module is None:
        return {}
    survivors: Mapping[str, str] = getattr(import_module(module), "SURVIVORS", {})
    return {f"{module}:{id_}": why for id_, why in survivors.items()}


def _mutants_of(module: str) -> Mapping[str, Mutant]:
    try:
        found: Mapping[str, Mutant] = import_module(module).MUTANTS
    except (ImportError, AttributeError, TypeError, ValueError) as error:  # TypeError: a relative name
        raise LookupError(f"no module {module} that has MUTANTS: {error}") from error
    return found
