"""A message that a consumer sent back must be stored again, and delivered when due."""

from collections.abc import Callable

import pytest

from tests.fixtures import QUIET_PLAN
from tornlog.faults.crashes.profiles import PROFILES
from tornlog.scenarios.oracle import guarantees
from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import delivery, dur, prefix
from tornlog.scenarios.oracle.ledger import HALF_TOPIC
from tornlog.scenarios.oracle.put_entry import WaitingPlace
from tornlog.scenarios.oracle.recovered import FoundRecord
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC

KILL, POWER = PROFILES["process-kill"], PROFILES["strict-posix"]
RETRY, DEAD = "%RETRY%consumers", "%DLQ%consumers"


@pytest.fixture
def make_returned_record(evidence: Evidence) -> Callable[[str], FoundRecord]:
    """Return a function that makes the record of the returned message m0 in a topic."""

    def make(topic: str) -> FoundRecord:
        own = evidence.store.records[0]
        properties = own.record.properties + b"\2RETRY_TOPIC\1T0\2ORIGIN_MESSAGE_ID\1A\2DELAY\0011"
        if topic == SCHEDULE_TOPIC:
            properties += f"\2REAL_TOPIC\1{RETRY}\2REAL_QID\0010".encode()
        head = own.record.head._replace(reconsume_times=1)
        at = evidence.store.max_offset
        record = own.record._replace(physical_offset=at, topic=topic, queue_offset=0, properties=properties, head=head)
        return FoundRecord(record, own.file, at, own.body)

    return make


def violated_fields(check: Callable[[Evidence], object], evidence: Evidence) -> list[str]:
    return [violation.field for violation in check(evidence)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("topic", [SCHEDULE_TOPIC, RETRY, DEAD])
def test_a_message_that_was_sent_back_must_have_a_retry_record(
    evidence: Evidence, make_returned_record: Callable[[str], FoundRecord], topic: str
) -> None:
    evidence.ledger.returned.kept.add("m0")
    assert violated_fields(dur.check_durable_puts, evidence) == ["returned message"]
    evidence.store.records.append(make_returned_record(topic))
    assert violated_fields(dur.check_durable_puts, evidence) == violated_fields(prefix.check_log_prefix, evidence) == []

    assert violated_fields(delivery.check_all_delivered, evidence) == (["delivery"] if topic == SCHEDULE_TOPIC else [])


def test_a_retry_record_must_keep_the_fields_and_count_the_retry(
    evidence: Evidence, make_returned_record: Callable[[str], FoundRecord]
) -> None:
    found = make_returned_record(RETRY)
    head = found.record.head._replace(flag=9, reconsume_times=0)
    found.record = found.record._replace(head=head)
    evidence.store.records.append(found)

    assert violated_fields(prefix.check_log_prefix, evidence) == ["flag", "reconsumeTimes"]


def test_the_retry_of_a_committed_message_keeps_the_wait_property_of_its_half_message(
    evidence: Evidence, make_returned_record: Callable[[str], FoundRecord]
) -> None:
    found, put = make_returned_record(RETRY), evidence.ledger.by_name["m0"]
    found.record = found.record._replace(properties=found.record.properties + b"\2WAIT\1false")
    evidence.store.records.append(found)
    evidence.ledger.returned.kept.add("m0")
    assert evidence.ledger.put_returned_in(found.record) is None
    assert "returned message" in violated_fields(dur.check_durable_puts, evidence)

    put.waiting_place, put.wait = WaitingPlace((HALF_TOPIC, 0), None), False
    assert evidence.ledger.put_returned_in(found.record) is put
    assert "returned message" not in violated_fields(dur.check_durable_puts, evidence)


def test_a_record_with_other_properties_is_not_the_retry_record(
    evidence: Evidence, make_returned_record: Callable[[str], FoundRecord]
) -> None:
    found = make_returned_record(RETRY)
    found.record = found.record._replace(properties=found.record.properties.replace(b"TagA", b"TagB"))
    evidence.store.records.append(found)

    assert violated_fields(prefix.check_log_prefix, evidence) == ["record"]


@pytest.mark.parametrize(
    ("profile", "sync_flush", "is_owed"), [("strict-posix", False, False), ("strict-posix", True, True)]
)
def test_only_a_power_cut_under_async_flush_may_lose_returned_messages(
    evidence: Evidence, profile: str, *, sync_flush: bool, is_owed: bool
) -> None:
    ledger = evidence.ledger
    ledger.returned.kept.add("m0")
    guarantees.note_crash(ledger, QUIET_PLAN.replace(sync_flush=sync_flush), PROFILES[profile], 1_000)
    assert bool(ledger.returned.names_to_store_again) is is_owed


def test_a_returned_message_must_exist_after_recovery_or_stop_until_it_expires(
    evidence: Evidence, make_returned_record: Callable[[str], FoundRecord]
) -> None:
    ledger = evidence.ledger
    evidence.store.records.append(make_returned_record(SCHEDULE_TOPIC))
    guarantees.note_recovery(ledger, evidence.store, durable=True)
    ledger.returned.kept.add("m1")
    guarantees.note_stop(ledger)
    assert ledger.returned.names_to_store_again == ["m0", "m1"]
    evidence.store.records.pop()
    assert violated_fields(dur.check_durable_puts, evidence) == ["returned message"] * 2
    ledger.expired_to = 1
    assert violated_fields(dur.check_durable_puts, evidence) == []
