"""Transactions with RocketMQ's client: decided at once, or after the broker's question."""

import time
from typing import Any

import pytest

pytestmark = pytest.mark.ci

SEEN_S = 15.0


def test_a_transaction_is_visible_only_after_its_commit(client: Any, topic: str, group: str) -> None:
    consumer = client.consumer(topic, group)
    producer = client.producer(group=f"producers-{group}", transactional=True)
    decisions = {"kept": "COMMIT_MESSAGE", "dropped": "ROLLBACK_MESSAGE", "kept too": "COMMIT_MESSAGE"}
    for body, decision in decisions.items():
        sent = producer.send(topic, body, "send.transaction", keys="K", properties={"then": decision})
        assert (sent["status"], sent["decided"]) == ("SEND_OK", decision)
    received = consumer.wait_for(2)
    assert sorted(message["body"] for message in received) == ["kept", "kept too"]
    assert {message["topic"] for message in received} == {topic}
    time.sleep(3)  # the broker must not ask in this time, because both transactions are decided
    assert "dropped" not in consumer.bodies()
    assert not {*decisions} & {*client.ask("transaction.checked")}


@pytest.mark.parametrize("decision", ["COMMIT_MESSAGE", "ROLLBACK_MESSAGE"])
def test_the_broker_checks_an_undecided_transaction_with_the_producer(
    client: Any, topic: str, group: str, decision: str, eventually: Any
) -> None:
    consumer = client.consumer(topic, group)
    producer = client.producer(group=f"producers-{group}", transactional=True)
    body = f"undecided, then {decision}"
    producer.send(topic, body, "send.transaction", properties={"then": "UNKNOW", "whenChecked": decision})
    eventually(lambda: body in client.ask("transaction.checked"), within_s=SEEN_S)
    if decision == "COMMIT_MESSAGE":
        (message,) = consumer.wait_for(1, within_s=SEEN_S)
        assert message["body"] == body
    time.sleep(2.5)
    assert client.ask("transaction.checked").count(body) == 1
    assert consumer.bodies() == [body] * (decision == "COMMIT_MESSAGE")
