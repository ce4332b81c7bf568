"""Combined mutants: all members are applied, or the error names two that collide."""

import pytest

from tornlog.scenarios.claims.ranges import Ranges
from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.mutants.mutant import Mutant, Patch, PatchesCollideError, compose_mutants
from tornlog.store.log.flush import FlushCommitLogService, GroupCommitService
from tornlog.store.recovery import recovery

FIRST, SECOND = MUTANTS["ack-before-flush"], MUTANTS["fsync-retry-acks"]


def test_every_member_of_a_composite_is_applied_until_the_block_ends() -> None:
    before = vars(GroupCommitService)["submit"], vars(FlushCommitLogService)["_flush_once"]
    with compose_mutants("both", "two bugs", (FIRST, SECOND)).applied():
        assert vars(GroupCommitService)["submit"].__wrapped__ is FIRST.patches[0].replacement
        assert vars(FlushCommitLogService)["_flush_once"].__wrapped__ is SECOND.patches[0].replacement

    assert (vars(GroupCommitService)["submit"], vars(FlushCommitLogService)["_flush_once"]) == before


def test_a_composite_expects_each_invariant_of_its_members_once() -> None:
    both = compose_mutants("both", "two bugs", (FIRST, SECOND))
    assert both.found_by == ("STATUS", "DUR", "POS")
    assert (both.id, both.summary, both.needs) == ("both", "two bugs", Ranges())


def test_composite_members_that_replace_the_same_method_are_refused_by_name() -> None:
    twin = Mutant("twin", "", (Patch(GroupCommitService, "submit", lambda self, request: None),), ())
    with pytest.raises(PatchesCollideError, match=r"ack-before-flush and twin both replace GroupCommitService\.submit"):
        compose_mutants("both", "", (FIRST, twin))


def test_composite_members_that_replace_the_same_module_function_are_refused() -> None:
    first, second = MUTANTS["bad-length-trusted"], MUTANTS["foreign-offset-record-accepted"]
    assert {patch.owner for patch in (*first.patches, *second.patches)} == {recovery}
    with pytest.raises(PatchesCollideError, match=r"both replace tornlog\.store\.recovery\.recovery\.scan_records"):
        compose_mutants("both", "", (first, second))


def test_composite_members_may_replace_the_same_name_in_different_classes() -> None:
    index, segment = MUTANTS["flush-jumps-to-new-file"], MUTANTS["flush-advance-on-io-error"]
    assert {patch.name for patch in (*index.patches, *segment.patches)} == {"flush"}
    assert len(compose_mutants("both", "", (index, segment)).patches) == 2


def test_a_composite_without_members_has_no_effect() -> None:
    before = dict(vars(GroupCommitService))
    with compose_mutants("none", "", ()).applied():
        assert dict(vars(GroupCommitService)) == before
