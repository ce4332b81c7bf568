import pytest

from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import consume_queues
from tornlog.scenarios.oracle.recovered import FoundQueue
from tornlog.store.formats.message import TRANSACTION_PREPARED


def summaries(evidence: Evidence) -> list[str]:
    return [violation.summary for violation in consume_queues.check_cq_complete(evidence)]


def test_a_queue_with_one_entry_per_record_holds(evidence: Evidence) -> None:
    assert summaries(evidence) == []


def test_a_record_without_an_entry_is_found_at_its_slot(evidence: Evidence) -> None:
    evidence.store.queues["T0", 0].entries.pop()

    (violation,) = consume_queues.check_cq_complete(evidence)

    assert (violation.offset, violation.found) == (40, "none")


def test_a_record_of_a_queue_that_is_not_there_is_found(evidence: Evidence) -> None:
    evidence.store.queues.clear()

    assert summaries(evidence) == ["a record that its queue does not lead to"] * 3


def test_a_slot_that_leads_elsewhere_is_found(evidence: Evidence) -> None:
    entries = evidence.store.queues["T0", 0].entries
    entries[0], entries[1] = entries[1], entries[0]

    assert summaries(evidence) == ["a record that its queue does not lead to"] * 2


def test_a_record_with_two_entries_is_found(evidence: Evidence) -> None:
    entries = evidence.store.queues["T0", 0].entries
    entries.append(entries[2])

    assert summaries(evidence) == ["a record that its queue leads to more than once"]


def test_a_prepared_message_needs_no_entry(evidence: Evidence) -> None:
    found = evidence.store.records[2]
    found.record = found.record._replace(sys_flag=TRANSACTION_PREPARED)
    evidence.store.queues["T0", 0].entries.pop()

    assert summaries(evidence) == []


@pytest.fixture
def light(evidence: Evidence) -> FoundQueue:
    """Return the queue %LMQ%a/0, which holds m1 beside its own."""
    put, found = evidence.ledger.puts[1], evidence.store.records[1]
    put.light_names = ("%LMQ%a",)
    put.properties += b"\2INNER_MULTI_DISPATCH\1%LMQ%a"
    properties = put.properties + b"\2INNER_MULTI_QUEUE_OFFSET\0010"
    found.record = found.record._replace(properties=properties)
    entry = evidence.store.queues["T0", 0].entries[1]
    queue = FoundQueue("%LMQ%a", 0, 0, 0, 1, "", [entry])
    evidence.store.queues["%LMQ%a", 0] = queue
    return queue


def test_a_record_is_in_its_light_queue_too(evidence: Evidence, light: FoundQueue) -> None:
    assert summaries(evidence) == []
    assert list(consume_queues.check_cq_valid(evidence)) == []


def test_a_record_that_its_light_queue_does_not_lead_to_is_found(evidence: Evidence, light: FoundQueue) -> None:
    light.entries.clear()

    (violation,) = consume_queues.check_cq_complete(evidence)

    assert (violation.file, violation.found) == ("consumequeue/%LMQ%a/0", "none")


def test_an_entry_of_a_light_queue_that_its_record_does_not_name_is_found(
    evidence: Evidence, light: FoundQueue
) -> None:
    light.entries.append(evidence.store.queues["T0", 0].entries[2])

    assert [violation.found for violation in consume_queues.check_cq_valid(evidence)] == ["T0/0"]


def test_a_record_without_a_place_in_a_light_queue_that_it_names_is_found(
    evidence: Evidence, light: FoundQueue
) -> None:
    evidence.ledger.puts[1].light_names = ("%LMQ%a", "%LMQ%b")

    assert summaries(evidence) == ["a record without a place in a light queue that it names"]
