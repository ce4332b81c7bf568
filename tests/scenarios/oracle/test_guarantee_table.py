from dataclasses import replace

import pytest

from tornlog.scenarios.claims.disk_models import DISK_MODELS
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.scenarios.oracle import guarantees as guarantee_table
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.guarantees import PROMISED, Promise
from tornlog.scenarios.oracle.invariants import INVARIANTS
from tornlog.scenarios.oracle.judge import Judge, StopOnViolation
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk


def judge_for_disk(disk: str) -> Judge:
    choices = Choices("1")
    plan: Plan = replace(draw_plan(choices.stream("plan"), Ranges()), disk=disk)
    return Judge(plan, Kernel(RandomWalk(choices.stream("schedule"), 4)), Ledger())


def test_the_guarantee_table_has_every_disk_and_every_invariant() -> None:
    assert set(PROMISED) == set(DISK_MODELS)
    for promises in PROMISED.values():
        assert list(promises) == list(INVARIANTS)


@pytest.mark.parametrize(("before", "after"), [("DUR  ", "DURR "), ("lying-disk", "lying-duck"), ("intact", "perhaps")])
def test_a_guarantee_table_with_an_unknown_name_is_refused(before: str, after: str) -> None:
    with pytest.raises(ValueError, match=after.strip()):
        guarantee_table._read_promise_table(guarantee_table._TABLE.replace(before, after))


def test_a_sound_disk_promises_all_invariants_and_a_lying_disk_no_durability() -> None:
    for disk in ("nothing-lost", "process-kill", "ext4-ordered", "btrfs", "strict-posix", "full-disk"):
        assert set(PROMISED[disk].values()) == {Promise.KEPT}
    assert PROMISED["lying-disk"]["DUR"] is Promise.NONE
    assert PROMISED["lying-disk"]["CQ-COMPLETE"] is Promise.KEPT
    assert PROMISED["dying-disk"]["START"] is Promise.INTACT


def test_an_invariant_that_a_disk_does_not_promise_is_never_reported_as_violated() -> None:
    lost = Violation("DUR", "gone")
    with pytest.raises(StopOnViolation):
        judge_for_disk("strict-posix").report([lost])
    judge_for_disk("lying-disk").report([lost])


def test_a_store_that_cannot_be_opened_is_a_violation_only_if_the_disk_promises_it() -> None:
    for disk, violations in (("strict-posix", 1), ("lying-disk", 0)):
        judge = judge_for_disk(disk)
        with pytest.raises(StopOnViolation):
            judge.report_and_stop("META", "the store cannot be opened", "load", "", "")
        assert len(judge.violations) == violations


def test_the_promises_on_a_disk_fit_in_one_line() -> None:
    assert guarantee_table.describe_promises("xfs") == "every invariant"
    told = guarantee_table.describe_promises("dying-disk")
    assert told.startswith("4 of 25 invariants; DUR, START only before the first damage; not PREFIX, VIS, CQ-COMPLETE")
