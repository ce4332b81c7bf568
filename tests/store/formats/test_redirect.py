from dataclasses import replace
from typing import Any

import pytest

from tests.store.rigs import Make, started
from tornlog.store.errors import InvalidMessageError
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC
from tornlog.store.formats.host import Host
from tornlog.store.formats.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    decode_record,
    encode_record,
)
from tornlog.store.formats.messages import Message, MessageBatch, PutMessageStatus
from tornlog.store.formats.properties import decode_properties
from tornlog.store.formats.redirect import message_to_deliver, redirect_delayed
from tornlog.store.world import World

HOST = Host.parse("10.1.2.3|4")
ILLEGAL = PutMessageStatus.MESSAGE_ILLEGAL


def delayed_message(level: object = 3, **fields: Any) -> Message:
    message = Message.create("Real", b"body", queue_id=7, properties={"DELAY": str(level), "K": "v"})
    return replace(message, **fields)


@pytest.mark.parametrize("sys_flag", [0, 1, TRANSACTION_COMMIT])
def test_a_delayed_message_is_stored_in_the_queue_of_its_level_with_its_target(sys_flag: int) -> None:
    redirected = redirect_delayed(delayed_message(3, sys_flag=sys_flag), 18)
    assert redirected is not None
    waiting, due = redirected
    assert (waiting.topic, waiting.queue_id) == (SCHEDULE_TOPIC, 2)
    assert decode_properties(waiting.properties) == {"DELAY": "3", "K": "v", "REAL_TOPIC": "Real", "REAL_QID": "7"}
    assert replace(waiting, topic="Real", queue_id=7) == due


def test_a_delay_level_above_the_highest_counts_as_the_highest() -> None:
    redirected = redirect_delayed(delayed_message(99), 5)
    assert redirected is not None
    assert redirected.waiting.queue_id == 4
    assert decode_properties(redirected.waiting.properties)["DELAY"] == "5"


@pytest.mark.parametrize(
    "message",
    [
        delayed_message(0),
        delayed_message(-1),
        delayed_message("x"),
        delayed_message(properties="NODELAY\x013"),
        delayed_message(properties="DELAY\x01"),
        delayed_message(sys_flag=TRANSACTION_PREPARED),
        delayed_message(sys_flag=TRANSACTION_ROLLBACK),
        delayed_message(honour_delay=False),
    ],
)
def test_a_message_without_a_valid_delay_level_is_not_redirected(message: Message) -> None:
    assert redirect_delayed(message, 18) is None


def test_without_delay_levels_no_message_is_redirected() -> None:
    assert redirect_delayed(delayed_message(1), 0) is None


def test_a_delayed_message_with_wait_store_ok_false_gets_the_wait_property() -> None:
    for given, stored in (("DELAY\x011", "false"), ("DELAY\x011\x02WAIT\x01no", "no")):
        redirected = redirect_delayed(delayed_message(properties=given, wait_store_ok=False), 18)
        assert redirected is not None
        assert decode_properties(redirected.waiting.properties)["WAIT"] == stored
    redirected = redirect_delayed(delayed_message(), 18)
    assert redirected is not None
    assert "WAIT" not in decode_properties(redirected.waiting.properties)


@pytest.mark.parametrize("topic", [SCHEDULE_TOPIC, "a\x02b"])
def test_a_delayed_message_for_a_topic_that_cannot_receive_it_is_refused(topic: str) -> None:
    with pytest.raises(InvalidMessageError):
        redirect_delayed(delayed_message(topic=topic), 18)


@pytest.mark.parametrize(
    "message",
    [
        delayed_message(topic="a/b"),
        delayed_message(topic="a\x02b"),
        delayed_message(topic="é" * 64),
        delayed_message(queue_id=-1),
        delayed_message(topic="T" * 100, body=bytes(1024 - 8 - 91 - 100 - len("REAL_TOPIC") - 40)),
    ],
)
def test_a_delayed_message_too_large_for_its_delivery_is_refused(world: World, small: Make, message: Message) -> None:
    store = started(world, small())
    assert store.put_message(message).status is ILLEGAL
    assert store.max_phy_offset == 0
    assert store.put_messages(MessageBatch(message, b"")).status is ILLEGAL
    assert store.shutdown()


def test_a_delivered_copy_keeps_all_fields_except_queue_and_transaction(world: World, small: Make) -> None:
    message = delayed_message(
        1,
        flag=5,
        sys_flag=TRANSACTION_COMMIT | 1,
        born_timestamp_ms=123,
        born_host=HOST,
        reconsume_times=2,
        prepared_transaction_offset=77,
    )
    store = started(world, small())
    result = store.put_message(message)
    assert result.append is not None
    assert result.append.queue_offset == 0
    record = store.look_message_by_offset(result.append.wrote_offset)
    assert record is not None
    assert (record.topic, record.queue_id, record.prepared_transaction_offset) == (SCHEDULE_TOPIC, 0, 77)
    copy = message_to_deliver(record)
    assert copy == replace(
        message,
        properties="REAL_TOPIC\x01Real\x02K\x01v\x02DELAY\x011\x02REAL_QID\x017",
        prepared_transaction_offset=0,
        wait_store_ok=False,
        honour_delay=False,
    )
    assert store.shutdown()


@pytest.mark.parametrize(
    "properties",
    [
        "",
        "REAL_TOPIC\x01T",
        "REAL_QID\x011",
        "REAL_TOPIC\x01T\x02REAL_QID\x01-1",
        "REAL_TOPIC\x01T\x02REAL_QID\x01x",
        "REAL_TOPIC\x01T\x02REAL_QID\x0112345678901",
        "REAL_TOPIC\x01T\x02REAL_QID\x01²",
    ],
)
def test_a_delayed_record_without_a_valid_target_is_not_delivered(properties: str) -> None:
    assert message_to_deliver(record(properties)) is None


def test_invalid_utf8_in_delayed_properties_is_delivered_as_replacement_characters() -> None:
    copy = message_to_deliver(record("REAL_TOPIC\x01T\x02REAL_QID\x010\x02K\x01\udcff"))
    assert copy is not None
    assert decode_properties(copy.properties)["K"] == "�"


def record(properties: str) -> Any:
    raw = encode_record(
        topic=SCHEDULE_TOPIC.encode(),
        properties=properties.encode(errors="surrogateescape"),
        body=b"",
        queue_id=0,
        flag=0,
        sys_flag=0,
        born_timestamp_ms=0,
        born_host=HOST,
        store_timestamp_ms=0,
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
    )
    return decode_record(raw, 0, file="commitlog", file_offset=0)
