"""Figures for RocketMQ's tools, exporter and dashboard."""

import json
from typing import Any

import pytest

from tornlog.store.broker.requests import LONG_MAX, RequestCode, ResponseCode
from tornlog.store.formats.side_json import decode_side_json

from .conftest import GROUP


def broker_statistics(client: Any, name: str, key: str) -> Any:
    answer = client.answer(RequestCode.VIEW_BROKER_STATS_DATA, statsName=name, statsKey=key)
    return json.loads(answer.body) if answer.code == ResponseCode.SUCCESS else answer.remark


def test_messages_are_counted_by_topic_by_group_and_for_the_broker(bench: Any, client: Any) -> None:
    assert broker_statistics(client, "TOPIC_PUT_NUMS", "Orders") == "The stats <TOPIC_PUT_NUMS> <Orders> not exist"
    for number in range(5):
        client.send_message(b"%d" % number)
    given = [client.pulled(offset, q=None, queueId=queue_id) for queue_id in range(4) for offset in (0,)]
    size_bytes = bench.broker.own_store.stats.topic_put_totals("Orders").size_bytes
    puts = broker_statistics(client, "TOPIC_PUT_NUMS", "Orders")
    assert puts["statsMinute"] == {"avgpt": 1.0, "sum": 5, "tps": 0.5}
    assert puts["statsDay"]["sum"] == puts["statsHour"]["sum"] == 5
    assert broker_statistics(client, "TOPIC_PUT_SIZE", "Orders")["statsMinute"]["sum"] == size_bytes
    assert sum(map(len, given)) == 5
    assert broker_statistics(client, "GROUP_GET_NUMS", f"Orders@{GROUP}")["statsMinute"]["sum"] == 5
    assert broker_statistics(client, "GROUP_GET_SIZE", f"Orders@{GROUP}")["statsMinute"]["sum"] == size_bytes
    assert broker_statistics(client, "BROKER_PUT_NUMS", "DefaultCluster")["statsMinute"]["sum"] == 5
    assert broker_statistics(client, "BROKER_GET_NUMS", "DefaultCluster")["statsMinute"]["sum"] == 5
    for wrong in (("TOPIC_PUT_NUMS", "Other"), ("SNDBCK_PUT_NUMS", f"Orders@{GROUP}"), ("NO_NUMS", "Orders")):
        assert "not exist" in broker_statistics(client, *wrong)


def test_old_messages_count_in_the_hour_but_not_in_the_minute(bench: Any, client: Any) -> None:
    client.send_message(b"early")
    bench.sleep(300_000)
    client.send_message(b"late")
    found = broker_statistics(client, "TOPIC_PUT_NUMS", "Orders")
    assert found["statsMinute"]["sum"] == 1
    assert 0 < found["statsMinute"]["tps"] < 0.1
    assert found["statsHour"]["sum"] == found["statsDay"]["sum"] == 2


def test_a_message_sent_back_is_counted(client: Any) -> None:
    client.heartbeat()
    client.send_message(b"m")
    back = {"group": GROUP, "originTopic": "Orders", "offset": 0, "delayLevel": 0, "originMsgId": "x"}
    assert client.answer(RequestCode.CONSUMER_SEND_MSG_BACK, **back).code == ResponseCode.SUCCESS
    assert broker_statistics(client, "SNDBCK_PUT_NUMS", f"Orders@{GROUP}")["statsMinute"]["sum"] == 1


def test_progress_is_reported_for_all_groups_in_ordered_or_other_topics(bench: Any, client: Any) -> None:
    client.heartbeat()
    for _ in range(3):
        client.send_message(b"m", e=0)
    commit = {"consumerGroup": GROUP, "topic": "Orders", "queueId": 0, "commitOffset": 1}
    client.answer(RequestCode.UPDATE_CONSUMER_OFFSET, **commit)
    ends = [bench.broker.max_offset("Orders", queue_id) for queue_id in range(4)]
    answer = client.answer(RequestCode.GET_BROKER_CONSUME_STATS, isOrder="false")
    text = answer.body.decode()
    queue = f'{{"brokerName":"broker-a","queueId":0,"topic":"Orders"}}:{{"brokerOffset":{ends[0]},"consumerOffset":1,'
    assert queue in text
    assert f'"totalDiff":{sum(ends) - 1}' in text
    assert '"brokerAddr":"127.0.0.1:10911"' in text
    ordered = client.answer(RequestCode.GET_BROKER_CONSUME_STATS, isOrder="true").body.decode()
    assert f'{{"{GROUP}":[]}}' in ordered
    assert '"totalDiff":0' in ordered


def test_the_consume_delay_of_a_group_is_reported_per_queue(bench: Any, client: Any) -> None:
    client.send_message(b"first", e=1)
    bench.sleep(2_000)
    client.send_message(b"second", e=1)
    bench.sleep(3_000)
    client.answer(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=GROUP, topic="Orders", queueId=1, commitOffset=1)
    answer = client.answer(RequestCode.QUERY_CONSUME_TIME_SPAN, topic="Orders", group=GROUP)
    spans = json.loads(answer.body)["consumeTimeSpanSet"]
    span = spans[1]
    assert span["messageQueue"] == {"brokerName": "broker-a", "queueId": 1, "topic": "Orders"}
    assert span["consumeTimeStamp"] == span["minTimeStamp"]
    assert 2_000 <= span["maxTimeStamp"] - span["minTimeStamp"] < 2_100
    assert 3_000 <= span["delayTime"] < 3_100
    assert spans[0]["delayTime"] == 0
    none = client.answer(RequestCode.QUERY_CONSUME_TIME_SPAN, topic="Missing", group=GROUP)
    assert none.code == ResponseCode.TOPIC_NOT_EXIST


def test_the_lowest_offset_of_all_groups_is_limited_by_a_compared_group(bench: Any, client: Any) -> None:
    client.send_message(b"m", e=0)
    for group, offset in (("one", 3), ("two", 2), ("behind", 1)):
        bench.broker.offsets.commit_offset(group, "Orders", 0, offset)

    def asked(filter_groups: str, compare: str) -> Any:
        fields = {"topic": "Orders", "filterGroups": filter_groups, "compareGroup": compare}
        answer = client.answer(RequestCode.QUERY_CORRECTION_OFFSET, **fields)
        return decode_side_json(answer.body, file="body")["correctionOffsets"]

    assert asked("behind", "one") == {"0": 2}
    assert asked("behind", "behind") == {"0": LONG_MAX}
    assert asked("", "behind") == {"0": 1}
    bench.broker.store.get_min_offset_in_queue = lambda topic, queue_id: 2
    assert asked("", "one") == {"0": 2}
    assert asked("two", "behind") == {"0": LONG_MAX}


def test_queue_entries_can_be_queried_with_a_groups_subscription(client: Any) -> None:
    client.heartbeat()
    for number in range(3):
        client.send_message(b"%d" % number, e=0)
    fields = {"topic": "Orders", "queueId": 0, "index": 1, "count": 5}
    found = json.loads(client.answer(RequestCode.QUERY_CONSUME_QUEUE, **fields, consumerGroup=GROUP).body)
    assert (found["minQueueIndex"], found["maxQueueIndex"]) == (0, 3)
    assert found["subscriptionData"]["topic"] == "Orders"
    assert found["filterData"] == "null"
    second, third = found["queueData"]
    assert second["physicOffset"] + second["physicSize"] == third["physicOffset"]
    offline = json.loads(client.answer(RequestCode.QUERY_CONSUME_QUEUE, **fields, consumerGroup="idle").body)
    assert offline["filterData"] == "idle@Orders is not online!"
    for wrong, remark in (({"queueId": 9}, "9@Orders is not exist!"), ({"index": 3}, "Index 3 of 0@Orders")):
        assert remark in client.answer(RequestCode.QUERY_CONSUME_QUEUE, **{**fields, **wrong}).remark


def test_the_offsets_of_a_group_can_be_cloned(bench: Any, client: Any) -> None:
    client.send_message(b"m", e=0)
    bench.broker.offsets.commit_offset("one", "Orders", 0, 1)
    client.answer(RequestCode.CLONE_GROUP_OFFSET, srcGroup="one", destGroup="two", topic="")
    assert bench.broker.offsets.query_offset("two", "Orders", 0) == 1
    assert bench.broker.offsets.query_offset("two", "Orders", 1) == -1


def test_a_clone_onto_the_same_group_commits_nothing(bench: Any, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of an offset could undo a commit that a member makes at the same time."""
    client.send_message(b"m", e=0)
    offsets, commits = bench.broker.offsets, []
    offsets.commit_offset("one", "Orders", 0, 1)
    monkeypatch.setattr(offsets, "commit_offset", lambda *commit: commits.append(commit))
    client.answer(RequestCode.CLONE_GROUP_OFFSET, srcGroup="one", destGroup="one", topic="")
    assert not commits
    assert offsets.query_offset("one", "Orders", 0) == 1


def test_put_latency_is_reported_for_the_last_full_minute(bench: Any) -> None:
    stats = bench.broker.own_store.stats
    for ms in (*[5] * 98, 30, 700):
        stats.count_slow_put(ms * 1_000_000)
    bench.sleep(75_000)
    table = json.loads(bench.client().answer(RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]
    assert table["putLatency99"] == "50.00"
    assert 1.0 <= float(table["putLatency999"]) <= 1_000.0
    assert table["putMessageFailedTimes"] == "0"
