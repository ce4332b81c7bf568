import pytest

from tests.scenarios.oracle.invariants.puts import put_of
from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import prefix
from tornlog.scenarios.oracle.recovered import FoundRecord
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.messages import PutMessageStatus


def summaries_of(evidence: Evidence) -> list[str]:
    return [violation.summary for violation in prefix.check_log_prefix(evidence)]


def test_a_log_with_a_missing_end_is_no_violation(evidence: Evidence) -> None:
    evidence.store.max_offset = evidence.store.records.pop().record.physical_offset

    assert summaries_of(evidence) == []


def test_damage_inside_the_log_is_reported_as_a_gap(evidence: Evidence) -> None:
    evidence.store.damage = CorruptFileError("commitlog/0", 200, "magicCode", "daa320a7", "00000000")

    (violation,) = prefix.check_log_prefix(evidence)

    assert (violation.summary, violation.file, violation.offset) == ("the log has a gap", "commitlog/0", 200)


def test_a_record_that_was_never_put_is_a_violation(evidence: Evidence) -> None:
    found = evidence.store.records[2]
    found.record = found.record._replace(properties=put_of(7).properties)

    assert "a record that no producer put" in summaries_of(evidence)


def test_a_record_with_another_body_is_a_violation(evidence: Evidence) -> None:
    evidence.store.records[1].body = bytes(7)

    assert "a record that no producer put" in summaries_of(evidence)


@pytest.mark.parametrize("known", [True, False])
def test_a_duplicate_put_is_a_violation_with_and_without_a_known_offset(evidence: Evidence, known: bool) -> None:
    store, first = evidence.store, evidence.store.records[0]
    record = first.record._replace(physical_offset=store.max_offset)
    again = FoundRecord(record, first.file, store.max_offset, first.body)
    store.records.append(again)
    store.by_offset[store.max_offset] = again
    store.max_offset += record.size_bytes
    if not known:
        evidence.ledger.puts[0].physical_offset = None

    assert summaries_of(evidence) == ["a put that is stored twice"]


def test_a_truncated_record_must_not_reappear(evidence: Evidence) -> None:
    evidence.ledger.lost_puts["m1"] = evidence.ledger.puts[1]

    assert summaries_of(evidence) == ["a truncated record reappeared"]


def test_a_refused_put_must_not_be_in_the_log(evidence: Evidence) -> None:
    evidence.ledger.puts[1].status = PutMessageStatus.MESSAGE_ILLEGAL

    assert summaries_of(evidence) == ["a refused put is stored"]


def test_a_missing_record_between_others_is_reported_as_a_gap(evidence: Evidence) -> None:
    gone = evidence.store.records.pop(1)
    del evidence.store.by_offset[gone.record.physical_offset]

    assert summaries_of(evidence) == ["a record is missing in the log"]


@pytest.mark.parametrize(
    ("tears", "address", "fields"),
    [(True, b"\0\0\0\1", []), (True, b"\x7f\0\0\2", ["bornHost"]), (False, b"\0\0\0\1", ["bornHost"])],
)
def test_an_unchecked_field_may_be_zero_where_power_cuts_tear_sectors(
    evidence: Evidence, tears: bool, address: bytes, fields: list[str]
) -> None:
    found = evidence.store.records[2]
    host = found.record.head.born_host
    assert host[:4] == b"\x7f\0\0\1"
    found.record = found.record._replace(head=found.record.head._replace(born_host=address + host[4:]))
    evidence.ledger.tears = tears

    assert [violation.field for violation in prefix.check_log_prefix(evidence)] == fields


@pytest.mark.parametrize(
    ("tears", "position", "topic", "found"),
    [
        (True, 488, "T0", []),
        (False, 488, "T0", ["a record that no producer put"]),
        (True, 100, "T0", ["a record that no producer put"]),
        (True, 488, "T1", ["a record that no producer put"]),
    ],
)
def test_a_record_in_another_queue_is_a_violation_unless_a_torn_sector_may_have_moved_it(
    evidence: Evidence, tears: bool, position: int, topic: str, found: list[str]
) -> None:
    moved = evidence.store.records[2]
    moved.record = moved.record._replace(topic=topic, queue_id=1)
    moved.position = position
    evidence.ledger.tears = tears

    assert summaries_of(evidence) == found
