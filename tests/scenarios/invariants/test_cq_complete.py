from tornlog.scenarios.evidence import Evidence
from tornlog.scenarios.invariants import cq_complete
from tornlog.store.formats.message import TRANSACTION_PREPARED


def summaries(evidence: Evidence) -> list[str]:
    return [violation.summary for violation in cq_complete.check(evidence)]


def test_a_queue_with_one_entry_per_record_holds(evidence: Evidence) -> None:
    assert summaries(evidence) == []


def test_a_record_without_an_entry_is_found_at_its_slot(evidence: Evidence) -> None:
    evidence.store.queues["T0", 0].entries.pop()

    (violation,) = cq_complete.check(evidence)

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
