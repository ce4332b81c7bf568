import pytest

from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import consumers
from tornlog.scenarios.oracle.ledger import ConsumedMessage


@pytest.fixture
def seen(evidence: Evidence) -> Evidence:
    for number, put in enumerate(evidence.ledger.puts):
        evidence.ledger.stable.append(ConsumedMessage("T0", 0, number, put))
    return evidence


def test_a_seen_message_that_is_present_passes(seen: Evidence) -> None:
    assert list(consumers.check_vis(seen)) == []


def test_a_seen_message_without_an_entry_is_found(seen: Evidence) -> None:
    seen.store.queues["T0", 0].entries.pop()

    (violation,) = consumers.check_vis(seen)

    assert (violation.expected, violation.found, violation.offset) == ("m2", "nothing", 40)


def test_a_seen_message_in_a_missing_queue_is_found(seen: Evidence) -> None:
    seen.store.queues.clear()

    assert len(list(consumers.check_vis(seen))) == 3


def test_another_message_at_an_offset_that_was_seen_is_found(seen: Evidence) -> None:
    entries = seen.store.queues["T0", 0].entries
    entries[1] = entries[0]

    (violation,) = consumers.check_vis(seen)

    assert violation.expected == "m1"
    assert "m0" in violation.found
