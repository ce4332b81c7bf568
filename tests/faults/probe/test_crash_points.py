"""Crash points of rules: the moments around the calls that rules name."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tornlog.faults.probe.checks.check import PythonCheck
from tornlog.faults.probe.checks.checkers import Checkers
from tornlog.faults.probe.crash_points import points_of_rules, steps_of
from tornlog.faults.probe.probe import Prober
from tornlog.faults.probe.record import ProgramRecord, Step
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.tracing.control import CrashRule, parse_rule
from tornlog.faults.probe.visits import VisitPlan

RECORD = ProgramRecord(
    ("program",),
    (
        Step("create", "/files/new", file=0),  # 0
        Step("write", file=0, data=b"x" * 9000, call="pwrite64"),
        Step("sync", file=0),
        Step("make directory", "/files/old"),
        Step("rename", "/files/new", "/files/old/value", call="renameat2"),  # 4
        Step("acknowledge", "saved 1"),
        Step("rename", "/files/old", "/files/now"),
        Step("write", file=0, data=b"y"),
        Step("sync directory", "/files"),  # 8
    ),
    ((),),
)


def rule_of(text: str) -> CrashRule:
    rule = parse_rule(text)
    assert isinstance(rule, CrashRule)
    return rule


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("cut at write #*", [1, 7]),
        ("cut at write #2", [7]),
        ("cut at write #3", []),
        ("cut at pwrite64", [1]),
        ("cut at write new #*", [1]),
        ("cut at write now/value", [7]),
        ("cut at rename value", [4]),
        ("cut at renameat2 ne*", [4]),
        ("cut at rename n*w #*", [4, 6]),
        ("cut at sync-directory .", [8]),
        ("cut at acknowledge 'saved *'", [5]),
        ("cut at unlink #*", []),
    ],
)
def test_a_rule_names_calls_by_kind_and_current_name(text: str, numbers: list[int]) -> None:
    assert steps_of(rule_of(text), RECORD) == numbers


def test_crashes_are_before_inside_and_after_the_call() -> None:
    def points(text: str) -> list[tuple[int, bool]]:
        return sorted((point.step, point.is_inside) for point in points_of_rules([rule_of(text)], RECORD, EMPTY))

    assert points("cut at write") == [(0, False), (1, False), (1, True), (1, True)]
    assert points("cut at rename value") == [(3, False), (4, False)]
    assert points("cut at create") == [(-1, False), (0, False)]
    assert points("cut at unlink") == []


def test_marked_crash_points_are_always_among_them() -> None:
    record = replace(RECORD, cuts=(0, 2, 9))

    def points(text: str) -> list[tuple[int, bool]]:
        return sorted((point.step, point.is_inside) for point in points_of_rules([rule_of(text)], record, EMPTY))

    assert points("cut at mark") == [(-1, False), (1, False), (8, False)]
    assert points("cut at unlink") == points("cut at mark")
    assert steps_of(rule_of("cut at mark"), record) == [0, 2, 9]


def test_a_power_cut_is_tried_at_a_marked_point_between_two_stores(check_file: Callable[[str], Path]) -> None:
    check = PythonCheck(check_file("def check(directory, acknowledged):\n    pass"))
    stores = tuple(Step("store", file=0, at=number, data=b"x") for number in range(3))
    record = ProgramRecord(
        ("program",), (Step("create", "/files/f", file=0), Step("truncate", file=0, at=9), *stores), ((),)
    )

    def crashes(record: ProgramRecord) -> int:
        with Checkers(check, 0, 10.0) as checkers:
            return Prober(record, EMPTY, checkers, disks=["xfs"]).probe().counts["xfs"].crashes

    assert crashes(replace(record, cuts=(3,))) == crashes(record) + 1


def test_a_marked_crash_point_is_tried_in_every_sample_and_damage_also_with_a_rule(
    check_file: Callable[[str], Path],
) -> None:
    check = PythonCheck(check_file("def check(directory, acknowledged):\n    pass"))
    marked = replace(RECORD, cuts=(7,))

    def crashes(record: ProgramRecord, plan: VisitPlan, *rules: str) -> list[int]:
        only = points_of_rules(map(rule_of, rules), record, EMPTY) if rules else None
        with Checkers(check, 0, 10.0) as checkers:
            found = Prober(record, EMPTY, checkers, disks=["xfs", "bit-flip"], plan=plan, only=only).probe()
        assert found.points == found.counts["xfs"].crashes
        return [count.crashes for count in found.counts.values()]

    sample = VisitPlan(2, is_even=True)
    assert [crashes(record, sample) for record in (RECORD, marked)] == [[2, 2], [3, 2]]
    assert crashes(RECORD, VisitPlan(), "cut at rename value") == [2, 2]
    assert crashes(RECORD, VisitPlan(1, is_even=True), "cut at rename value") == [1, 2]
