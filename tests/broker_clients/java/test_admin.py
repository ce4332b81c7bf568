"""The official admin client with our broker and name server."""

import time
from typing import Any

import pytest

pytestmark = pytest.mark.ci

BROKER = "tornlog"


def test_a_created_topic_has_a_route(client: Any, group: str) -> None:
    admin = client.admin()
    admin("createTopic", topic=group, queues=3)
    route = admin("route", topic=group)
    (broker,), (queues,) = route["brokerDatas"], route["queueDatas"]
    assert (broker["brokerName"], broker["brokerAddrs"]) == (BROKER, {"0": client.broker.address})
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 3, 6)
    assert group in admin("topics")
    assert admin("topicSettings")["topicConfigTable"][group]["writeQueueNums"] == 3


def test_a_deleted_topic_has_no_route(client: Any, topic: str) -> None:
    admin = client.admin()
    admin("deleteTopic", topic=topic)
    assert topic not in admin("topicSettings")["topicConfigTable"]


def test_the_cluster_consists_of_this_broker(client: Any) -> None:
    cluster = client.admin()("cluster")
    assert cluster["brokerAddrTable"][BROKER]["brokerAddrs"] == {"0": client.broker.address}
    assert [BROKER] in cluster["clusterAddrTable"].values()


def test_progress_of_topic_and_group_is_reported(client: Any, topic: str, group: str) -> None:
    producer = client.producer()
    for number in range(10):
        producer.send(topic, f"{number}", "send.ordered", key=number % 2)
    client.consumer(topic, group).wait_for(10)  # its heartbeat creates the retry topic
    client.pull("all", topic=topic, group=group)
    producer.send(topic, "10", "send.ordered", key=1)

    admin = client.admin()
    stats = admin("topicStats", topic=topic)
    assert {queue: offsets[:2] for queue, offsets in stats.items()} == {
        "0": [0, 5],
        "1": [0, 6],
        "2": [0, 0],
        "3": [0, 0],
    }
    progress = {one["queueId"]: one for one in admin("progress", group=group) if one["topic"] == topic}
    assert progress[0]["broker"] == 5
    assert progress[1]["broker"] == 6
    assert progress[0]["consumer"] == 5
    assert progress[1]["consumer"] in (5, 6)


def test_connections_are_listed(client: Any, topic: str, group: str) -> None:
    producer = client.producer(group=f"producers-{group}")
    producer.send(topic, "hello")
    time.sleep(2.5)  # a producer is registered by its next heartbeat
    consumer = client.consumer(topic, group, tags="A || B")
    admin = client.admin()
    consumers = admin("consumers", group=group)
    (connection,) = consumers["connectionSet"]
    assert connection["clientId"].endswith(consumer.name)
    assert consumers["subscriptionTable"][topic]["subString"] == "A || B"
    assert consumers["messageModel"] == "CLUSTERING"
    (connection,) = admin("producers", group=f"producers-{group}", topic=topic)["connectionSet"]
    assert connection["clientId"].endswith(producer.name)


def test_an_administrator_can_create_a_group(client: Any, group: str) -> None:
    admin = client.admin()
    admin("createGroup", group=group, retryMaxTimes=3)
    assert admin("groups")["subscriptionGroupTable"][group]["retryMaxTimes"] == 3


def test_the_broker_shows_its_state_and_settings(client: Any, topic: str) -> None:
    client.producer().send(topic, "counted")
    admin = client.admin()
    runtime = admin("runtime")
    assert int(runtime["commitLogMaxOffset"]) > 0
    # `mqadmin clusterList` and exporters parse these
    for key in (
        "sendThreadPoolQueueSize",
        "sendThreadPoolQueueHeadWaitTimeMills",
        "pullThreadPoolQueueSize",
        "pullThreadPoolQueueHeadWaitTimeMills",
        "pageCacheLockTimeMills",
        "msgPutTotalYesterdayMorning",
        "msgPutTotalTodayMorning",
        "msgPutTotalTodayNow",
        "msgGetTotalYesterdayMorning",
        "msgGetTotalTodayMorning",
        "msgGetTotalTodayNow",
        "earliestMessageTimeStamp",
    ):
        assert int(runtime[key]) >= -1, key
    assert int(runtime["msgPutTotalTodayNow"]) >= 1
    assert float(runtime["commitLogDiskRatio"]) > 0
    settings = admin("settings")
    assert settings["brokerName"] == BROKER
    assert settings["enablePropertyFilter"] == "true"


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


def test_a_running_consumer_is_queried_through_the_broker(client: Any, topic: str, group: str) -> None:
    sent = client.producer().send(topic, "once more")
    consumer = client.consumer(topic, group)
    consumer.wait_for(1)
    admin = client.admin()
    (connection,) = admin("consumers", group=group)["connectionSet"]
    asked = {"group": group, "clientId": connection["clientId"]}
    assert admin("running", **asked)["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert admin("consumeDirectly", topic=topic, msgId=sent["offsetMsgId"], **asked) == "CR_SUCCESS"
    assert consumer.bodies() == ["once more", "once more"]
    assert admin("groupsOf", topic=topic) == [group]


def test_a_missing_topic_is_reported(client: Any) -> None:
    with pytest.raises(RuntimeError, match=r"nowhere") as missing:
        client.admin()("route", topic="nowhere")
    assert missing.value.code == 17  # type: ignore[attr-defined]
