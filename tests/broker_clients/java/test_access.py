"""The official client's ACL hook with RocketMQ's plain_acl.yml."""

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.ci

SYSTEM_ERROR = 1
ADMIN = {"accessKey": "operator", "secretKey": "operator-secret"}
USER = {"accessKey": "reader-and-writer", "secretKey": "user-secret"}
ACL = """\
globalWhiteRemoteAddresses: []
accounts:
- accessKey: operator
  secretKey: operator-secret
  whiteRemoteAddress:
  admin: true
- accessKey: reader-and-writer
  secretKey: user-secret
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - both=PUB|SUB
  - written=PUB
  - read=SUB
  groupPerms:
  - banned=DENY
"""


@pytest.fixture
def client(serve: Any, connect: Any, tmp_path: Path) -> Any:
    """A client of a broker that has two accounts and the topics `both`, `written`, `read` and `closed`."""
    (tmp_path / "acl.yml").write_text(ACL)
    client = connect(serve("--acl", str(tmp_path / "acl.yml")))
    operator = client.admin(**ADMIN)
    for topic in ("both", "written", "read", "closed"):
        operator("createTopic", topic=topic, queues=2)
    return client


def refused(client: Any, topic: str, **keys: str) -> str:
    """Send with these keys, check that the broker refuses the message, and return the error text."""
    with pytest.raises(RuntimeError) as told:
        client.producer(retries=0, **keys).send(topic, "no")
    assert told.value.code == SYSTEM_ERROR  # type: ignore[attr-defined]
    return str(told.value)


def test_a_signed_producer_and_consumer_are_allowed(client: Any, eventually: Any) -> None:
    producer = client.producer(**USER)
    sent = producer.send("both", "signed", tags="T", keys="K")
    batch = [{"topic": "both", "body": body} for body in ("one", "two")]
    assert producer.ask("send.batch", messages=batch)["status"] == "SEND_OK"
    assert producer.ask("view", topic="both", msgId=sent["offsetMsgId"])["body"] == "signed"
    consumer = client.consumer("both", "readers", **USER)
    consumer.wait_for(3)
    assert sorted(consumer.bodies()) == ["one", "signed", "two"]
    assert len(client.pull("all", topic="both", group="pullers", **USER)["messages"]) == 3


def test_missing_or_wrong_keys_are_refused(client: Any) -> None:
    assert "operator" in refused(client, "both", accessKey="operator", secretKey="wrong")
    assert "stranger" in refused(client, "both", accessKey="stranger", secretKey="user-secret")
    refused(client, "both")


def test_topics_can_be_written_and_read_only_with_permission(client: Any) -> None:
    client.producer(**USER).send("written", "yes")
    refused(client, "read", **USER)
    refused(client, "closed", **USER)
    client.producer(**ADMIN).send("read", "by the operator")
    consumer = client.consumer("read", "readers", **USER)
    consumer.wait_for(1)
    assert consumer.bodies() == ["by the operator"]
    with pytest.raises(RuntimeError, match=r"MQBrokerException"):
        client.pull("all", topic="written", group="readers", **USER)
    with pytest.raises(RuntimeError, match=r"MQBrokerException"):
        client.pull("all", topic="both", group="banned", **USER)


def test_only_an_admin_account_changes_topics(client: Any) -> None:
    with pytest.raises(RuntimeError, match=r"MQ(Broker|Client)Exception"):
        client.admin(**USER)("createTopic", topic="mine", queues=1)
    client.admin(**ADMIN)("createTopic", topic="mine", queues=1)
