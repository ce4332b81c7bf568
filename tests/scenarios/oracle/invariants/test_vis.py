import pytest

from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import consumers
from tornlog.scenarios.oracle.ledger import ConsumedMessage


@pytest.fixture
def consumed_evidence(evidence: Evidence) -> Evidence:
    for number, put in enumerate(evidence.ledger.puts):
        evidence.ledger.kept_messages.append(ConsumedMessage("T0", 0, number, put))
    return evidence


def test_a_consumed_message_without_a_queue_entry_is_a_violation(consumed_evidence: Evidence) -> None:
    consumed_evidence.store.queues["T0", 0].entries.pop()

    (violation,) = consumers.check_visibility(consumed_evidence)

    assert (violation.expected, violation.found, violation.offset) == ("m2", "nothing", 40)


def test_a_consumed_message_in_a_missing_queue_is_a_violation(consumed_evidence: Evidence) -> None:
    consumed_evidence.store.queues.clear()

    assert len(list(consumers.check_visibility(consumed_evidence))) == 3


def test_another_message_at_a_consumed_offset_is_a_violation(consumed_evidence: Evidence) -> None:
    entries = consumed_evidence.store.queues["T0", 0].entries
    entries[1] = entries[0]

    (violation,) = consumers.check_visibility(consumed_evidence)

    assert violation.expected == "m1"
    assert "m0" in violation.found
