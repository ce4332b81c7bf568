"""RocketMQ's Go client 2.1.2 sends to `tornlog serve` and consumes from it."""

from collections import defaultdict
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SEND_OK = 0


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return sorted(message["body"] for message in messages)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_sent_message_is_at_the_answered_position(client: Any, topic: str, kind: str) -> None:
    sent = client.send(topic, "one", "two", "three", kind=kind, queue=2, key="order-17", properties={"colour": "red"})
    assert [(one["status"], one["queue"]) for one in sent] == [(SEND_OK, 2)] * 3
    assert sorted(one["offset"] for one in sent) == [0, 1, 2]
    received = client.received(client.consume(topic, f"{topic}-group"), 3)
    assert bodies(received) == ["one", "three", "two"]
    for message in received:
        assert (message["queue"], message["properties"]["colour"]) == (2, "red")
        assert message["properties"]["KEYS"].strip() == "order-17"


def test_one_way_sends_and_batches_arrive(client: Any, topic: str) -> None:
    client.send(topic, "one", "two", kind="oneway")
    client.send(topic, "three", "four", kind="batch")
    received = client.received(client.consume(topic, f"{topic}-group"), 4)
    assert bodies(received) == ["four", "one", "three", "two"]


def test_a_consumer_gets_its_tags(client: Any, topic: str) -> None:
    for tag in ("paid", "open", "late"):
        client.send(topic, tag, tag=tag)
    consumer = client.consume(topic, f"{topic}-group", expression="paid || late")
    assert bodies(client.received(consumer, 2)) == ["late", "paid"]


def test_a_consumer_gets_messages_that_match_its_sql_expression(client: Any, topic: str) -> None:
    for amount in ("5", "50"):
        client.send(topic, amount, properties={"amount": amount})
    consumer = client.consume(topic, f"{topic}-group", kind="SQL92", expression="amount > 10")
    assert bodies(client.received(consumer, 1)) == ["50"]


def test_an_orderly_consumer_keeps_the_order_after_a_failed_message(client: Any, topic: str) -> None:
    for number in range(20):
        client.send(topic, f"{number:02}", queue=number % 2)
    received = client.received(client.consume(topic, f"{topic}-group", orderly=True, failures=1), 21)
    of_queue = defaultdict(list)
    for message in received:
        of_queue[message["queue"]].append(message["body"])
    repeated = {queue: list(dict.fromkeys(found)) for queue, found in of_queue.items()}
    assert repeated == {queue: [f"{number:02}" for number in range(queue, 20, 2)] for queue in (0, 1)}


def test_a_failed_message_is_retried(client: Any, topic: str) -> None:
    consumer = client.consume(topic, f"{topic}-group", failures=1)
    client.send(topic, "twice")
    first, again = client.received(consumer, 2)
    assert (first["body"], first["reconsumed"], again["body"], again["reconsumed"]) == ("twice", 0, "twice", 1)


def test_both_broadcasting_consumers_get_all_messages(client: Any, topic: str) -> None:
    client.send(topic, "one", "two")
    consumers = [client.consume(topic, f"{topic}-group", broadcast=True) for _ in range(2)]
    for consumer in consumers:
        assert bodies(client.received(consumer, 2)) == ["one", "two"]


def test_a_delayed_message_arrives_after_its_delay(client: Any, topic: str) -> None:
    consumer = client.consume(topic, f"{topic}-group")
    client.send(topic, "later", delay=1)
    (message,) = client.received(consumer, 1)
    assert message["properties"]["REAL_TOPIC"] == topic


@pytest.mark.parametrize(("decision", "seen"), [("commit", ["half"]), ("rollback", [])])
def test_the_broker_checks_an_undecided_transaction_with_the_producer(
    client: Any, topic: str, decision: str, seen: list[str]
) -> None:
    assert client.send(topic, "half", kind="transaction", check=decision) == ["half"]
    client.send(topic, "whole")
    received = client.received(client.consume(topic, f"{topic}-group"), 1 + len(seen))
    assert bodies(received) == [*seen, "whole"]


def test_a_group_continues_at_its_offset(client: Any, topic: str) -> None:
    client.send(topic, "before")
    consumer = client.consume(topic, f"{topic}-group")
    client.received(consumer, 1)
    client.ask("consumer.stop", name=consumer)
    client.send(topic, "after")
    assert bodies(client.received(client.consume(topic, f"{topic}-group"), 1)) == ["after"]


def test_topics_can_be_created_listed_and_deleted(client: Any, topic: str) -> None:
    assert topic in client.ask("topic.list")
    client.ask("topic.delete", topic=topic)
    assert topic not in client.ask("topic.list")
