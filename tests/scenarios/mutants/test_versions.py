"""Real versions: every bug of the catalogue has a verdict, and the certain ones are applied."""

import pytest

from tornlog.scenarios.campaigns.mutation_run import MutationLimits, MutationSettings, run_mutant
from tornlog.scenarios.claims.ranges import Ranges
from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.mutants.known import applied_mutant, find_mutant, mutant_named
from tornlog.scenarios.mutants.mutant import Mutant
from tornlog.scenarios.mutants.version import BugPresence
from tornlog.scenarios.mutants.versions import VERSIONS
from tornlog.scenarios.oracle.invariants import INVARIANTS

VERSION = VERSIONS["rocketmq-4.9.8"]
DEVIATIONS = {mutant.id: mutant for mutant in VERSION.deviations}
FOUND_ALONE = [mutant for mutant in VERSION.deviations if mutant.needs != Ranges()]


def attributes(mutant: Mutant) -> list[object]:
    return [vars(patch.owner)[patch.name] for patch in mutant.patches]


def attributes_in_effect(mutant: Mutant) -> list[object]:
    """Return the function that the call counter wraps."""
    found: list[object] = []
    for attribute in attributes(mutant):
        function = attribute.fget if isinstance(attribute, property) else attribute
        found.append(getattr(function, "__wrapped__", function))
    return found


def replacements(mutant: Mutant) -> list[object]:
    each = (patch.replacement for patch in mutant.patches)
    return [one.fget if isinstance(one, property) else one for one in each]


# the table


def test_the_version_table_has_a_verdict_and_a_reason_for_every_mutant() -> None:
    names = [fact.id for fact in VERSION.facts]
    assert len(names) == len(set(names))
    assert set(names) == set(MUTANTS)
    assert all(fact.reason for fact in VERSION.facts)


def test_only_certain_bugs_of_a_version_are_applied() -> None:
    on = {fact.id for fact in VERSION.facts if fact.is_present}
    for fact in VERSION.facts:
        if fact.verdict is not BugPresence.HAS:
            assert fact.id not in on
            assert not fact.left_out, "nothing to leave out"
        elif fact.id not in on:
            assert fact.left_out
    assert on == set(VERSION.members) - set(DEVIATIONS)


# the composite


def test_all_bugs_of_a_version_are_applied_together_and_removed_afterwards() -> None:
    whole = mutant_named(VERSION.id)
    before = attributes(whole)
    with applied_mutant(VERSION.id):
        for member in VERSION.members.values():
            assert attributes_in_effect(member) == replacements(member), member.id

    assert attributes(whole) == before
    assert all(patch.replacement is not original for patch, original in zip(whole.patches, before, strict=True))


@pytest.mark.parametrize("member", VERSION.members)
def test_a_version_without_one_bug_has_all_others(member: str) -> None:
    rest = mutant_named(f"{VERSION.id}-without-{member}")
    others = [mutant for name, mutant in VERSION.members.items() if name != member]
    assert rest.patches == tuple(patch for mutant in others for patch in mutant.patches)
    assert member in rest.id


def test_excluding_a_bug_that_a_version_lacks_gives_no_mutant() -> None:
    assert find_mutant(f"{VERSION.id}-without-ack-before-flush") is None
    assert find_mutant("rocketmq-1.0-without-stale-tail-after-truncate") is None
    assert find_mutant("config-rename-without-sync") is MUTANTS["config-rename-without-sync"]


def test_a_version_runs_without_settings_that_only_this_store_has() -> None:
    assert VERSION.narrow(Ranges())["recover_whole_log"] == (False,)
    assert mutant_named(VERSION.id).needs == VERSION.narrow(Ranges())


# deviations


def test_a_deviation_has_a_unique_id_and_a_summary() -> None:
    assert DEVIATIONS.keys().isdisjoint(MUTANTS)
    for name, mutant in DEVIATIONS.items():
        assert find_mutant(name) is mutant
        assert mutant.summary
        assert set(mutant.found_by) <= set(INVARIANTS)


@pytest.mark.parametrize("mutant", FOUND_ALONE, ids=lambda mutant: mutant.id)
def test_each_deviation_alone_is_found_on_seeds_that_pass_without_it(mutant: Mutant) -> None:
    mutant_result = run_mutant(mutant, MutationSettings(MutationLimits(120), scenarios=None))

    assert mutant_result.found
    assert mutant_result.invariant in mutant.found_by
    assert mutant_result.clean_violation == ""
