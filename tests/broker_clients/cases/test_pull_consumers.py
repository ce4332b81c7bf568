"""Pull consumers."""

from typing import Any

import pytest

pytestmark = pytest.mark.ci


def send_numbers(client: Any, topic: str, eventually: Any) -> Any:
    """Send 22 numbers into four queues, wait until they can be pulled, and return the producer."""
    producer = client.producer()
    for number in range(22):
        producer.send(topic, f"{number}", "send.ordered", key=number % 4)
    wait_for_ends(client, topic, eventually, 6, 6, 5, 5)
    return producer


def wait_for_ends(client: Any, topic: str, eventually: Any, *ends: int) -> None:
    def has_dispatched() -> bool:  # the broker acknowledges a message before it can be pulled
        beyond = (client.pull("at", topic=topic, group="ends", queueId=queue, offset=1000) for queue in range(4))
        return tuple(one["max"] for one in beyond) == ends

    eventually(has_dispatched)


def test_a_pull_consumer_reads_each_queue_to_its_end(client: Any, topic: str, group: str, eventually: Any) -> None:
    send_numbers(client, topic, eventually)
    read = client.pull("all", topic=topic, group=group)
    assert sorted(int(message["body"]) for message in read["messages"]) == list(range(22))
    assert read["offsets"] == {"0": 6, "1": 6, "2": 5, "3": 5}


@pytest.mark.parametrize("header_form", ["JSON", "ROCKETMQ"])
def test_a_pull_consumer_continues_at_its_stored_offset(client: Any, topic: str, group: str, eventually: Any) -> None:
    producer = send_numbers(client, topic, eventually)
    client.pull("all", topic=topic, group=group, stored=True)
    producer.send(topic, "22", "send.ordered", key=2)
    wait_for_ends(client, topic, eventually, 6, 6, 6, 5)
    second = client.pull("all", topic=topic, group=group, stored=True)
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
