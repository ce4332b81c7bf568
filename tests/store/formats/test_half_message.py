from dataclasses import replace

import pytest

from tornlog.store.formats import half_message
from tornlog.store.formats.half_message import GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC, HalfMessage
from tornlog.store.formats.host import Host
from tornlog.store.formats.message import MessageRecord
from tornlog.store.formats.messages import Message
from tornlog.store.formats.properties import decode_properties, encode_properties

CLIENT, BROKER = Host(b"\x0a\0\0\x02", 40001), Host(b"\x0a\0\0\x01", 10911)
GIVEN = {"TRAN_MSG": "true", "PGROUP": "g", "TAGS": "A"}


def record_of(queue_offset: int = 7, sys_flag: int = 1, **properties: str) -> MessageRecord:
    text = encode_properties(GIVEN | {"REAL_TOPIC": "Orders", "REAL_QID": "3"} | properties)
    return MessageRecord(
        0, 0, 0, 0, 5, queue_offset, 900, sys_flag, 1000, CLIENT, 2000, BROKER, 2, 0, b"body", HALF_TOPIC, text
    )  # fmt: skip


def make_half_message(queue_offset: int = 7, sys_flag: int = 1, **properties: str) -> HalfMessage:
    return HalfMessage.from_record(record_of(queue_offset, sys_flag, **properties))


def test_preparing_a_message_replaces_its_topic_and_clears_its_transaction_bits() -> None:
    message = Message("Orders", b"body", 3, encode_properties(GIVEN), flag=5, sys_flag=4 | 1)
    prepared = half_message.half_message_of(message)
    assert prepared is not None
    assert (prepared.topic, prepared.queue_id, prepared.sys_flag) == (HALF_TOPIC, 0, 1)
    assert (prepared.flag, prepared.body, prepared.honour_delay) == (5, b"body", False)
    assert decode_properties(prepared.properties) == GIVEN | {"REAL_TOPIC": "Orders", "REAL_QID": "3"}


def test_preparing_a_message_drops_properties_of_an_earlier_transaction() -> None:
    stale = {"TRANSACTION_CHECK_TIMES": "15", "TRAN_PREPARED_QUEUE_OFFSET": "2", "REAL_TOPIC": "Other"}
    prepared = half_message.half_message_of(Message("Orders", properties=encode_properties(GIVEN | stale)))
    assert prepared is not None
    assert decode_properties(prepared.properties) == GIVEN | {"REAL_TOPIC": "Orders", "REAL_QID": "0"}


def test_preparing_a_message_with_wait_store_ok_false_keeps_that_property() -> None:
    prepared = half_message.half_message_of(Message("Orders", properties=encode_properties(GIVEN), wait_store_ok=False))
    assert prepared is not None
    assert decode_properties(prepared.properties)["WAIT"] == "false"


def test_a_topic_that_does_not_fit_into_a_property_cannot_be_prepared() -> None:
    assert half_message.half_message_of(Message("Ord\x02ers")) is None


def test_a_commit_restores_the_message_of_the_producer() -> None:
    message = half_message.committed_message_of(make_half_message())
    assert message is not None
    assert (message.topic, message.queue_id, message.body) == ("Orders", 3, b"body")
    assert (message.sys_flag, message.prepared_transaction_offset) == (8 | 1, 900)
    assert (message.flag, message.reconsume_times, message.born_timestamp_ms) == (5, 2, 1000)
    assert (message.born_host, message.store_host) == (CLIENT, BROKER)
    assert message.honour_delay
    expected = GIVEN | {"REAL_TOPIC": "Orders", "REAL_QID": "3"}
    assert decode_properties(message.properties) == expected


@pytest.mark.parametrize(("wait", "waits"), [("true", True), ("TRUE", True), ("false", False), ("no", False)])
def test_a_commit_waits_for_the_disk_only_if_the_prepared_message_did(wait: str, waits: bool) -> None:
    message = half_message.committed_message_of(make_half_message(WAIT=wait))
    assert message is not None
    assert message.wait_store_ok is waits


@pytest.mark.parametrize("queue_id", ["x", "-1", "", "99999999999"])
def test_a_half_message_without_a_valid_target_cannot_be_committed(queue_id: str) -> None:
    assert half_message.committed_message_of(make_half_message(REAL_QID=queue_id)) is None


def test_an_op_message_names_its_half_message_and_has_the_host_of_the_broker() -> None:
    op = half_message.op_message(120, 5000, BROKER)
    assert (op.topic, op.queue_id, op.body) == (OP_TOPIC, 0, b"120")
    assert op.properties == "WAIT\x01true\x02TAGS\x01d"
    assert (op.born_timestamp_ms, op.born_host, op.store_host) == (5000, BROKER, BROKER)
    assert not op.wait_store_ok


def test_putting_a_half_message_back_counts_checks_and_keeps_the_first_offset() -> None:
    first = half_message.put_back_message(make_half_message(), asked=True)
    assert (first.topic, first.queue_id, first.flag, first.reconsume_times) == (HALF_TOPIC, 0, 5, 2)
    properties = decode_properties(first.properties)
    assert (properties["TRANSACTION_CHECK_TIMES"], properties["TRAN_PREPARED_QUEUE_OFFSET"]) == ("1", "7")

    again = HalfMessage.from_record(replace(record_of(queue_offset=30), properties=first.properties))
    assert (again.offsets, again.check_times) == ((30, 7), 1)
    second = decode_properties(half_message.put_back_message(again, asked=True).properties)
    assert (second["TRANSACTION_CHECK_TIMES"], second["TRAN_PREPARED_QUEUE_OFFSET"]) == ("2", "7")


def test_putting_a_half_message_back_without_a_check_does_not_increase_the_count() -> None:
    properties = decode_properties(half_message.put_back_message(make_half_message(), asked=False).properties)
    assert "TRANSACTION_CHECK_TIMES" not in properties
    assert properties["TRAN_PREPARED_QUEUE_OFFSET"] == "7"


def test_giving_up_a_half_message_does_not_change_its_properties() -> None:
    message = half_message.copy_half_message(make_half_message(), GIVEN_UP_TOPIC, {})
    assert (message.topic, message.queue_id) == (GIVEN_UP_TOPIC, 0)
    assert decode_properties(message.properties) == make_half_message().properties


@pytest.mark.parametrize("first", ["8", "-1", "x", "9" * 30])
def test_an_impossible_prepared_queue_offset_is_ignored(first: str) -> None:
    assert make_half_message(TRAN_PREPARED_QUEUE_OFFSET=first).offsets == (7,)


@pytest.mark.parametrize(("text", "ms"), [("30", 30_000), ("0", 0), ("-1", None), ("soon", None)])
def test_check_immunity_must_be_a_whole_number_of_seconds(text: str, ms: int | None) -> None:
    assert make_half_message(CHECK_IMMUNITY_TIME_IN_SECONDS=text).immunity_ms == ms


def test_invalid_utf8_in_properties_is_replaced_as_in_java() -> None:
    damaged = record_of(KEYS=b"\xff\xfe".decode(errors="surrogateescape"))
    found = HalfMessage.from_record(damaged)
    assert found.properties["KEYS"] == "\ufffd\ufffd"
    assert found.record.properties.encode().decode() == found.record.properties
