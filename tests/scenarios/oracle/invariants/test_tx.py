from dataclasses import replace
from typing import Any

import pytest

from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.oracle.invariants import tx
from tornlog.scenarios.oracle.ledger import GIVEN_UP_TOPIC, HALF_TOPIC
from tornlog.scenarios.oracle.transactions import Mistake, Transaction
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.formats.host import Host
from tornlog.store.formats.message import MessageRecord
from tornlog.store.services.transaction_service import EndTransactionStatus

DECIDED = EndTransactionStatus.DECIDED
ALREADY = EndTransactionStatus.ALREADY_DECIDED
NOT_FOUND = EndTransactionStatus.PREPARED_NOT_FOUND
FAILED = EndTransactionStatus.PUT_FAILED

History = Any


def summaries_of(history: History) -> list[str]:
    return [violation.summary for violation in tx.check_transaction_records(history.evidence)]


def test_correct_transactions_are_no_violation(history: History) -> None:
    for name in ("committed", "rolled", "open", "hopeless"):
        history.prepare(name)
    committed = history.decide("committed")
    copy = history.copy("committed").record
    committed.transaction.copies[copy.physical_offset + copy.size_bytes] = True
    history.op(0)
    history.decide("rolled", commits=False)
    history.op(1)
    history.put_back("open", 3)
    history.put_back("hopeless", 3, GIVEN_UP_TOPIC)

    assert summaries_of(history) == []


def test_a_log_without_transactions_is_no_violation(history: History) -> None:
    history.op("nonsense")

    assert summaries_of(history) == []


def test_an_uncommitted_message_must_not_be_visible(history: History) -> None:
    history.prepare("m")
    history.decide("m", commits=False)
    history.decide("m", status=ALREADY)
    history.copy("m")

    assert summaries_of(history) == ["m has more visible copies than commits"]


def test_a_message_must_have_at_most_one_copy_per_commit_request(history: History) -> None:
    history.prepare("m")
    history.decide("m")
    history.decide("m", status=None)
    history.copy("m")
    history.copy("m")
    assert summaries_of(history) == []
    history.copy("m")
    assert summaries_of(history) == ["m has more visible copies than commits"]


def test_a_committed_message_without_an_earlier_half_message_is_a_violation(history: History) -> None:
    history.prepare("m")
    history.decide("m")
    history.copy("m")
    history.evidence.store.records.reverse()
    for found in history.evidence.store.records:
        head = found.record.head._replace(prepared_transaction_offset=500)
        found.record = found.record._replace(physical_offset=500 - found.record.physical_offset, head=head)

    assert summaries_of(history) == ["m is visible without its half message"]
    history.evidence.store.min_offset = 500
    assert summaries_of(history) == []


def test_a_committed_message_must_have_the_commit_flag(history: History) -> None:
    history.prepare("m")
    history.decide("m")
    found = history.copy("m")
    found.record = found.record._replace(sys_flag=0)

    assert summaries_of(history) == ["m is visible without the commit flag"]


def test_a_lost_copy_of_a_promised_commit_is_a_violation(history: History) -> None:
    history.prepare("m").copies[1000] = True
    history.decide("m")

    assert summaries_of(history) == ["m was committed and is missing"]
    history.copy("m")
    assert summaries_of(history) == []


def test_an_op_message_without_a_request_is_a_violation(history: History) -> None:
    history.prepare("m")
    history.decide("m", status=NOT_FOUND)
    history.op(0)

    assert summaries_of(history) == ["m has an op without a decision"]


def test_an_op_message_of_a_commit_without_a_copy_is_a_violation(history: History) -> None:
    history.prepare("m")
    history.decide("m")
    history.op(0)
    assert summaries_of(history) == ["m was committed and has ended, but is not visible"]
    history.decide("m", commits=False, status=None)
    assert summaries_of(history) == [], "a roll-back without an answer may have been it"


def test_a_transaction_checked_more_often_than_allowed_is_a_violation(history: History) -> None:
    history.prepare("m")
    history.put_back("m", 4)

    assert summaries_of(history) == ["m is checked too many times"]


def test_a_transaction_given_up_too_early_is_a_violation(history: History) -> None:
    history.prepare("m")
    history.put_back("m", 2, GIVEN_UP_TOPIC)

    assert summaries_of(history) == ["m was given up too early"]


def test_op_and_half_messages_of_no_transaction_are_violations(history: History) -> None:
    history.prepare("m")
    history.op(7)
    history.op("nonsense")
    history.add(HALF_TOPIC, b"KEYS\1another\2REAL_TOPIC\1T0\2REAL_QID\0010", b"")

    assert summaries_of(history) == [
        "an op for '7', which is not the offset of a half message",
        "an op for 'nonsense', which is not the offset of a half message",
        "a half message that no producer put",
    ]


# -- questions and answers -------------------------------------------------------------------------


def check_record(at: int = 1000, age_ms: int = 5000) -> MessageRecord:
    host = Host(b"\x7f\0\0\1", 1)
    return MessageRecord(
        500, 0, 0, 0, 0, 0, at, 0, 10_000 - age_ms, host, 10_000, host, 0, 0, b"", HALF_TOPIC, "KEYS\1m"
    )


def check_violations(transaction: Transaction | None, record: MessageRecord) -> list[str]:
    return [
        violation.summary for violation in tx.check_check_request(transaction, record, now_ms=record.store_timestamp_ms)
    ]


def test_a_check_of_an_open_transaction_is_no_violation(history: History) -> None:
    assert check_violations(history.prepare("m"), check_record()) == []


def test_a_check_of_an_unknown_transaction_is_a_violation(history: History) -> None:
    assert check_violations(None, check_record()) == ["a check request for an unknown half message"]


def test_a_check_after_the_decision_is_a_violation(history: History) -> None:
    transaction = history.prepare("m")
    transaction.settled_at = 1000
    assert check_violations(transaction, check_record(at=999)) == []
    assert check_violations(transaction, check_record(at=1000)) == ["m was decided, but is checked again"]


def test_over_a_network_a_check_may_arrive_after_the_decision_but_must_not_be_sent_early(history: History) -> None:
    transaction = history.prepare("m")
    transaction.settled_at = 1000

    def late(age_ms: int) -> list[str]:
        found = tx.check_check_request(
            transaction, check_record(age_ms=age_ms), now_ms=10_000, may_come_late=True, timeout_ms=7
        )
        return [violation.summary for violation in found]

    assert late(7) == []
    assert late(6) == ["m is checked too early"]


@pytest.mark.parametrize(("immunity_s", "limit_ms"), [(0, 300), (1, 1000)])
def test_a_check_before_its_due_time_is_a_violation(history: History, immunity_s: int, limit_ms: int) -> None:
    transaction = history.prepare("m", immunity_s=immunity_s)
    assert check_violations(transaction, check_record(age_ms=limit_ms)) == []
    assert check_violations(transaction, check_record(age_ms=limit_ms - 1)) == ["m is checked too early"]
    early = check_record(age_ms=limit_ms - 1)
    assert list(tx.check_check_request(transaction, early, now_ms=early.store_timestamp_ms, may_be_early=True)) == []


@pytest.mark.parametrize(("immunity_s", "limit_ms"), [(0, 300 + 200), (1, 1000 + 300 + 200)])
def test_a_first_check_long_after_its_due_time_is_a_violation(history: History, immunity_s: int, limit_ms: int) -> None:
    transaction = history.prepare("m", immunity_s=immunity_s)

    def late(age_ms: int, times: str = "1", began_ms: int = 0, ahead_ms: int = 0) -> list[str]:
        record = check_record(age_ms=age_ms)
        record = replace(record, properties=f"{record.properties}\2TRANSACTION_CHECK_TIMES\1{times}")
        now_ms = record.store_timestamp_ms - ahead_ms
        transaction.check_numbers.clear()
        found = tx.check_check_request(transaction, record, now_ms=now_ms, began_ms=began_ms, late_ms_max=200)
        return [violation.summary for violation in found]

    assert late(limit_ms) == []
    assert late(limit_ms + 1) == ["m is checked too late"]
    assert late(limit_ms + 1, times="2") == []
    assert late(limit_ms + 1, began_ms=9_900) == []
    assert late(limit_ms + 1, ahead_ms=1) == [], "the log's time is ahead of the clock that says what is due"


def test_a_check_with_a_repeated_number_is_a_violation(history: History) -> None:
    transaction, record = history.prepare("m"), check_record(age_ms=900)
    record = replace(record, properties=f"{record.properties}\2TRANSACTION_CHECK_TIMES\1{1}")
    assert check_violations(transaction, record) == []
    assert check_violations(transaction, record) == [
        "m is checked again although a clean stop keeps the progress of the check"
    ]
    history.evidence.ledger.transactions.record_lost_progress()
    assert check_violations(transaction, record) == []


def test_a_transaction_is_asked_about_once_in_an_interval(history: History) -> None:
    transaction, record = history.prepare("m"), check_record(age_ms=900)

    def asked(later_ms: int) -> list[str]:
        at_ms = record.store_timestamp_ms + later_ms
        later = replace(record, store_timestamp_ms=at_ms)
        found = tx.check_check_request(transaction, later, now_ms=at_ms, asks_once=False, interval_ms=100)
        return [violation.summary for violation in found]

    assert asked(0) == asked(99) == []
    assert asked(197) == ["m is checked too often"]
    history.evidence.ledger.transactions.record_lost_progress()
    assert asked(198) == []


def test_a_transaction_is_given_up_once(history: History) -> None:
    history.prepare("m")
    for _ in range(2):
        history.put_back("m", 3, GIVEN_UP_TOPIC)
    assert summaries_of(history) == ["m was given up again"]
    history.evidence.ledger.transactions.record_lost_progress()
    assert summaries_of(history) == []


def test_a_transaction_may_be_decided_after_it_was_given_up_but_not_before(history: History) -> None:
    for name in ("late", "early"):
        history.prepare(name)
        history.decide(name, commits=False)
    history.put_back("late", 3, GIVEN_UP_TOPIC)
    history.op(0)
    assert summaries_of(history) == []
    history.op(1)
    history.put_back("early", 3, GIVEN_UP_TOPIC)
    assert summaries_of(history) == ["early was given up after its decision"]
    history.evidence.ledger.transactions.resumed = 1
    assert summaries_of(history) == []


def test_a_decision_also_counts_after_retention_has_removed_the_half_message_and_its_ops(history: History) -> None:
    history.prepare("m")
    decision = history.decide("m", commits=False)
    given_up = history.put_back("m", 3, GIVEN_UP_TOPIC).record
    history.evidence.store.records[:] = [each for each in history.evidence.store.records if each.record == given_up]
    history.evidence.store.min_offset = given_up.physical_offset
    for ops_end, expected in (
        (None, []),
        (given_up.physical_offset + 1, []),
        (given_up.physical_offset, ["m was given up after its decision"]),
    ):
        decision.ops_end = ops_end
        assert summaries_of(history) == expected


def test_a_check_whose_number_leaves_out_another_is_a_violation(history: History) -> None:
    transaction, record = history.prepare("m"), check_record(age_ms=900)
    record = replace(record, properties=f"{record.properties}\2TRANSACTION_CHECK_TIMES\1{2}")
    found = tx.check_check_request(transaction, record, now_ms=record.store_timestamp_ms, hears_all=True)
    assert [violation.expected for violation in found] == ["1"]


def test_the_due_time_of_a_check_is_compared_with_the_clock_of_the_machine(history: History) -> None:
    transaction, record = history.prepare("m"), check_record(age_ms=300)
    found = tx.check_check_request(transaction, record, now_ms=record.store_timestamp_ms - 1)
    assert [violation.summary for violation in found] == ["m is checked too early"]


@pytest.fixture
def disk() -> Disk:
    choices = Choices("tx")
    return Disk(Kernel(RandomWalk(choices.stream("schedule"), 16)), choices.stream("disk"))


def decision_violations(history: History, disk: Disk, status: EndTransactionStatus, *, found: bool = True) -> list[str]:
    history.decide("m", status=status)
    decisions = history.evidence.ledger.transactions.decisions
    violations = tx.check_decision_answer(decisions[-1], decisions, disk, can_be_found=found)
    return [violation.summary for violation in violations]


def test_only_the_first_decision_counts(history: History, disk: Disk) -> None:
    history.prepare("m")
    assert decision_violations(history, disk, DECIDED) == []
    assert decision_violations(history, disk, ALREADY) == []
    assert decision_violations(history, disk, DECIDED) == ["m was decided twice"]
    history.evidence.ledger.begin_life()
    assert decision_violations(history, disk, DECIDED) == []


def test_a_valid_decision_must_not_be_refused(history: History, disk: Disk) -> None:
    history.prepare("m")
    assert decision_violations(history, disk, NOT_FOUND, found=False) == []
    assert decision_violations(history, disk, NOT_FOUND) == ["a sound decision about m was turned away"]


def test_a_commit_may_fail_only_after_a_disk_error(history: History, disk: Disk) -> None:
    history.prepare("m")
    assert decision_violations(history, disk, FAILED) == ["m could not be committed, without a fault"]
    disk.injected["failed creation"] += 1
    assert decision_violations(history, disk, FAILED) == []


def test_a_wrong_request_gets_the_refusal_for_its_mistake() -> None:
    for status, found, is_wrong in (
        (EndTransactionStatus.PRODUCER_GROUP_WRONG, True, False),
        (NOT_FOUND, False, False),
        (NOT_FOUND, True, True),
        (DECIDED, False, True),
    ):
        violations = list(tx.check_mistaken_request("m", Mistake.GROUP, status, can_be_found=found))
        assert bool(violations) is is_wrong, (status, found)


def test_a_broker_may_refuse_a_decision_that_it_asked_for_only_if_it_cannot_store_it() -> None:
    for code, remark in ((0, None), (2, "busy"), (1, FAILED.value)):
        assert not list(tx.check_decision_accepted("m", code, remark))
    assert list(tx.check_decision_accepted("m", 1, ALREADY.value))


def test_a_refused_request_decides_nothing(history: History, disk: Disk) -> None:
    history.prepare("m")
    disk.injected["failed creation"] += 1
    assert decision_violations(history, disk, FAILED) == []
    refused = history.evidence.ledger.transactions.decisions[0]
    for answered_ns, summaries in ((-1, ["m counts as decided, and no request has decided it"]), (0, [])):
        refused.answered_ns = answered_ns
        assert decision_violations(history, disk, ALREADY, found=False) == []
        assert decision_violations(history, disk, ALREADY) == summaries


# -- in the end ------------------------------------------------------------------------------------


def test_undecided_transactions_are_open_until_they_are_given_up(history: History) -> None:
    for name in ("decided", "later", "earlier", "hopeless", "open", "gone"):
        history.prepare(name)
    history.put_back("later", 1)
    history.put_back("earlier", 1)
    history.put_back("earlier", 2)
    for half_offset in (0, 6, 7):
        history.op(half_offset)
    history.put_back("hopeless", 3, GIVEN_UP_TOPIC)
    ledger, store = history.evidence.ledger, history.evidence.store
    del store.records[5]

    assert tx.unsettled_transactions(ledger, store) == ["earlier", "open"]
    ledger.transactions.by_name["open"].may_be_forgotten = True
    assert tx.unsettled_transactions(ledger, store) == ["earlier"]
    (violation,) = tx.unsettled_violations(["earlier"], 20_000)
    assert violation.summary == "earlier stays undecided"


def test_a_put_back_half_message_with_the_offset_of_another_is_a_violation(history: History) -> None:
    history.prepare("m")
    found = history.put_back("m", 1)
    wrong = found.record.properties.replace(b"QUEUE_OFFSET\0010", b"QUEUE_OFFSET\0015")
    assert found.record.properties != wrong
    found.record = found.record._replace(properties=wrong)

    assert summaries_of(history) == ["a half message put back as 5, which is the offset of another"]
