from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import delivery
from tornlog.scenarios.oracle.recovered import FoundRecord


def add_copy(evidence: Evidence, *, at: int) -> None:
    """Put another copy of d0 at a log offset."""
    first = next(found for found in evidence.store.records if found.record.topic == "T0")
    record = first.record._replace(physical_offset=at)
    evidence.store.records.append(FoundRecord(record, first.file, at, first.body))


def test_a_log_without_delayed_messages_is_no_redelivery(evidence: Evidence) -> None:
    assert list(delivery.check_redelivery(evidence)) == []


def test_a_second_delivery_in_the_same_life_is_a_violation(delayed_evidence: Evidence) -> None:
    add_copy(delayed_evidence, at=5000)

    (violation,) = delivery.check_redelivery(delayed_evidence)

    assert violation.summary == "d0 was delivered twice after one start of the store"


def test_a_second_delivery_by_a_life_with_earlier_progress_is_no_violation(delayed_evidence: Evidence) -> None:
    delayed_evidence.ledger.begin_delivery(4000, {})
    add_copy(delayed_evidence, at=5000)

    assert list(delivery.check_redelivery(delayed_evidence)) == []


def test_a_second_delivery_by_a_life_with_later_progress_is_a_violation(delayed_evidence: Evidence) -> None:
    delayed_evidence.ledger.begin_delivery(4000, {1: 1})
    add_copy(delayed_evidence, at=5000)

    (violation,) = delivery.check_redelivery(delayed_evidence)

    assert violation.summary == "d0 was delivered again although progress had passed it"
    assert (violation.expected, violation.found) == ("1 or later", "0")


def test_a_delivery_after_a_truncation_belongs_to_the_later_life(delayed_evidence: Evidence) -> None:
    ledger = delayed_evidence.ledger
    ledger.begin_delivery(9000, {})
    ledger.begin_delivery(4000, {})
    add_copy(delayed_evidence, at=9500)

    assert ledger.delivery_of(9500) == 2
    assert list(delivery.check_redelivery(delayed_evidence)) == []


def test_a_delivered_copy_without_a_put_is_not_counted(delayed_evidence: Evidence) -> None:
    for found in delayed_evidence.store.records:
        found.record = found.record._replace(properties=b"KEYS\1stranger\2REAL_TOPIC\1T0")

    assert list(delivery.check_redelivery(delayed_evidence)) == []


def test_progress_before_the_last_delivery_is_a_violation_after_a_clean_stop(delayed_evidence: Evidence) -> None:
    delayed_evidence.ledger.progress_is_final = True
    assert list(delivery.check_redelivery(delayed_evidence)) == []

    delayed_evidence.store.delivered_to = {1: 1}
    (violation,) = delivery.check_redelivery(delayed_evidence)

    assert violation.summary == "d1 was delivered before a clean stop, and will be again"
    assert (violation.expected, violation.found) == ("beyond 1", "1")

    delayed_evidence.ledger.progress_is_final = False
    assert list(delivery.check_redelivery(delayed_evidence)) == []


def test_progress_that_is_restored_from_the_log_ends_before_a_message_whose_copy_was_lost(
    delayed_evidence: Evidence,
) -> None:
    first = next(found for found in delayed_evidence.store.records if found.record.topic == "T0")
    delayed_evidence.store.records.remove(first)
    delayed_evidence.store.delivered_to = {1: 0}
    delayed_evidence.ledger.progress_is_final = True
    assert [each.found for each in delivery.check_redelivery(delayed_evidence)] == ["0"]

    delayed_evidence.ledger.delivery_is_restored = True
    assert list(delivery.check_redelivery(delayed_evidence)) == []


def test_progress_lost_in_a_crash_may_still_be_missing_after_a_later_clean_stop(delayed_evidence: Evidence) -> None:
    delayed_evidence.ledger.begin_delivery(9000, {})
    delayed_evidence.ledger.progress_is_final = True
    delayed_evidence.store.delivered_to = {}

    assert list(delivery.check_redelivery(delayed_evidence)) == []
