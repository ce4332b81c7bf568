"""Push consumers: delivery, repetition, order and load balancing."""

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest

pytestmark = pytest.mark.ci


def send_numbers(client: Any, topic: str, count: int) -> list[str]:
    producer = client.producer()
    for number in range(count):
        producer.send(topic, f"{number}")
    return [f"{number}" for number in range(count)]


@pytest.mark.parametrize("header_form", ["JSON", "ROCKETMQ"])
def test_each_message_is_delivered_once(client: Any, topic: str, group: str) -> None:
    before = send_numbers(client, topic, 20)
    consumer = client.consumer(topic, group)
    consumer.wait_for(20)
    after = send_numbers(client, topic, 20)
    consumer.wait_for(40)
    assert Counter(consumer.bodies()) == Counter(before + after)


def test_a_consumer_gets_its_tags(client: Any, topic: str, group: str) -> None:
    producer = client.producer()
    for number in range(30):
        producer.send(topic, f"{number}", tags="ABC"[number % 3])
    consumer = client.consumer(topic, group, tags="A || C")
    consumer.wait_for(20)
    assert sorted(map(int, consumer.bodies())) == [number for number in range(30) if number % 3 != 1]


def test_a_consumer_gets_messages_that_match_its_sql_expression(client: Any, topic: str, group: str) -> None:
    consumer = client.consumer(topic, group, sql="price > 10 AND region IN ('eu', 'us') OR TAGS = 'always'")
    producer = client.producer()
    for price in range(8, 14):
        for region in ("eu", "cn"):
            producer.send(topic, f"{price} {region}", properties={"price": f"{price}", "region": region})
    producer.send(topic, "always", tags="always")
    consumer.wait_for(4)
    assert sorted(consumer.bodies()) == ["11 eu", "12 eu", "13 eu", "always"]


def test_an_invalid_expression_is_refused_at_the_start(client: Any, topic: str, group: str) -> None:
    with pytest.raises(RuntimeError) as refused:
        client.consumer(topic, group, sql="price > > 10")
    assert refused.value.code == 23  # type: ignore[attr-defined]  # SUBSCRIPTION_PARSE_FAILED


def test_an_orderly_consumer_keeps_the_order_after_a_suspension(client: Any, topic: str, group: str) -> None:
    producer = client.producer()
    for number in range(40):
        later = {"properties": {"later": "2"}} if number in (5, 17) else {}
        producer.send(topic, f"{number}", "send.ordered", key=number % 4, **later)
    consumer = client.consumer(topic, group, orderly=True)
    received = consumer.wait_for(44)
    orders = defaultdict(list)
    for message in received:
        orders[message["queueId"]].append(int(message["body"]))
    expected = {queue: list(range(queue, 40, 4)) for queue in range(4)}
    expected[1][1:2] = [5, 5, 5]
    expected[1][6:7] = [17, 17, 17]
    assert orders == expected


def test_two_orderly_consumers_never_hold_the_same_queue(client: Any, topic: str, group: str, eventually: Any) -> None:
    one, other = (client.consumer(topic, group, orderly=True) for _ in range(2))
    eventually(lambda: len(one.queues(topic)) == len(other.queues(topic)) == 2, within_s=60)
    assert sorted(one.queues(topic) + other.queues(topic)) == [0, 1, 2, 3]
    bodies = send_numbers(client, topic, 40)
    eventually(lambda: len(one.bodies() + other.bodies()) >= 40, within_s=60)
    assert Counter(one.bodies() + other.bodies()) == Counter(bodies)


def test_two_consumers_share_queues_and_one_takes_over_after_the_other_stops(
    client: Any, topic: str, group: str, eventually: Any
) -> None:
    one, other = client.consumer(topic, group), client.consumer(topic, group)
    eventually(lambda: len(one.queues(topic)) == len(other.queues(topic)) == 2)
    assert sorted(one.queues(topic) + other.queues(topic)) == [0, 1, 2, 3]
    bodies = send_numbers(client, topic, 40)
    eventually(lambda: len(one.bodies() + other.bodies()) >= 40)
    left = [message["body"] for message in other.stop()]
    assert left
    eventually(lambda: one.queues(topic) == [0, 1, 2, 3])
    bodies += send_numbers(client, topic, 40)
    eventually(lambda: len(one.bodies() + left) >= 80)
    assert Counter(one.bodies() + left) == Counter(bodies)


def test_a_group_continues_at_its_offset(client: Any, topic: str, group: str) -> None:
    send_numbers(client, topic, 10)
    consumer = client.consumer(topic, group)
    consumer.wait_for(10)
    consumer.stop()
    client.producer().send(topic, "meanwhile")
    again = client.consumer(topic, group)
    again.wait_for(1)
    assert again.bodies() == ["meanwhile"]


def test_a_failed_message_is_delivered_again(client: Any, topic: str, group: str) -> None:
    consumer = client.consumer(topic, group)
    sent = client.producer().send(topic, "not now", properties={"later": "2"}, tags="T", keys="K")
    attempts = consumer.wait_for(3, within_s=90)  # the C++ client retries after 10 s and after 30 s
    assert [message["reconsumeTimes"] for message in attempts] == [0, 1, 2]
    assert {message["body"] for message in attempts} == {"not now"}
    assert {message["msgId"] for message in attempts} == {sent["msgId"]}
    assert {message["topic"] for message in attempts} == {topic}
    assert {message["properties"]["KEYS"] for message in attempts} == {"K"}
    gaps_ms = [after["receivedMs"] - before["receivedMs"] for before, after in pairwise(attempts)]
    assert all(gap_ms >= 900 for gap_ms in gaps_ms)


def test_a_message_that_fails_too_often_becomes_a_dead_letter(client: Any, topic: str, group: str) -> None:
    consumer = client.consumer(topic, group, maxReconsumeTimes=1)
    sent = client.producer().send(topic, "never", properties={"later": "99"})
    consumer.wait_for(2)
    client.wait_for_route(f"%DLQ%{group}")
    (dead,) = client.consumer(f"%DLQ%{group}", f"undertaker-{group}").wait_for(1)
    assert (dead["body"], dead["msgId"]) == ("never", sent["msgId"])
    assert len(consumer.bodies()) == 2


def test_broadcasting_delivers_each_message_to_every_consumer(
    client: Any, topic: str, group: str, eventually: Any
) -> None:
    everyone = [client.consumer(topic, group, broadcasting=True) for _ in range(2)]
    producer = client.producer()

    def all_read_each_queue() -> bool:  # some clients begin at the end of a queue
        for queue in range(4):
            producer.send(topic, "probe", "send.ordered", key=queue)
        return all({message["queueId"] for message in one.received()} == {0, 1, 2, 3} for one in everyone)

    eventually(all_read_each_queue)
    bodies = send_numbers(client, topic, 20)
    for one in everyone:
        eventually(lambda one=one: {*one.bodies()} >= {*bodies})
        assert Counter(body for body in one.bodies() if body != "probe") == Counter(bodies)
