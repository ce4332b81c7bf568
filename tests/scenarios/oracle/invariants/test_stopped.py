"""A cleanly stopped store must leave no abort file and must not answer."""

import pytest

from tests.fixtures import QUIET_PLAN, execute
from tornlog.scenarios.mutants.known import applied_mutant


@pytest.mark.parametrize(
    ("mutant", "invariant", "summary"),
    [
        (
            "tests.mutation:drop-write:message_store.MessageStore._mark_stopped#1",
            "STATUS",
            "a clean stop left the abort file",
        ),
        ("tests.mutation:skip-advance:message_store.MessageStore.shutdown#2", "READ", "a stopped store still answers"),
    ],
)
def test_an_incomplete_stop_is_a_violation(mutant: str, invariant: str, summary: str) -> None:
    with applied_mutant(mutant):
        violation = execute(QUIET_PLAN).violations[0]
    assert (violation.invariant, violation.summary) == (invariant, summary)
