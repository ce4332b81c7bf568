"""Half messages are invisible until the producer's decision, which is asked for."""

from typing import Any

import pytest

from tests.one_life import with_settings
from tornlog.store.broker.requests import RequestCode, ResponseCode
from tornlog.store.formats.host import encode_message_id
from tornlog.store.formats.message import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from tornlog.store.formats.properties import decode_properties

from .conftest import records_of

HALF = {"TRAN_MSG": "true", "PGROUP": "sellers", "UNIQ_KEY": "U1", "TAGS": "A"}
UNDECIDED = 0


def prepare(client: Any, queue_id: int = 2) -> dict[str, object]:
    """Send a half message. Return the fields that identify it in a decision."""
    answer = client.send_message(b"half", properties=HALF, e=queue_id, f=4)
    assert answer.code == ResponseCode.SUCCESS
    return {
        "producerGroup": "sellers",
        "tranStateTableOffset": answer.ext_fields["queueOffset"],
        "commitLogOffset": int(answer.ext_fields["msgId"][-16:], 16),
        "msgId": "U1",
    }


def decide(client: Any, named: dict[str, object], decision: int) -> Any:
    return client.ask(RequestCode.END_TRANSACTION, commitOrRollback=decision, **named)


def test_a_commit_makes_the_message_visible_once(bench: Any, client: Any) -> None:
    named = prepare(client)
    assert client.pulled(queueId=2) == []
    assert decide(client, named, TRANSACTION_COMMIT).code == ResponseCode.SUCCESS
    assert decide(client, named, TRANSACTION_COMMIT).code == ResponseCode.SUCCESS
    bench.settle()
    (record,) = client.pulled(queueId=2)
    assert (record.body, record.prepared_transaction_offset) == (b"half", named["commitLogOffset"])


def test_a_rolled_back_message_stays_invisible(bench: Any, client: Any) -> None:
    named = prepare(client)
    assert decide(client, named, TRANSACTION_ROLLBACK).code == ResponseCode.SUCCESS
    decide(client, named, TRANSACTION_COMMIT)
    bench.settle()
    assert client.pulled(queueId=2) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"producerGroup": "others"},
        {"tranStateTableOffset": 5},
        {"commitLogOffset": 7},
        {"commitLogOffset": 1 << 62},
        {"commitOrRollback": 3},
        {"commitLogOffset": "x"},
        {"msgId": "U2"},
    ],
)
def test_a_transaction_decision_with_wrong_fields_is_refused(bench: Any, client: Any, wrong: dict[str, object]) -> None:
    fields = {**prepare(client), "commitOrRollback": TRANSACTION_COMMIT, **wrong}
    assert client.answer(RequestCode.END_TRANSACTION, **fields).code == ResponseCode.SYSTEM_ERROR
    bench.settle()
    assert client.pulled(queueId=2) == []


@with_settings(transaction_timeout_ms=1_000, transaction_check_interval_ms=2_000)
def test_the_producer_of_an_undecided_transaction_is_checked_and_can_commit(bench: Any) -> None:
    producer, other = bench.client(), bench.client()
    producer.heartbeat()
    producer.got.clear()
    named = prepare(producer)
    assert decide(producer, named, UNDECIDED) is None
    bench.sleep(3_000)
    (question,) = producer.got
    assert (question.code, question.is_one_way) == (RequestCode.CHECK_TRANSACTION_STATE, True)
    (shown,) = records_of(question)
    assert (shown.topic, shown.queue_id, shown.body) == ("Orders", 2, b"half")
    assert decode_properties(shown.properties)["TRANSACTION_CHECK_TIMES"] == "1"
    fields = question.ext_fields
    assert (fields["msgId"], fields["transactionId"]) == ("U1", "U1")
    assert int(fields["offsetMsgId"][-16:], 16) == int(fields["commitLogOffset"])
    answer = {**named, **{name: fields[name] for name in ("tranStateTableOffset", "commitLogOffset")}}
    answer["fromTransactionCheck"] = "true"
    assert decide(producer, answer, TRANSACTION_COMMIT).code == ResponseCode.SUCCESS
    bench.settle()
    assert len(other.pulled(queueId=2)) == 1
    bench.sleep(10_000)
    assert len(producer.got) == 1


@with_settings(transaction_timeout_ms=1_000, transaction_check_interval_ms=2_000)
def test_members_of_the_producer_group_are_checked_in_turn(bench: Any) -> None:
    producers = [bench.client() for _ in range(2)]
    for producer in producers:
        producer.heartbeat(f"of {producer.client_id}".replace(" ", "-").replace("@", "-").replace(".", "-"))
        producer.got.clear()
    prepare(producers[0])
    bench.sleep(8_500)
    asked = [len(producer.got) for producer in producers]
    assert asked[0] == asked[1] > 0


@pytest.mark.parametrize(("level", "is_half"), [("0", True), ("-1", True), ("1", False)])
def test_only_a_retry_with_a_delay_is_no_half_message(bench: Any, client: Any, level: str, is_half: bool) -> None:
    answer = client.send_message(b"half", properties={**HALF, "DELAY": level}, e=2, j=1)
    assert answer.code == ResponseCode.SUCCESS
    bench.sleep(3_000)
    assert len(client.pulled(queueId=2)) == (0 if is_half else 1)


@with_settings(reject_transaction_message=True)
def test_transactions_can_be_disabled(bench: Any) -> None:
    answer = bench.client().send_message(b"half", properties=HALF)
    assert answer.code == ResponseCode.NO_PERMISSION


@with_settings(transaction_check_max=1, transaction_check_interval_ms=3_600_000)
def test_an_operator_can_resume_a_given_up_transaction(bench: Any) -> None:
    client, operator = bench.client(), bench.client()
    client.heartbeat()
    client.got.clear()
    named = prepare(client)
    for _ in range(2):
        bench.sleep(10_000)
        bench.settle()
        bench.broker.transactions.checker.check_half_messages()
    bench.settle()
    (given_up,) = client.pulled(topic="TRANS_CHECK_MAX_TIME_TOPIC")
    resumed = RequestCode.RESUME_CHECK_HALF_MESSAGE
    message_id = encode_message_id(given_up.store_host, given_up.physical_offset)
    half_id = encode_message_id(given_up.store_host, named["commitLogOffset"])
    for wrong in ("x", half_id, message_id[:-4] + "7FFF"):
        refused = operator.answer(resumed, msgId=wrong)
        assert (refused.code, refused.remark[:6]) == (ResponseCode.SYSTEM_ERROR, "msgId:")
    assert operator.answer(resumed, msgId=message_id).code == ResponseCode.SUCCESS
    bench.settle()
    bench.broker.transactions.checker.check_half_messages()
    assert client.codes() == [RequestCode.CHECK_TRANSACTION_STATE] * 2
