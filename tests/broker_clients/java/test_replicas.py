"""A master with a slave: acknowledged messages are on the slave after the master stops."""

from typing import Any

import pytest

pytestmark = pytest.mark.ci


def test_messages_acknowledged_by_a_sync_master_are_on_its_slave(serve: Any, connect: Any, eventually: Any) -> None:
    master = serve(brokerRole="SYNC_MASTER")
    client = connect(master)
    client.admin()("createTopic", topic="copied", queues=4)
    producer = client.producer(timeoutMs=15_000)  # a put waits for a slave for up to 5 s
    assert producer.send("copied", "nobody copies it yet")["status"] == "SLAVE_NOT_AVAILABLE"

    slave = serve(
        brokerRole="SLAVE",
        brokerId="1",
        haMasterAddress=master.slaves_connect_to,
        namesrvAddr=master.namesrv,
        slaveReadEnable="true",
    )
    eventually(lambda: producer.send("copied", "on both")["status"] == "SEND_OK")
    acknowledged = {f"{number}" for number in range(40)}
    for body in sorted(acknowledged):
        assert producer.send("copied", body)["status"] == "SEND_OK"
    topics = slave.store / "config" / "topics.json"
    eventually(lambda: topics.exists() and "copied" in topics.read_text())
    client.close()
    master.kill()

    reader = connect(slave)

    def read() -> set[str]:
        messages = reader.pull("all", topic="copied", group="readers")["messages"]
        return {message["body"] for message in messages}

    assert read() >= acknowledged | {"nobody copies it yet", "on both"}
