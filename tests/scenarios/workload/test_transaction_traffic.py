"""Transaction traffic: the drawn behaviour, the ledger's records, and the reported violations."""

from typing import Any

import pytest

from tests.fixtures import execute
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.oracle.ledger import HALF_TOPIC, Ledger
from tornlog.scenarios.oracle.put_entry import PutEntry, WaitingPlace
from tornlog.scenarios.oracle.transactions import Transaction, TransactionBehaviour, Transactions
from tornlog.scenarios.workload import transaction_traffic
from tornlog.sim.choices import Choices
from tornlog.store.errors import StoreNotReadableError
from tornlog.store.formats.messages import PutMessageStatus
from tornlog.store.services.transaction_service import EndTransactionStatus, TransactionalMessageService


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[Transaction]:
    """Return every transaction of the runs of a test."""
    transactions: list[Transaction] = []
    prepare = Transactions.add_transaction

    def watched(self: Transactions, name: str, behaviour: TransactionBehaviour) -> Transaction:
        transactions.append(prepare(self, name, behaviour))
        return transactions[-1]

    monkeypatch.setattr(Transactions, "add_transaction", watched)
    return transactions


@pytest.mark.slow
def test_transaction_producers_show_every_drawn_behaviour(prepared: list[Transaction], transaction_plan: Plan) -> None:
    for seed in range(8):
        assert execute(transaction_plan, str(seed)).violations == []
    statuses = {one.status for transaction in prepared for one in transaction.decisions}
    assert {EndTransactionStatus.DECIDED, EndTransactionStatus.ALREADY_DECIDED} <= statuses
    assert {one.commits for transaction in prepared for one in transaction.decisions} == {True, False}
    assert {transaction.questions for transaction in prepared} >= {0, 1, 2, 3}
    assert any(one.copy_end and one.is_acknowledged for each in prepared for one in each.decisions)
    assert any(not transaction.decisions for transaction in prepared), "some are given up"


def test_a_decision_without_a_stored_op_message_may_be_checked_by_the_next_service(
    prepared: list[Transaction], transaction_plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TransactionalMessageService, "_put_op", lambda self, half_offset: None)
    settled: list[tuple[int, int]] = []
    shutdown = transaction_traffic.TransactionTraffic.shutdown

    def watched(self: transaction_traffic.TransactionTraffic) -> None:
        before = sum(bool(one.settled_at) for one in prepared)
        shutdown(self)
        settled.append((before, sum(bool(one.settled_at) for one in prepared)))

    monkeypatch.setattr(transaction_traffic.TransactionTraffic, "shutdown", watched)
    execute(transaction_plan, "0")

    assert any(before for before, _ in settled)
    assert all(not after for _, after in settled)


def test_the_ledger_predicts_the_record_length_of_half_messages(
    transaction_plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[PutEntry] = []
    ask = Ledger.record_request
    monkeypatch.setattr(Ledger, "record_request", lambda self, put: (asked.append(put), ask(self, put))[1])
    sizes: dict[str, int] = {}
    prepare = TransactionalMessageService.prepare

    def measured(self: TransactionalMessageService, message: Any) -> Any:
        result = prepare(self, message)
        if result.append is not None:
            sizes[message.properties] = result.append.wrote_bytes
        return result

    monkeypatch.setattr(TransactionalMessageService, "prepare", measured)
    execute(transaction_plan.replace(messages={"no_wait_chance": 0.5}))
    halves = [put for put in asked if put.waiting_place == WaitingPlace((HALF_TOPIC, 0))]
    assert {put.wait for put in halves} == {True, False}
    assert {put.properties.decode(): put.record_bytes for put in halves} == sizes


@pytest.mark.slow
def test_a_half_message_that_cannot_be_stored_when_given_up_is_refused(
    transaction_plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[PutEntry] = []
    ask = Ledger.record_request
    monkeypatch.setattr(Ledger, "record_request", lambda self, put: (asked.append(put), ask(self, put))[1])
    plan = transaction_plan.replace(commit_log_bytes=2048, messages={"body_bytes_max": 2000, "equal_sizes": False})
    for seed in range(6):
        assert execute(plan, str(seed)).violations == []
    judged = {(put.status is PutMessageStatus.PUT_OK, transaction_traffic.fits_segment(put, plan)) for put in asked}
    assert judged == {(True, True), (False, False)}


def test_a_decision_without_an_answer_is_recorded_as_unknown(
    prepared: list[Transaction], transaction_plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, refused = TransactionalMessageService.commit, [3]

    def sometimes(self: TransactionalMessageService, request: Any) -> Any:
        if refused[0]:
            refused[0] -= 1
            raise StoreNotReadableError("not now")
        return commit(self, request)

    monkeypatch.setattr(TransactionalMessageService, "commit", sometimes)
    monkeypatch.setattr(transaction_traffic, "_MISTAKES", (None,))
    assert execute(transaction_plan).violations == []
    assert sum(one.status is None for each in prepared for one in each.decisions) == 3


def test_a_decided_transaction_is_not_decided_again_in_a_later_life(
    prepared: list[Transaction], transaction_plan: Plan
) -> None:
    for seed in range(4):
        execute(transaction_plan, f"back {seed}")
    decided = [[one.status for one in each.decisions].count(EndTransactionStatus.DECIDED) for each in prepared]
    assert set(decided) == {0, 1}, "without a crash no decision is repeated"


@pytest.mark.parametrize("ahead_ms", [3_600_000, 500, -3_600_000])
def test_producers_with_a_wrong_clock_cause_no_violation(transaction_plan: Plan, ahead_ms: int) -> None:
    plan = transaction_plan.replace(
        transactions={"clock_ahead_ms": ahead_ms}, heals=True, pauses={"chance": 0.5, "ms_max": 3_000}
    )
    run = execute(plan, "2")
    assert run.violations == []
    assert run.ledger is not None
    halves = [put for put in run.ledger.puts if put.name in run.ledger.transactions.by_name and put.stored_ms]
    errors_ms = {round(put.content.born_timestamp_ms - put.stored_ms, -2) for put in halves if put.stored_ms}
    assert {0, ahead_ms} <= errors_ms


def test_a_drawn_behaviour_sets_the_immunity_property_of_the_half_message() -> None:
    stream = Choices("behave").stream("one")
    drawn = [transaction_traffic.draw_behaviour(stream) for _ in range(100)]
    assert {behaviour.immunity_s for behaviour in drawn} == {0, 1}
    assert {behaviour.own_after_ms is None for behaviour in drawn} == {True, False}
    for behaviour in drawn:
        immune = "CHECK_IMMUNITY_TIME_IN_SECONDS\0011" in behaviour.properties
        assert immune == (behaviour.immunity_s == 1)
        assert {"PGROUP\1sellers", "TRAN_MSG\1true"} <= set(behaviour.properties)
