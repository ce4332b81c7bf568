"""Known mutants: found by name in the catalogue, versions, modules and files.

An importable module has `MUTANTS`, a mapping of ids to mutants, and can have `SURVIVORS`, a mapping of ids to the
reasons why no run finds them. The names of its mutants are `MODULE:ID`. Those of a file are `FILE.py:ID` (`files`).
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module

from . import MUTANTS
from .activity import Activity
from .files import is_in_file, mutant_in_file, names_in_file
from .mutant import Mutant
from .versions import find_in_versions


def find_mutant(name: str) -> Mutant | None:
    """Return the mutant of a name, None for an unknown one. Raises MutantFileError for a bad file."""
    if is_in_file(name):
        return mutant_in_file(name)
    module, colon, id_ = name.partition(":")
    if not colon:
        return MUTANTS.get(name) or find_in_versions(name)
    try:
        return _mutants_of(module).get(id_)
    except LookupError:
        return None


def mutant_named(name: str) -> Mutant:
    """Return the mutant of a name. Raises KeyError or MutantFileError."""
    mutant = find_mutant(name)
    if mutant is None:
        raise KeyError(name)
    return mutant


def applied_mutant(name: str | None) -> AbstractContextManager[Activity]:
    """Return a `with` block in which a mutant is applied and counted. None applies no mutant."""
    return nullcontext(Activity()) if name is None else mutant_named(name).applied()


def names_meant(name: str) -> list[str]:
    """Return the names of the mutants that a name means: itself, or all of a file. Raises MutantFileError."""
    return names_in_file(name) if is_in_file(name) else [name]


def mutants_in(module: str | None) -> list[str]:
    """Return the names of the mutants of a module, or of the catalogue. Raises LookupError."""
    return list(MUTANTS) if module is None else [f"{module}:{id_}" for id_ in _mutants_of(module)]


def survivors_in(module: str | None) -> dict[str, str]:
    """Return the reasons for mutants of a module that no run finds, by name. The catalogue has none of those."""
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
