"""Mutants: each is found within a few fixed seeds, on which the store without it breaks no promise."""

import inspect
from pkgutil import iter_modules
from typing import Any

import pytest

from tornlog.scenarios.campaigns.mutation_run import MutationLimits, MutationSettings, narrowed_scenario, run_mutant
from tornlog.scenarios.claims.ranges import Ranges
from tornlog.scenarios.mutants import MUTANTS, bugs
from tornlog.scenarios.mutants.mutant import Mutant, Patch, PatchError
from tornlog.scenarios.oracle.invariants import INVARIANTS
from tornlog.store.log.segment import Segment

SEEDS_MAX = 240


def replaced_attributes() -> dict[tuple[str, str], object]:
    """Return the attributes that the patches of all mutants replace."""
    return {
        (patch.owner.__name__, patch.name): vars(patch.owner)[patch.name]
        for mutant in MUTANTS.values()
        for patch in mutant.patches
    }


ORIGINAL = replaced_attributes()


def parameters(attribute: Any) -> list[str]:
    """Return the parameter names of a function or a property's getter."""
    function = attribute.fget if isinstance(attribute, property) else attribute
    return list(inspect.signature(function).parameters)


def accepts_any_arguments(replacement: Any) -> bool:
    """Return whether a function accepts any keyword arguments (`**`)."""
    kinds = [] if isinstance(replacement, property) else inspect.signature(replacement).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in kinds)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=list(MUTANTS))
def test_each_mutant_is_found_within_few_seeds_that_pass_without_it(mutant: Mutant) -> None:
    mutant_result = run_mutant(mutant, MutationSettings(MutationLimits(SEEDS_MAX), scenarios=None))

    assert mutant_result.found, f"not within {SEEDS_MAX} seeds"
    assert mutant_result.is_expected
    assert mutant_result.reached, "its code ran"
    assert mutant_result.bit != 0, "it reports what it does"
    assert mutant_result.clean_violation == ""
    assert replaced_attributes() == ORIGINAL


def test_mutants_are_sorted_by_id_and_defined_in_several_modules() -> None:
    assert list(MUTANTS) == sorted(MUTANTS)
    assert all(mutant.id == name for name, mutant in MUTANTS.items())
    assert len(list(iter_modules(bugs.__path__))) >= 7


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=list(MUTANTS))
def test_a_mutant_function_has_the_parameters_of_the_original(mutant: Mutant) -> None:
    for patch in mutant.patches:
        original = vars(patch.owner)[patch.name]
        assert accepts_any_arguments(patch.replacement) or parameters(patch.replacement) == parameters(original), patch


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=list(MUTANTS))
def test_a_mutant_names_known_invariants_and_has_ranges(mutant: Mutant) -> None:
    assert set(mutant.found_by) <= set(INVARIANTS)
    assert isinstance(mutant.needs, Ranges)
    assert narrowed_scenario(mutant).ranges is mutant.needs


def test_a_mutant_is_applied_until_its_block_ends_or_fails() -> None:
    mutant = MUTANTS["ack-before-flush"]
    (patch,) = mutant.patches
    with mutant.applied():
        assert vars(patch.owner)[patch.name].__wrapped__ is patch.replacement
    assert replaced_attributes() == ORIGINAL

    with pytest.raises(ZeroDivisionError), MUTANTS["cq-redispatch-duplicates"].applied():
        raise ZeroDivisionError
    assert replaced_attributes() == ORIGINAL


def test_while_a_mutant_is_applied_a_second_one_is_refused() -> None:
    first, second = MUTANTS["ack-before-flush"], MUTANTS["fsync-retry-acks"]
    (patch,) = first.patches
    with first.applied():
        with pytest.raises(RuntimeError, match="ack-before-flush is applied already"), second.applied():
            pytest.fail("two mutants at once")
        assert vars(patch.owner)[patch.name].__wrapped__ is patch.replacement

    with second.applied():
        assert vars(patch.owner)[patch.name] is ORIGINAL[patch.owner.__name__, patch.name]


def test_a_patch_of_a_missing_method_is_an_error() -> None:
    with pytest.raises(PatchError, match="Segment has no a_method_of_the_past"):
        Patch(Segment, "a_method_of_the_past", lambda self: None)
