"""All kinds of sends of an official client, with both header formats."""

import time
from collections import defaultdict
from typing import Any

import pytest

pytestmark = pytest.mark.ci

COMPRESSED, ALGORITHM = 0x1, 0x700
"""Bits of the system flag. A client of 5.5 removes the first when it decompresses; clients of 4.9 lack the others."""

both_forms = pytest.mark.parametrize("header_form", ["JSON", "ROCKETMQ"])


def check_positions(sent: dict[str, Any], received: list[dict[str, Any]]) -> None:
    """Check that each message was received at the position in the answer to its send."""
    assert sent.keys() == {message["body"] for message in received}
    for message in received:
        answer = sent[message["body"]]
        assert answer["status"] == "SEND_OK"
        assert answer["queueOffset"] == message["queueOffset"]
        assert answer.get("queueId", message["queueId"]) == message["queueId"]  # the C++ client does not return it


@both_forms
def test_a_synchronous_send_returns_the_position_of_the_message(client: Any, topic: str, group: str) -> None:
    producer = client.producer()
    sent = {f"body {number}": producer.send(topic, f"body {number}", tags="T", keys="K") for number in range(8)}
    received = client.consumer(topic, group).wait_for(8)
    check_positions(sent, received)
    offsets = defaultdict(set)
    for message in received:
        offsets[message["queueId"]].add(message["queueOffset"])
        assert (message["properties"]["TAGS"], message["properties"]["KEYS"]) == ("T", "K")
    assert offsets == {queue: {0, 1} for queue in range(4)}


@both_forms
def test_an_asynchronous_send_returns_the_position_through_its_callback(client: Any, topic: str, group: str) -> None:
    sent = {"later": client.producer().send(topic, "later", "send.async")}
    check_positions(sent, client.consumer(topic, group).wait_for(1))


@both_forms
def test_a_one_way_send_is_stored_without_an_answer(client: Any, topic: str, group: str) -> None:
    client.producer().send(topic, "and forget", "send.oneway")
    (message,) = client.consumer(topic, group).wait_for(1)
    assert message["body"] == "and forget"


@both_forms
def test_the_messages_of_a_batch_follow_one_another_in_one_queue(client: Any, topic: str, group: str) -> None:
    bodies = [f"part {number}" for number in range(10)]
    messages = [{"topic": topic, "body": body, "tags": "T", "keys": body} for body in bodies]
    sent = client.producer().ask("send.batch", messages=messages)
    assert sent["status"] == "SEND_OK"
    received = sorted(client.consumer(topic, group).wait_for(10), key=lambda message: message["queueOffset"])
    assert [message["body"] for message in received] == bodies
    assert [message["queueOffset"] for message in received] == list(range(10))
    assert len({message["queueId"] for message in received}) == 1


@both_forms
def test_the_answer_to_a_batch_has_an_id_for_each_message(client: Any, topic: str) -> None:
    producer = client.producer()
    sent = producer.ask("send.batch", messages=[{"topic": topic, "body": f"part {number}"} for number in range(3)])
    ids = sent["offsetMsgId"].split(",")
    assert len(sent["msgId"].split(",")) == 3
    assert [producer.ask("view", topic=topic, msgId=each)["body"] for each in ids] == ["part 0", "part 1", "part 2"]


def test_messages_sent_with_one_key_keep_their_order_in_one_queue(client: Any, topic: str, group: str) -> None:
    producer = client.producer()
    for number in range(24):
        producer.send(topic, f"{number}", "send.ordered", key=number % 3)
    orders = defaultdict(list)
    for message in sorted(client.consumer(topic, group).wait_for(24), key=lambda message: message["queueOffset"]):
        orders[message["queueId"]].append(int(message["body"]))
    assert orders == {key: list(range(key, 24, 3)) for key in range(3)}


def test_a_delayed_message_is_visible_only_after_its_delay(client: Any, topic: str, group: str) -> None:
    consumer = client.consumer(topic, group)
    sent_ms = time.time() * 1000
    client.producer().send(topic, "in a second", delayLevel=1, keys="K", tags="T")
    (message,) = consumer.wait_for(1)
    assert 1000 <= message["receivedMs"] - sent_ms < 30_000
    assert (message["body"], message["topic"]) == ("in a second", topic)
    assert (message["properties"]["TAGS"], message["properties"]["KEYS"]) == ("T", "K")


@both_forms
@pytest.mark.parametrize("body_bytes", [5_000, 3_000_000])
def test_a_long_body_is_sent_and_stored_compressed(client: Any, topic: str, group: str, body_bytes: int) -> None:
    body = "tornlog " * (body_bytes // 8)
    client.producer().send(topic, body)
    (message,) = client.consumer(topic, group).wait_for(1)
    assert message["body"] == body
    assert message.get("sysFlag", COMPRESSED) & (COMPRESSED | ALGORITHM)  # the C++ client does not return the flags


def test_an_uncompressed_long_body_is_stored_unchanged(client: Any, topic: str, group: str) -> None:
    body = "".join(chr(33 + (number * number) % 90) for number in range(1_000_000))
    client.producer(compressOverBytes=10_000_000).send(topic, body)
    (message,) = client.consumer(topic, group).wait_for(1)
    assert message["body"] == body
    assert not message["sysFlag"] & (COMPRESSED | ALGORITHM)


def test_a_large_message_is_refused_as_illegal(client: Any, topic: str) -> None:
    producer = client.producer(compressOverBytes=10_000_000, maxMessageBytes=8_000_000)
    with pytest.raises(RuntimeError, match=r"MQBrokerException") as refused:
        producer.send(topic, "x" * 5_000_000)
    assert refused.value.code == 13  # type: ignore[attr-defined]
    assert producer.send(topic, "small")["queueOffset"] == 0


def test_the_first_message_creates_its_topic(client: Any, group: str) -> None:
    producer = client.producer()
    for number in range(8):
        producer.send(f"new-{group}", f"{number}")
    client.wait_for_route(f"new-{group}")
    received = client.consumer(f"new-{group}", group).wait_for(8)
    assert {message["queueId"] for message in received} == {0, 1, 2, 3}


def test_a_request_is_answered_by_a_consumers_reply(client: Any, topic: str, group: str) -> None:
    consumer = client.consumer(topic, group, replies=True)
    assert client.producer().send(topic, "question", "request", timeoutMs=15_000) == "reply to question"
    consumer.wait_for(1)


def test_a_producer_can_use_the_vip_port(serve: Any, connect: Any) -> None:
    client = connect(serve("--vip-port"))
    client.create_topic("fast", queues=1)
    producer = client.producer(vip=True)
    assert [producer.send("fast", f"{number}")["queueOffset"] for number in range(3)] == [0, 1, 2]
