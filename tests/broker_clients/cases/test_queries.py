"""Queries of messages: by key, by unique id, by offset id, and by time."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.ci


def result_or_none(ask: Callable[[], Any]) -> Any:
    """Return the result, or None while the index lacks the message."""
    try:
        return ask()
    except RuntimeError:
        return None


def test_messages_are_found_by_each_of_their_keys(client: Any, topic: str, eventually: Any) -> None:
    producer = client.producer()
    for number in range(6):
        producer.send(topic, f"{number}", keys=f"all number{number} parity{number % 2}")

    def found(key: str) -> list[str]:
        return sorted(message["body"] for message in producer.ask("query", topic=topic, key=key, max=32))

    eventually(lambda: result_or_none(lambda: found("number5")) == ["5"])
    assert found("all") == ["0", "1", "2", "3", "4", "5"]
    assert found("parity1") == ["1", "3", "5"]
    assert len(producer.ask("query", topic=topic, key="all", max=2)) == 2


def test_a_query_by_a_key_of_no_message_finds_nothing(client: Any, topic: str) -> None:
    producer = client.producer()
    producer.send(topic, "keyed", keys="K")
    with pytest.raises(RuntimeError, match=r"MQClientException") as missed:
        producer.ask("query", topic=topic, key="another", max=32)
    assert missed.value.code == 208  # type: ignore[attr-defined]  # the client's NO_MESSAGE


@pytest.mark.parametrize("header_form", ["JSON", "ROCKETMQ"])
def test_a_message_is_found_by_its_unique_id_and_its_offset_id(client: Any, topic: str, eventually: Any) -> None:
    producer = client.producer()
    producer.send(topic, "another")
    sent = producer.send(topic, "this one", tags="T")
    by_place = producer.ask("view", topic=topic, msgId=sent["offsetMsgId"])

    found = eventually(lambda: result_or_none(lambda: producer.ask("view", topic=topic, msgId=sent["msgId"])))
    assert by_place["body"] == found["body"] == "this one"
    assert by_place["commitLogOffset"] == found["commitLogOffset"]


def test_an_offset_id_between_two_messages_finds_nothing(client: Any, topic: str) -> None:
    producer = client.producer()
    sent = producer.send(topic, "here")
    beside = f"{int(sent['offsetMsgId'], 16) + 1:032X}"
    with pytest.raises(RuntimeError, match=r"MQBrokerException|MQClientException"):
        producer.ask("view", topic=topic, msgId=beside)


def test_bounds_and_times_of_a_queue_can_be_queried(client: Any, topic: str, eventually: Any) -> None:
    producer = client.producer()
    places = [producer.send(topic, f"{number}", "send.ordered", key=2) for number in range(5)]
    third = producer.ask("view", topic=topic, msgId=places[2]["offsetMsgId"])

    def dispatched() -> Any:  # a separate task dispatches messages after they are acknowledged
        asked = producer.ask("offsets", topic=topic, queueId=2, timestamp=third["storeTimestamp"])
        return asked if asked["max"] == 5 else None

    offsets = eventually(dispatched)
    first = producer.ask("view", topic=topic, msgId=places[0]["offsetMsgId"])
    assert (offsets["min"], offsets["max"], offsets["earliestMs"]) == (0, 5, first["storeTimestamp"])
    found = producer.ask("view", topic=topic, msgId=places[offsets["atTime"]]["offsetMsgId"])
    assert found["storeTimestamp"] == third["storeTimestamp"]
