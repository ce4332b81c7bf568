"""The official admin client moves a running consumer of our broker."""

from typing import Any

import pytest


@pytest.mark.slow
def test_the_offsets_of_a_consuming_group_can_be_reset(client: Any, topic: str, group: str) -> None:
    producer = client.producer()
    for number in range(8):
        producer.send(topic, f"{number}")
    consumer = client.consumer(topic, group)
    consumer.wait_for(8)
    offsets = client.admin()("resetOffset", topic=topic, group=group, timestamp=0)
    assert offsets == {"0": 0, "1": 0, "2": 0, "3": 0}
    consumer.wait_for(16, within_s=60)
    assert sorted(map(int, consumer.bodies())) == sorted([*range(8)] * 2)
