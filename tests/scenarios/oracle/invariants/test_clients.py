"""Checks of a broker's answers to sends and pulls, and of its tables after a load."""

from dataclasses import replace

import pytest

from tests.scenarios.oracle.invariants.puts import put_of
from tornlog.scenarios.oracle.evidence import Evidence, Violation
from tornlog.scenarios.oracle.group_delivery import GroupDelivery, MessagePlace
from tornlog.scenarios.oracle.invariants import consumers, side_files
from tornlog.scenarios.oracle.invariants.consume_queues import check_answered_place
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.put_entry import PLAIN, PutEntry

BOUNDS = consumers.PullBounds(0, 2, 3)


def violated_fields(ledger: Ledger, put: PutEntry, **other: object) -> list[str]:
    said = {"host": PLAIN.store_host, "queue_id": 0, "queue_offset": 3, "physical_offset": 600, **other}
    return [found.field for found in check_answered_place(ledger, put, **said)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "field"),
    [
        ({}, []),
        ({"host": (b"\7\0\0\1", 10911)}, ["storeHost"]),
        ({"queue_id": 1}, ["queueId"]),
        ({"queue_offset": 2}, ["order"]),
    ],
)
def test_an_answer_must_name_the_broker_the_queue_and_an_unused_offset(
    evidence: Evidence, other: dict[str, object], field: list[str]
) -> None:
    put = replace(put_of(3), asked_ns=500_000)
    evidence.ledger.record_request(put)
    assert violated_fields(evidence.ledger, put, **other) == field


def test_an_answer_must_have_the_offsets_at_which_a_consumer_has_seen_the_message(evidence: Evidence) -> None:
    put = replace(put_of(3), physical_offset=700, queue_offset=4)
    evidence.ledger.record_request(put)
    assert violated_fields(evidence.ledger, put) == ["queueOffset", "physicalOffset"]


def test_a_put_requested_after_an_answer_must_have_a_greater_queue_offset(evidence: Evidence) -> None:
    ledger = evidence.ledger
    for number, asked_ns, found in ((3, 999_999, []), (4, 1_000_001, ["order"])):
        ledger.promised["m2"].queue_offset = 9
        put = replace(put_of(number), asked_ns=asked_ns)
        ledger.record_request(put)
        assert violated_fields(ledger, put) == found


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("flag", 1),
        ("born_timestamp_ms", 1),
        ("born_host", b"\7\0\0\1\0\0\0\0"),
        ("store_host", b"\7\0\0\1\0\0\x2a\x9f"),
        ("reconsume_times", 1),
        ("prepared_transaction_offset", 1),
        ("body_crc", 1),
        ("magic", 1),
    ],
)
def test_a_received_record_must_have_every_header_field_of_its_put(
    evidence: Evidence, field: str, value: object
) -> None:
    put, record = evidence.ledger.puts[1], evidence.store.records[1].record
    assert not list(consumers.check_received(evidence.ledger, put, record))
    changed = record._replace(head=record.head._replace(**{field: value}))  # type: ignore[arg-type]
    assert [found.invariant for found in consumers.check_received(evidence.ledger, put, changed)] == ["READ"]


@pytest.mark.parametrize("field", ["queue_offset", "physical_offset", "sys_flag", "store_timestamp_ms"])
def test_a_received_record_must_have_its_offsets_and_store_time(evidence: Evidence, field: str) -> None:
    put, record = evidence.ledger.puts[1], evidence.store.records[1].record
    changed = record._replace(**{field: getattr(record, field) + 1})  # type: ignore[arg-type]
    if field == "physical_offset":
        put.stored_ms = None
    (found,) = consumers.check_received(evidence.ledger, put, changed)
    assert found.field.lower() == field.replace("_ms", "").replace("_", "")


@pytest.mark.parametrize(
    ("other", "passes_over", "is_broken"),
    [
        ({}, False, False),
        ({"next_begin_offset": 3}, False, True),
        ({"next_begin_offset": 3}, True, False),
        ({"next_begin_offset": 1}, True, True),
        ({"min_offset": 1}, False, True),
        ({"max_offset": 0}, False, True),
    ],
)
def test_an_answer_to_a_pull_must_have_the_offsets_of_the_queue_and_the_next_pull(
    other: dict[str, int], *, passes_over: bool, is_broken: bool
) -> None:
    found = list(consumers.check_pull_bounds(Ledger(), BOUNDS._replace(**other), (0, 0, 2), passes_over=passes_over))
    assert bool(found) is is_broken


def test_an_entry_appended_during_a_pull_that_skips_expired_ones_may_lie_beyond_max_offset() -> None:
    ledger = Ledger()
    ledger.expired_to = 1
    bounds = consumers.PullBounds(0, 3, 2)
    assert not list(consumers.check_pull_bounds(ledger, bounds, (1, 2, 3), passes_over=False))
    assert list(consumers.check_pull_bounds(ledger, bounds, (2, 2, 3), passes_over=False))


def test_a_consumer_may_skip_only_expired_messages(evidence: Evidence) -> None:
    ledger = evidence.ledger
    (missed,) = consumers.check_skipped_messages(ledger, ("T0", 0), 0, 2)
    assert (missed.invariant, missed.expected, missed.found) == (
        "CLEAN",
        "queue offset 0 of T0/0",
        "queue offset 2 of T0/0",
    )
    ledger.expired_to = evidence.store.records[2].record.physical_offset
    assert not list(consumers.check_skipped_messages(ledger, ("T0", 0), 0, 2))
    (missed,) = consumers.check_skipped_messages(ledger, ("T0", 0), 0, 3)
    assert missed.expected == "queue offset 2 of T0/0"


def test_a_matching_message_that_no_consumer_handled_is_a_violation(evidence: Evidence) -> None:
    group = GroupDelivery()
    group.record_handled([MessagePlace("T0", 0, 0)])

    def missed(unwanted: bytes = b"nothing") -> list[str]:
        found = consumers.check_all_handled(evidence.ledger, group, evidence.store, lambda has: unwanted not in has)
        return [f"{one.invariant} {one.summary.split()[0]}" for one in found]

    assert missed() == ["LIVE m1", "LIVE m2"]
    assert missed(unwanted=b"m1") == ["LIVE m2"]


def test_a_topic_or_group_of_an_answered_client_must_survive_a_load() -> None:
    ledger = Ledger(topics={"T0": 1}, groups={"consumers"})

    def broken(topics: dict[str, int], groups: set[str]) -> list[Violation]:
        return list(side_files.check_tables(ledger, topics, groups))

    assert not broken({"T0": 2}, {"consumers"})
    short, missing = broken({"T0": 1}, set())
    assert (short.invariant, short.field, short.found) == ("META", "topic", "1 queues")
    assert (missing.invariant, missing.field) == ("META", "group")
    assert broken({}, {"consumers"})[0].found == "no such topic"
    assert [found.field for found in side_files.check_topic(ledger, "T0")] == ["topic"]
    assert not list(side_files.check_topic(ledger, "T1"))


def test_a_topic_has_as_many_queues_as_its_producers_asked_for() -> None:
    ledger = Ledger(topics={"T0": 1})
    assert not list(side_files.check_tables(ledger, {"T0": 2}, set(), 2))
    (wide,) = side_files.check_tables(ledger, {"T0": 3}, set(), 2)
    assert (wide.invariant, wide.field, wide.expected, wide.found) == ("META", "queues", "2", "3")


def test_a_pending_put_does_not_count_as_lost_after_a_recovery() -> None:
    ledger = Ledger()
    for life, over_in, may_come in ((1, None, True), (1, 1, True), (1, 0, False), (1, -1, False)):
        ledger.life = life
        assert ledger.may_still_be_stored(replace(put_of(0), over_in=over_in)) is may_come


def test_the_port_of_a_client_is_taken_from_its_first_record(evidence: Evidence) -> None:
    put, record = evidence.ledger.puts[0], evidence.store.records[0].record
    put.knows_port = False
    of_port_7 = record._replace(head=record.head._replace(born_host=b"\x7f\0\0\1\0\0\0\7"))
    assert not list(put.differences(of_port_7))
    put.set_born_port(of_port_7)
    assert put.has_expected_head(of_port_7)
    assert [one.field for one in put.differences(record)] == ["bornHost"]
