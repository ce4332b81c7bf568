"""Pull consumers."""

from typing import Any

import pytest

pytestmark = pytest.mark.ci


@pytest.mark.parametrize("header_form", ["JSON", "ROCKETMQ"])
def test_a_pull_consumer_reads_each_queue_and_continues(client: Any, topic: str, group: str, eventually: Any) -> None:
    def has_dispatched(*ends: int) -> bool:  # the broker acknowledges a message before it can be pulled
        beyond = (client.pull("at", topic=topic, group="ends", queueId=queue, offset=1000) for queue in range(4))
        return tuple(one["max"] for one in beyond) == ends

    producer = client.producer()
    for number in range(22):
        producer.send(topic, f"{number}", "send.ordered", key=number % 4)
    eventually(lambda: has_dispatched(6, 6, 5, 5))
    first = client.pull("all", topic=topic, group=group)
    assert sorted(int(message["body"]) for message in first["messages"]) == list(range(22))
    assert first["offsets"] == {"0": 6, "1": 6, "2": 5, "3": 5}
    producer.send(topic, "22", "send.ordered", key=2)
    eventually(lambda: has_dispatched(6, 6, 6, 5))
    second = client.pull("all", topic=topic, group=group)
    assert [message["body"] for message in second["messages"]] == ["22"]
    assert second["offsets"] == {"0": 6, "1": 6, "2": 6, "3": 5}


def test_a_pull_with_tags_skips_other_messages(client: Any, topic: str, group: str) -> None:
    producer = client.producer()
    for number in range(20):
        producer.send(topic, f"{number}", "send.ordered", key=0, tags="wanted" if number % 7 == 3 else "other")
    pulled = client.pull("all", topic=topic, group=group, tags="wanted")
    assert [message["body"] for message in pulled["messages"]] == ["3", "10", "17"]
    assert pulled["offsets"]["0"] == 20


def test_a_pull_beyond_the_end_gets_the_bounds_of_the_queue(client: Any, topic: str, group: str) -> None:
    client.producer().send(topic, "only", "send.ordered", key=1)
    beyond = client.pull("at", topic=topic, group=group, queueId=1, offset=1000)
    assert beyond == {"status": "OFFSET_ILLEGAL", "next": 1, "min": 0, "max": 1}
    at_the_end = client.pull("at", topic=topic, group=group, queueId=1, offset=1)
    assert at_the_end == {"status": "NO_NEW_MSG", "next": 1, "min": 0, "max": 1}


def test_a_lite_pull_consumer_gets_all_and_commits(client: Any, topic: str, group: str, eventually: Any) -> None:
    producer = client.producer()
    for number in range(20):
        producer.send(topic, f"{number}")
    consumer = client.start("lite", topic=topic, group=group)
    bodies: list[str] = []

    def polled(wanted: int) -> bool:
        bodies.extend(message["body"] for message in client.ask("lite.poll", lite=consumer))
        return len(bodies) >= wanted

    eventually(lambda: polled(20))
    assert sorted(map(int, bodies)) == list(range(20))
    client.ask("lite.commit", lite=consumer)
    client.forget("lite.stop", consumer)
    client.ask("lite.stop", lite=consumer)

    producer.send(topic, "after")
    bodies.clear()
    consumer = client.start("lite", topic=topic, group=group)
    eventually(lambda: polled(1))
    assert bodies == ["after"]
