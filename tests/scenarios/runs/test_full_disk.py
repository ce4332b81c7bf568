"""A run with a full disk: the answers to users, and the next life without effects."""

from collections import Counter
from typing import Any

import pytest

from tests.fixtures import QUIET_PLAN, execute
from tornlog.scenarios.claims.plan import Life, LifeEnding, Plan
from tornlog.scenarios.oracle.invariants import status
from tornlog.scenarios.workload import operators


@pytest.fixture
def full() -> Plan:
    """Two lives with long records on a disk of a few segments. The first life ends in a process kill."""
    return QUIET_PLAN.replace(
        commit_log_bytes=1024,
        messages={"body_bytes_max": 600},
        pauses={"chance": 1.0, "ms_max": 3000},
        capacity_bytes=12_000,
        index={"slots": 0},
        lives=(
            Life(LifeEnding.CRASH_AT_REST, "process-kill", -1, "after", 16),
            Life(LifeEnding.STOP, "nothing-lost", -1, "after", 16),
        ),
    )


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return a count of all answers by life and status, kept while runs go on."""
    counted: Counter[str] = Counter()
    check = status.check_put_status

    def count(*arguments: Any, **named: Any) -> Any:
        life = arguments[3].name.partition(".")[0].removeprefix("m")
        counted[f"{life} {arguments[4].status.value}"] += 1
        return check(*arguments, **named)

    monkeypatch.setattr(status, "check_put_status", count)
    return counted


def test_puts_are_refused_on_a_full_disk_and_accepted_after_space_is_freed(
    full: Plan, answers: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "_ROOM_RETURNS_MS", (9_000,))
    outcome = execute(full)
    assert outcome.violations == []
    assert outcome.injected["disk full"] > 0
    assert answers["1 CREATE_MAPEDFILE_FAILED"] > 0, "the second life's disk is full from the start"
    assert answers["1 SERVICE_NOT_AVAILABLE"] > 0, "once the store has looked at it"
    assert answers["1 PUT_OK"] > 0, "when room has returned"
    assert answers["2 PUT_OK"] == 4, "the disk of the last life has room"
