"""Undetected mutants: each has a reason, and none is in the catalogue."""

import inspect

from tests.undetected import MUTANTS, SURVIVORS
from tornlog.scenarios.mutants import MUTANTS as CATALOGUE

KINDS = ("never reached", "never acts", "acts unseen")


def test_each_undetected_mutant_has_a_reason_and_is_not_in_the_catalogue() -> None:
    assert SURVIVORS.keys() == MUTANTS.keys()
    assert not MUTANTS.keys() & CATALOGUE.keys()
    assert {reason.partition(":")[0] for reason in SURVIVORS.values()} <= set(KINDS)


def test_an_undetected_mutant_has_the_parameters_of_the_original_and_reports_bites() -> None:
    for mutant in MUTANTS.values():
        assert mutant.reports_bites, mutant.id
        for patch in mutant.patches:
            original, replacement = vars(patch.owner)[patch.name], patch.replacement
            assert callable(replacement)
            assert list(inspect.signature(replacement).parameters) == list(inspect.signature(original).parameters)
