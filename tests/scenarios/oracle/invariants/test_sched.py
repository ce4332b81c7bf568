from dataclasses import replace

import pytest

from tests.scenarios.oracle.invariants.on_stores import on_a_store
from tests.scenarios.oracle.invariants.puts import put_of
from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import delivery
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.workload.options import set_delay_level
from tornlog.sim.disturbances import ClockSetBack
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore


def test_a_log_without_delayed_messages_is_no_delivery_violation(evidence: Evidence) -> None:
    assert list(delivery.check_delivered_copies(evidence)) == []


def test_a_copy_stored_a_millisecond_before_its_due_time_is_a_violation(delayed_evidence: Evidence) -> None:
    copy = delayed_evidence.store.records[-1]
    early = copy.record._replace(store_timestamp_ms=copy.record.store_timestamp_ms - 1)
    copy.record = early

    (violation,) = delivery.check_delivered_copies(delayed_evidence)

    assert violation.summary == "d1 was delivered early"
    assert (violation.expected, violation.found) == ("when due", "1 ms before")
    assert violation.offset == early.physical_offset


@pytest.mark.parametrize(("set_back_by_ms", "is_found"), [(0, False), (1, True)])
def test_a_copy_may_be_early_if_the_clock_was_set_back(
    delayed_evidence: Evidence, set_back_by_ms: int, is_found: bool
) -> None:
    copy = delayed_evidence.store.records[-1]
    due_ms = copy.record.store_timestamp_ms
    copy.record = copy.record._replace(store_timestamp_ms=due_ms - 1)
    delayed_evidence.ledger.clock_set_back.append(ClockSetBack(due_ms - set_back_by_ms, 0))

    found = list(delivery.check_delivered_copies(delayed_evidence))

    assert [violation.summary for violation in found] == ["d1 was delivered early"] * is_found


@pytest.mark.parametrize(("late_ms", "is_found"), [(100 + 40, False), (100 + 41, True)])
def test_a_copy_stored_long_after_its_due_time_is_a_violation(
    delayed_evidence: Evidence, late_ms: int, is_found: bool
) -> None:
    delayed_evidence.ledger.deliveries.clear()
    delayed_evidence.ledger.begin_delivery(0, {}, late_ms_max=100)
    copy = delayed_evidence.store.records[-1]
    copy.record = copy.record._replace(store_timestamp_ms=copy.record.store_timestamp_ms + late_ms)

    found = list(delivery.check_delivered_copies(delayed_evidence))

    assert [violation.summary for violation in found] == ["d1 was delivered late"] * is_found


def test_delivery_delay_counts_from_the_start_of_the_life_and_may_be_excused(delayed_evidence: Evidence) -> None:
    copy = delayed_evidence.store.records[-1]
    copy.record = copy.record._replace(store_timestamp_ms=9_000)
    assert list(delivery.check_delivered_copies(delayed_evidence)) == []

    delayed_evidence.ledger.deliveries.clear()
    delayed_evidence.ledger.begin_delivery(0, {}, began_ms=8_900, late_ms_max=100)
    assert list(delivery.check_delivered_copies(delayed_evidence)) == []


def test_a_copy_without_its_record_is_a_violation(delayed_evidence: Evidence) -> None:
    del delayed_evidence.store.records[0]

    (violation,) = delivery.check_delivered_copies(delayed_evidence)

    assert violation.summary == "d0 was delivered but never put"


def test_a_copy_before_its_record_is_a_violation(delayed_evidence: Evidence) -> None:
    records = delayed_evidence.store.records
    records.insert(0, records.pop())

    (violation,) = delivery.check_delivered_copies(delayed_evidence)

    assert violation.summary == "d1 was delivered but never put"


def test_a_copy_may_outlive_its_record_if_the_first_segments_expire(delayed_evidence: Evidence) -> None:
    expired = delayed_evidence.store.records.pop(0)
    delayed_evidence.store.min_offset = expired.record.size_bytes

    assert list(delivery.check_delivered_copies(delayed_evidence)) == []


def test_a_record_without_a_copy_before_the_delivery_progress_is_a_violation(delayed_evidence: Evidence) -> None:
    del delayed_evidence.store.records[-1]

    (violation,) = delivery.check_delivered_copies(delayed_evidence)

    assert violation.summary == "d1 was skipped"
    assert (violation.expected, violation.found) == ("at least one", "none")


def test_a_record_after_the_delivery_progress_needs_no_copy(delayed_evidence: Evidence) -> None:
    del delayed_evidence.store.records[-1]
    delayed_evidence.store.delivered_to = {1: 1}

    assert list(delivery.check_delivered_copies(delayed_evidence)) == []


def test_a_copy_that_was_damaged_after_a_stop_may_be_missing(delayed_evidence: Evidence) -> None:
    del delayed_evidence.store.records[-1]
    delayed_evidence.ledger.delivered_into_damage.add("d1")

    assert list(delivery.check_delivered_copies(delayed_evidence)) == []


@pytest.mark.parametrize(
    ("delivered", "is_durable", "is_found"), [(1, False, True), (0, False, False), (1, True, False)]
)
def test_progress_must_not_pass_a_message_whose_copy_is_not_durable(
    monkeypatch: pytest.MonkeyPatch, delivered: int, is_durable: bool, is_found: bool
) -> None:
    def body(store: MessageStore, disk: Disk) -> list[str]:
        ledger, put = Ledger(), replace(put_of(0), properties=b"KEYS\1m0\2DELAY\x011", queue_offset=0)
        set_delay_level(put, 1)
        ledger.record_request(put)
        assert store.put_message(Message("T0", put.body, 0, put.properties.decode())).append is not None
        store.world.tasks.sleep(1_500)
        assert store.schedule.offsets == {1: 1}
        monkeypatch.setattr(Disk, "is_durable", lambda *_: is_durable)
        written = b'{"offsetTable":{1:%d}}' % delivered
        return [each.summary for each in delivery.check_written_progress(store, disk, ledger, written, {})]

    assert on_a_store(body) == ["progress passes m0 before its copy is durable"] * is_found


@pytest.mark.parametrize(("now_ms", "found"), [(1004, "999 ms"), (1005, None)])
def test_a_delayed_message_that_a_consumer_receives_early_is_a_violation(
    delayed_evidence: Evidence, now_ms: int, found: str | None
) -> None:
    put = delayed_evidence.ledger.puts[0]
    put.asked_ns = 5_999_999

    violations = list(delivery.check_not_seen_early(put, now_ms * 1_000_000))

    assert [violation.found for violation in violations] == ([] if found is None else [found])
    assert all(violation.expected == ">= 1000 ms" for violation in violations)
