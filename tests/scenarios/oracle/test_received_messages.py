"""Checks and records of each message that a consumer receives."""

import pytest

from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.group_delivery import MessagePlace
from tornlog.scenarios.oracle.invariants.consumers import PullBounds
from tornlog.scenarios.oracle.known_damage import DamagedBytes
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.put_entry import PLAIN, PutEntry
from tornlog.scenarios.oracle.reader import LogRecord, ReadRecord
from tornlog.scenarios.oracle.received_messages import ReceivedMessages
from tornlog.scenarios.workload.options import set_delay_level

PLACE = MessagePlace("T0", 0, 4)
RECORD = LogRecord(612, 100, *PLACE, 0, 0, b"KEYS\1m0", PLAIN.head(b"body"))


def ledger_of_one() -> Ledger:
    ledger = Ledger()
    ledger.record_request(PutEntry("m0", "T0", 0, "", b"body", b"KEYS\1m0", True, 0))
    return ledger


def violations_of_received(
    ledger: Ledger, reading: ReadRecord, *, wants: bool = True, sync_flush: bool = False, asked_in: int = 0
) -> str:
    """Return invariants and fields of the violations for a message received 10 ms after the start."""
    found: list[Violation] = []
    given = ReceivedMessages(ledger, found.extend, lambda: 10_000_000, lambda _: wants, "*", True, sync_flush)
    given.judge_message(PLACE, reading, asked_in)
    return ", ".join(f"{one.invariant} {one.field}" for one in found)


@pytest.mark.parametrize(
    ("changed", "body", "wants", "broken"),
    [
        ({}, b"body", True, ""),
        ({}, b"other", True, "VIS record"),
        ({"properties": b"KEYS\1m1"}, b"body", True, "VIS record"),
        ({"sys_flag": 7}, b"body", True, "READ sysFlag"),
        ({}, b"body", False, "READ filter"),
    ],
)
def test_a_received_message_must_equal_its_put_and_match_the_subscription(
    changed: dict[str, object], body: bytes, broken: str, *, wants: bool
) -> None:
    reading = ReadRecord(RECORD._replace(**changed), body)  # type: ignore[arg-type]
    assert violations_of_received(ledger_of_one(), reading, wants=wants) == broken


@pytest.mark.parametrize(("offset", "broken"), [("2", ""), ("1", "READ next message")])
def test_a_message_of_a_light_queue_has_the_offset_in_its_property(offset: str, broken: str) -> None:
    ledger, found = ledger_of_one(), list[Violation]()
    given = ReceivedMessages(ledger, found.extend, lambda: 0, lambda _: True, "*", True)
    properties = f"KEYS\1m0\2INNER_MULTI_DISPATCH\1%LMQ%L0\2INNER_MULTI_QUEUE_OFFSET\1{offset}".encode()
    reading = ReadRecord(RECORD._replace(properties=properties), b"body")

    given.judge_answer(("%LMQ%L0", 0), 2, [(None, reading)], PullBounds(0, 3, 3), 0)

    assert ", ".join(f"{one.invariant} {one.field}" for one in found if one.field == "next message") == broken


def test_fields_of_a_record_that_the_harness_damaged_are_not_compared() -> None:
    ledger = ledger_of_one()
    ledger.puts[0].physical_offset = RECORD.physical_offset
    ledger.known_damage.record_damage(DamagedBytes(620, b"\0", b"\1", ledger.puts[0]), unreadable=False)
    assert not violations_of_received(ledger, ReadRecord(RECORD._replace(queue_offset=7), b"body"))


def test_a_delayed_message_received_early_breaks_sched() -> None:
    ledger = ledger_of_one()
    set_delay_level(ledger.puts[0], 1)
    properties = RECORD.properties + b"\2REAL_TOPIC\1T0\2REAL_QID\0010"
    assert (
        violations_of_received(ledger, ReadRecord(RECORD._replace(properties=properties), b"body")) == "SCHED delivery"
    )
    assert ledger.consumed[0].copy_end == 712


@pytest.mark.parametrize(
    ("asked_in", "sync_flush", "is_seen"), [(0, False, True), (-1, False, False), (-1, True, True)]
)
def test_a_message_answered_by_an_earlier_life_counts_as_seen_only_under_sync_flush(
    asked_in: int, *, sync_flush: bool, is_seen: bool
) -> None:
    ledger = ledger_of_one()
    assert not violations_of_received(ledger, ReadRecord(RECORD, b"body"), sync_flush=sync_flush, asked_in=asked_in)
    assert [(one.put.name, one.queue_offset) for one in ledger.consumed] == [("m0", 4)] * is_seen


def test_receiving_an_unanswered_put_reveals_its_offset() -> None:
    ledger = ledger_of_one()
    violations_of_received(ledger, ReadRecord(RECORD, b"body"))
    (put,) = ledger.puts
    assert (put.physical_offset, put.queue_offset, put.record_bytes) == (612, 4, 100)
