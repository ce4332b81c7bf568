"""Mutants: known bugs of the store. The invariants find each of them, or prove nothing by their silence."""

from importlib import import_module
from pkgutil import iter_modules

from . import bugs
from .mutant import Mutant


def _collect() -> dict[str, Mutant]:
    mutants = [
        mutant
        for module in iter_modules(bugs.__path__, f"{bugs.__name__}.")
        for mutant in vars(import_module(module.name)).values()
        if isinstance(mutant, Mutant)
    ]
    by_id = {mutant.id: mutant for mutant in sorted(mutants, key=lambda mutant: mutant.id)}
    assert len(by_id) == len(mutants), "two mutants have the same id"
    return by_id


MUTANTS: dict[str, Mutant] = _collect()
"""Every mutant by id, sorted."""
