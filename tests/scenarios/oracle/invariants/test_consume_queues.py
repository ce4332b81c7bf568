"""CQ-COMPLETE, CQ-VALID and QOFF on three messages with one error at a time."""

from collections.abc import Callable

import pytest

from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.guarantees import note_unreadable
from tornlog.scenarios.oracle.invariants.consume_queues import check_cq_complete, check_cq_valid, check_queue_offsets
from tornlog.scenarios.oracle.known_damage import DamagedBytes
from tornlog.scenarios.oracle.reader import ADDRESS_MAX
from tornlog.scenarios.oracle.recovered import FoundQueue
from tornlog.store.formats.consume_queue import BLANK_ENTRY, tags_code
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC
from tornlog.store.formats.message import TRANSACTION_PREPARED

UNREACHABLE = "a record without an entry in its queue"
Entries = list[tuple[int, int, int]]


def missing_entry_summaries(evidence: Evidence) -> list[str]:
    return [violation.summary for violation in check_cq_complete(evidence)]


# -- CQ-COMPLETE -----------------------------------------------------------------------------------


def test_a_record_without_an_entry_is_a_violation_at_its_queue_offset(evidence: Evidence) -> None:
    evidence.store.queues["T0", 0].entries.pop()

    (violation,) = check_cq_complete(evidence)

    assert (violation.offset, violation.found) == (40, "none")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda entries: entries.reverse(), [UNREACHABLE] * 2),
        (lambda entries: entries.append(entries[2]), ["a record with several entries in its queue"]),
    ],
)
def test_a_wrong_or_repeated_entry_is_a_violation(
    evidence: Evidence, change: Callable[[Entries], None], found: list[str]
) -> None:
    change(evidence.store.queues["T0", 0].entries)
    assert missing_entry_summaries(evidence) == found


def test_a_record_of_a_missing_queue_is_a_violation(evidence: Evidence) -> None:
    evidence.store.queues.clear()

    assert missing_entry_summaries(evidence) == [UNREACHABLE] * 3


def test_a_prepared_message_needs_no_entry(evidence: Evidence) -> None:
    found = evidence.store.records[2]
    found.record = found.record._replace(sys_flag=TRANSACTION_PREPARED)
    evidence.store.queues["T0", 0].entries.pop()

    assert missing_entry_summaries(evidence) == []


# -- CQ-VALID --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ((5, 100, 0), {"phyOffset": 20}),
        ((10_000, 100, 0), {"phyOffset": 20}),
        (BLANK_ENTRY, {"size": 28, "tagsCode": 32}),
    ],
)
def test_an_entry_that_points_to_no_record_or_is_blank_is_a_violation(
    evidence: Evidence, entry: tuple[int, int, int], found: dict[str, int]
) -> None:
    evidence.store.queues["T0", 0].entries[1] = entry

    assert {violation.field: violation.offset for violation in check_cq_valid(evidence)} == found


def test_a_wrong_size_or_tag_code_is_a_violation_at_its_bytes(evidence: Evidence) -> None:
    entries = evidence.store.queues["T0", 0].entries
    physical_offset, size_bytes, code = entries[2]
    entries[2] = (physical_offset, size_bytes + 1, code + 1)

    found = {violation.field: violation.offset for violation in check_cq_valid(evidence)}

    assert found == {"size": 48, "tagsCode": 52}


def test_an_entry_for_a_record_of_another_queue_is_a_violation(evidence: Evidence) -> None:
    evidence.store.queues["T0", 1] = evidence.store.queues.pop(("T0", 0))

    assert [violation.found for violation in check_cq_valid(evidence)] == ["T0/0"] * 3


def test_an_address_without_extension_is_a_violation_only_in_the_part_that_recovery_read(evidence: Evidence) -> None:
    queue = evidence.store.queues["T0", 0]
    queue.entries = [(offset, size_bytes, ADDRESS_MAX) for offset, size_bytes, _ in queue.entries]
    second = evidence.store.records[1].record.physical_offset
    for addresses_end, offsets in ((0, [12, 32, 52]), (second, [32, 52]), (second + 1, [52])):
        evidence.store.addresses_end = addresses_end
        assert [violation.offset for violation in check_cq_valid(evidence)] == offsets


def test_a_rebuilt_entry_for_a_damaged_record_is_a_violation_but_a_kept_one_is_not(evidence: Evidence) -> None:
    put = evidence.ledger.puts[1]
    flaw = DamagedBytes((put.physical_offset or 0) + 90, b"a", b"b", put)
    note_unreadable(evidence.ledger, flaw, must_lack_entry=False)
    assert list(check_cq_valid(evidence)) == []

    note_unreadable(evidence.ledger, flaw, must_lack_entry=True)
    (violation,) = check_cq_valid(evidence)
    assert (violation.summary, violation.offset) == ("an entry that was rebuilt for a damaged record", 20)


def test_the_tag_code_of_a_delayed_message_must_be_its_due_time_and_that_of_its_copy_the_real_one(
    delayed_evidence: Evidence,
) -> None:
    own, _, copy, _ = delayed_evidence.store.records
    queues = delayed_evidence.store.queues
    queues[SCHEDULE_TOPIC, 0].entries = [(own.record.physical_offset, own.record.size_bytes, 2000)]
    queues["T0", 0] = FoundQueue("T0", 0, 0, 0, 1, "", [(copy.record.physical_offset, 200, tags_code("TagA"))])
    assert list(check_cq_valid(delayed_evidence)) == []

    queues["T0", 0].entries = [(copy.record.physical_offset, 200, 2000)]
    (violation,) = check_cq_valid(delayed_evidence)
    assert (violation.field, violation.expected) == ("tagsCode", str(tags_code("TagA")))


# -- light queues ----------------------------------------------------------------------------------


@pytest.fixture
def light(evidence: Evidence) -> FoundQueue:
    """Return the queue %LMQ%a/0, which contains m1 as well."""
    put, found = evidence.ledger.puts[1], evidence.store.records[1]
    put.light_names = ("%LMQ%a",)
    put.properties += b"\2INNER_MULTI_DISPATCH\1%LMQ%a"
    properties = put.properties + b"\2INNER_MULTI_QUEUE_OFFSET\0010"
    found.record = found.record._replace(properties=properties)
    queue = FoundQueue("%LMQ%a", 0, 0, 0, 1, "", [evidence.store.queues["T0", 0].entries[1]])
    evidence.store.queues["%LMQ%a", 0] = queue
    return queue


def test_a_record_must_have_an_entry_in_its_light_queue(evidence: Evidence, light: FoundQueue) -> None:
    assert missing_entry_summaries(evidence) == []
    assert list(check_cq_valid(evidence)) == []

    light.entries.clear()
    (violation,) = check_cq_complete(evidence)
    assert (violation.file, violation.found) == ("consumequeue/%LMQ%a/0", "none")


def test_an_entry_for_a_record_that_does_not_name_the_light_queue_is_a_violation(
    evidence: Evidence, light: FoundQueue
) -> None:
    light.entries.append(evidence.store.queues["T0", 0].entries[2])

    assert [violation.found for violation in check_cq_valid(evidence)] == ["T0/0"]


def test_a_record_without_an_offset_in_a_named_light_queue_is_a_violation(
    evidence: Evidence, light: FoundQueue
) -> None:
    evidence.ledger.puts[1].light_names = ("%LMQ%a", "%LMQ%b")

    assert missing_entry_summaries(evidence) == ["a record without an offset in a light queue that it names"]


# -- QOFF ------------------------------------------------------------------------------------------


def offset_violations(evidence: Evidence) -> list[tuple[str, str]]:
    return [(violation.expected, violation.found) for violation in check_queue_offsets(evidence)]


@pytest.mark.parametrize(
    ("numbers", "found"),
    [((0, 2, 3), [("1", "2")]), ((0, 1, 1), [("2", "1")]), ((4, 5, 6), [("0", "4")])],
    ids=["a gap", "twice", "not from 0"],
)
def test_a_gap_in_queue_offsets_is_reported_once(
    evidence: Evidence, numbers: tuple[int, ...], found: list[tuple[str, str]]
) -> None:
    for put, one, number in zip(evidence.ledger.puts, evidence.store.records, numbers, strict=True):
        one.record = one.record._replace(queue_offset=number)
        put.queue_offset = number
    assert offset_violations(evidence) == found
    if numbers[0]:  # a log without its first segment may begin with any queue offset
        evidence.store.min_offset = 2048
        assert offset_violations(evidence) == []


@pytest.mark.parametrize(("tears", "position", "count"), [(False, 488, 1), (True, 488, 0), (True, 100, 1)])
def test_a_queue_offset_must_be_the_answered_one_unless_a_torn_sector_may_have_changed_it(
    evidence: Evidence, *, tears: bool, position: int, count: int
) -> None:
    evidence.ledger.puts[1].queue_offset = 5
    evidence.ledger.tears = tears
    evidence.store.records[1].position = position

    summaries = [violation.summary for violation in check_queue_offsets(evidence)]

    assert summaries == ["m1 has another queue offset than its answer"] * count


@pytest.mark.parametrize(
    ("places", "found"), [((0, 1, 2), []), ((0, 0), [("1", "0")]), ((4, 5), [("0", "4")])], ids=str
)
def test_offsets_in_a_light_queue_must_increase_by_one(
    evidence: Evidence, places: tuple[int, ...], found: list[tuple[str, str]]
) -> None:
    for put, one, place in zip(evidence.ledger.puts, evidence.store.records, places, strict=False):
        added = f"\2INNER_MULTI_DISPATCH\1%LMQ%a\2INNER_MULTI_QUEUE_OFFSET\1{place}".encode()
        put.properties += added.rpartition(b"\2")[0]
        one.record = one.record._replace(properties=one.record.properties + added)
    assert offset_violations(evidence) == found
    if places[0]:
        evidence.store.min_offset = 2048
        assert offset_violations(evidence) == []
