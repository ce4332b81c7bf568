"""All kinds of sends of the official client, with both header formats."""

import time
from collections import defaultdict
from typing import Any

import pytest

pytestmark = pytest.mark.ci

both_forms = pytest.mark.parametrize("header_form", ["JSON", "ROCKETMQ"])


@both_forms
def test_a_synchronous_send_returns_its_position(client: Any, topic: str) -> None:
    producer = client.producer()
    offsets = defaultdict(list)
    for number in range(8):
        sent = producer.send(topic, f"body {number}", tags="T", keys="K")
        assert sent["status"] == "SEND_OK"
        offsets[sent["queueId"]].append(sent["queueOffset"])
        seen = producer.ask("view", topic=topic, msgId=sent["offsetMsgId"])
        assert (seen["body"], seen["queueId"], seen["queueOffset"]) == (
            f"body {number}",
            sent["queueId"],
            sent["queueOffset"],
        )
        assert (seen["properties"]["TAGS"], seen["properties"]["KEYS"]) == ("T", "K")
    assert sorted(offsets) == [0, 1, 2, 3]
    assert set(map(tuple, offsets.values())) == {(0, 1)}


@both_forms
def test_an_asynchronous_send_is_answered_through_its_callback(client: Any, topic: str) -> None:
    producer = client.producer()
    sent = producer.send(topic, "later", "send.async")
    assert sent["status"] == "SEND_OK"
    assert producer.ask("view", topic=topic, msgId=sent["offsetMsgId"])["body"] == "later"


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
    assert len(sent["msgId"].split(",")) == len(sent["offsetMsgId"].split(",")) == 10
    received = sorted(client.consumer(topic, group).wait_for(10), key=lambda message: message["queueOffset"])
    assert [message["body"] for message in received] == bodies
    assert [message["queueOffset"] for message in received] == list(range(10))
    assert {message["queueId"] for message in received} == {sent["queueId"]}


def test_messages_sent_with_one_key_keep_their_order_in_one_queue(client: Any, topic: str) -> None:
    producer = client.producer()
    for number in range(24):
        producer.send(topic, f"{number}", "send.ordered", key=number % 3)
    orders = defaultdict(list)
    for message in client.pull("all", topic=topic, group="readers")["messages"]:
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
    assert message["sysFlag"] & 1


def test_an_uncompressed_long_body_is_stored_unchanged(client: Any, topic: str, group: str) -> None:
    body = "".join(chr(33 + (number * number) % 90) for number in range(1_000_000))
    client.producer(compressOverBytes=10_000_000).send(topic, body)
    (message,) = client.consumer(topic, group).wait_for(1)
    assert message["body"] == body
    assert not message["sysFlag"] & 1


def test_a_large_message_is_refused_as_illegal(client: Any, topic: str) -> None:
    producer = client.producer(compressOverBytes=10_000_000, maxMessageBytes=8_000_000)
    with pytest.raises(RuntimeError, match=r"MQBrokerException") as refused:
        producer.send(topic, "x" * 5_000_000)
    assert refused.value.code == 13  # type: ignore[attr-defined]
    assert producer.send(topic, "small")["queueOffset"] == 0


def test_the_first_message_creates_its_topic(client: Any, group: str) -> None:
    producer = client.producer()
    assert producer.send(f"new-{group}", "first")["queueOffset"] == 0
    route = client.admin()("route", topic=f"new-{group}")
    (queues,) = route["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (4, 4, 6)


def test_a_request_is_answered_by_a_consumers_reply(client: Any, topic: str, group: str) -> None:
    consumer = client.consumer(topic, group, replies=True)
    assert client.producer().send(topic, "question", "request", timeoutMs=15_000) == "reply to question"
    consumer.wait_for(1)


def test_a_producer_can_use_the_vip_port(serve: Any, connect: Any) -> None:
    client = connect(serve("--vip-port"))
    client.admin()("createTopic", topic="fast", queues=1)
    producer = client.producer(vip=True)
    assert [producer.send("fast", f"{number}")["queueOffset"] for number in range(3)] == [0, 1, 2]
