"""Undetected mutants: plausible bugs that no run sees, with the reasons.

Measure them with `tornlog mutants --set tests.undetected`. A mutant that a run finds moves to the catalogue.
"""

from tornlog.scenarios.mutants.mutant import Mutant

MUTANTS: dict[str, Mutant] = {each.id: each for each in list(vars().values()) if isinstance(each, Mutant)}

SURVIVORS: dict[str, str] = {}
"""Why no run sees the mutant."""
