"""Needed parts: each crash, fault or switch without which a stored failure does not recur."""

from pathlib import Path

import pytest

from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.failures.parts import needed_parts, parts_of
from tornlog.scenarios.mutants.known import applied_mutant


def stored(name: str) -> Failure:
    return Failure.from_json((Path(__file__).parent / f"{name}.json").read_text())


@pytest.mark.parametrize(
    ("name", "needed", "departs"),
    [
        ("fsync-retry-acks", "failed sync msync commitlog/0 #4", "instead of life-0/group-commit: msync commitlog/0"),
        ("group-commit-swap-race", "switch life-0/producer-1 @ notify signal", "the first different operation"),
        ("stale-tail-after-truncate", "crash of life-0: ext4-ordered, at its end; page commitlog/0#0 ", "heal/main: "),
    ],
)
def test_a_shrunk_failure_needs_its_crashes_faults_and_switches(name: str, needed: str, departs: str) -> None:
    breach, mutant = stored(name).smallest, stored(name).mutant
    with applied_mutant(mutant):
        lines = needed_parts(breach.record, breach.signature)

    assert lines[0].startswith(f"needed: {needed}")
    assert lines[-1].startswith("without ")
    assert departs in lines[-1]


def test_a_part_that_the_failure_does_not_need_is_named() -> None:
    failure = stored("fsync-retry-acks")
    with applied_mutant(failure.mutant):
        lines = needed_parts(failure.original.record, failure.original.signature)

    assert [line.partition(":")[0] for line in lines[:2]] == ["needed", "not needed"]


def test_a_failure_without_deviations_needs_none() -> None:
    failure = stored("lmq-offset-lock-split")
    breach = failure.smallest

    assert list(parts_of(breach.record)) == []
    assert needed_parts(breach.record, breach.signature) == ["needed: no crash, fault or task switch"]
