"""Crashes are aimed at syncs and at marks, and a replay repeats them by their crash points."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.fixtures import QUIET_PLAN, execute
from tornlog.scenarios.claims.plan import Life, LifeEnding
from tornlog.scenarios.runs.crash_aims import CONF, MARK, NAME, SYNC, aimed_trigger

OPERATIONS = ["store", "store", "msync", "store", "sync directory", "store", "fdatasync", "store"]


def selected(aim: str, operation: int, marks: dict[int, str]) -> str:
    """Return the crash point among OPERATIONS. marks: the mark that is counted before the operation of this number."""
    hits: Counter[str] = Counter({"old": 1})
    trigger = aimed_trigger(aim, operation, hits)
    assert trigger is not None
    for number, kind in enumerate(OPERATIONS * 20):
        hits[marks.get(number, "none")] += number in marks
        if trigger.selects(number, kind, "/f"):
            return str(trigger.selected)
    return ""


@pytest.mark.parametrize(
    ("operation", "expected"),
    [(0, "msync /f #1"), (3, "msync /f #1"), (4, "sync directory /f #1"), (8, "fdatasync /f #1")],
)
def test_every_fourth_number_aims_at_the_next_sync(operation: int, expected: str) -> None:
    assert selected(SYNC, operation, {}) == expected


@pytest.mark.parametrize(
    ("operation", "expected"),
    [(0, "msync /f #1"), (3, "store /f #3"), (6, "sync directory /f #1"), (10, "fdatasync /f #1")],
)
def test_a_crash_at_a_mark_is_at_one_of_the_next_operations(operation: int, expected: str) -> None:
    assert selected(MARK, operation, {2: "index rolls", 3: "index rolls", 6: "queue truncated"}) == expected


def test_without_a_new_mark_a_crash_comes_after_twice_the_usual_number_of_operations() -> None:
    assert selected(MARK, 1, {0: "old", 1: "old"}) == "store /f #4"


@pytest.mark.parametrize(
    ("operation", "expected"),
    [(11, "unlink /f #1"), (12, "sync directory /f #2"), (24, "rename /f #1"), (36, "unlink /f #2")],
)
def test_every_twelfth_number_aims_at_the_next_change_of_a_name_or_its_sync(operation: int, expected: str) -> None:
    trigger = aimed_trigger(NAME, operation, Counter())
    assert trigger is not None
    kinds = ["create", "sync directory", "unlink", "sync directory", "rename", "store", "sync directory"] * 2
    assert any(trigger.selects(number, kind, "/f") for number, kind in enumerate(kinds))
    assert str(trigger.selected) == expected


@pytest.mark.parametrize(
    ("operation", "expected"),
    [(19, "rename /broker.conf #1"), (20, "sync directory / #1"), (40, "rename /conf/plain_acl.yml.tmp #1")],
)
def test_every_twentieth_number_aims_at_a_name_of_a_file_that_operators_change(operation: int, expected: str) -> None:
    trigger = aimed_trigger(CONF, operation, Counter())
    assert trigger is not None
    operations = [
        ("rename", "/store/config/topics.json"),
        ("rename", "/broker.conf"),
        ("sync directory", "/"),
        ("store", "/broker.conf"),
        ("rename", "/conf/plain_acl.yml.tmp"),
    ]
    assert any(trigger.selects(number, kind, path) for number, (kind, path) in enumerate(operations))
    assert str(trigger.selected) == expected


@pytest.mark.parametrize("aim", [SYNC, MARK])
def test_a_machine_dies_at_the_aimed_operation(aim: str) -> None:
    lives = (Life(LifeEnding.CRASH_IN_TRAFFIC, "strict-posix", 9, "after", 8),)
    outcome = execute(replace(QUIET_PLAN, crash_aim=aim, lives=lives))

    assert outcome.violations == []
    assert outcome.crash_points == 1
