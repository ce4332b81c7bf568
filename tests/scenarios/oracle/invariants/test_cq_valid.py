import pytest

from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.guarantees import note_unreadable
from tornlog.scenarios.oracle.invariants import consume_queues
from tornlog.scenarios.oracle.known_damage import Flaw
from tornlog.scenarios.oracle.recovered import FoundQueue
from tornlog.store.formats.consume_queue import BLANK_ENTRY, tags_code
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC


def test_entries_that_match_their_records_hold(evidence: Evidence) -> None:
    assert list(consume_queues.check_cq_valid(evidence)) == []


@pytest.mark.parametrize(
    ("entry", "field", "offset"),
    [
        ((5, 100, 0), "phyOffset", 20),
        ((10_000, 100, 0), "phyOffset", 20),
    ],
)
def test_an_entry_into_the_void_or_the_middle_of_a_record_is_found(
    evidence: Evidence, entry: tuple[int, int, int], field: str, offset: int
) -> None:
    evidence.store.queues["T0", 0].entries[1] = entry

    (violation,) = consume_queues.check_cq_valid(evidence)

    assert (violation.field, violation.offset) == (field, offset)


def test_a_blank_entry_is_found(evidence: Evidence) -> None:
    evidence.store.queues["T0", 0].entries[1] = BLANK_ENTRY

    assert {violation.field for violation in consume_queues.check_cq_valid(evidence)} == {"size", "tagsCode"}


def test_a_wrong_size_and_a_wrong_tag_are_found_at_their_bytes(evidence: Evidence) -> None:
    entries = evidence.store.queues["T0", 0].entries
    physical_offset, size_bytes, code = entries[2]
    entries[2] = (physical_offset, size_bytes + 1, code + 1)

    found = {violation.field: violation.offset for violation in consume_queues.check_cq_valid(evidence)}

    assert found == {"size": 48, "tagsCode": 52}


def test_an_entry_for_a_record_of_another_queue_is_found(evidence: Evidence) -> None:
    evidence.store.queues["T0", 1] = evidence.store.queues.pop(("T0", 0))

    assert [violation.found for violation in consume_queues.check_cq_valid(evidence)] == ["T0/0"] * 3


def test_an_entry_that_was_made_anew_for_a_damaged_record_is_found_and_one_that_was_kept_is_not(
    evidence: Evidence,
) -> None:
    put = evidence.ledger.puts[1]
    flaw = Flaw((put.physical_offset or 0) + 90, b"a", b"b", put)
    note_unreadable(evidence.ledger, flaw, unfit=False)
    assert list(consume_queues.check_cq_valid(evidence)) == []

    note_unreadable(evidence.ledger, flaw, unfit=True)
    (violation,) = consume_queues.check_cq_valid(evidence)
    assert (violation.summary, violation.offset) == ("an entry that was made for a damaged record", 20)


def test_the_tag_of_a_delayed_message_is_its_time_and_that_of_its_copy_its_own(
    delayed_evidence: Evidence,
) -> None:
    own, _, copy, _ = delayed_evidence.store.records
    queues = delayed_evidence.store.queues
    queues[SCHEDULE_TOPIC, 0].entries = [(own.record.physical_offset, own.record.size_bytes, 2000)]
    queues["T0", 0] = FoundQueue("T0", 0, 0, 0, 1, "", [(copy.record.physical_offset, 200, tags_code("TagA"))])
    assert list(consume_queues.check_cq_valid(delayed_evidence)) == []

    queues["T0", 0].entries = [(copy.record.physical_offset, 200, 2000)]
    (violation,) = consume_queues.check_cq_valid(delayed_evidence)
    assert (violation.field, violation.expected) == ("tagsCode", str(tags_code("TagA")))
