"""Mutants: bugs of the catalogue, one a file, each found by the invariants or the harness is not worth its name."""

from .mutant import Mutant

MUTANTS: dict[str, Mutant] = {}
