"""Features of 5.x clients that a 4.9 broker does not have."""

from collections import Counter
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # the default client has none of them

MESSAGE_ILLEGAL = 13


def test_a_pop_consumer_gets_each_message_by_pulls(client: Any, topic: str, group: str) -> None:
    consumer = client.consumer(topic, group, pop=True)  # the client pulls after the broker refused its first request
    producer = client.producer()
    for number in range(20):
        producer.send(topic, f"{number}")
    consumer.wait_for(20)
    assert Counter(consumer.bodies()) == Counter(f"{number}" for number in range(20))


def test_a_message_with_its_own_delay_is_refused(client: Any, topic: str) -> None:
    with pytest.raises(RuntimeError, match=r"MQBrokerException") as refused:
        client.producer().send(topic, "in five seconds", delayMs=5_000)
    assert refused.value.code == MESSAGE_ILLEGAL  # type: ignore[attr-defined]
