"""Operators' requests, answered in the JSON that RocketMQ's tools read."""

import json
from collections.abc import Callable
from dataclasses import replace
from errno import ENOSPC
from typing import Any

import pytest

from tests.one_life import with_settings
from tornlog.store.broker.housekeeping import DailyMessageTotals
from tornlog.store.broker.operator_log import LineLevel, level_of
from tornlog.store.broker.requests import RequestCode, ResponseCode
from tornlog.store.formats.remoting.command import LANGUAGES
from tornlog.store.formats.side_json import decode_side_json
from tornlog.store.running_flags import RefusalReason

from .conftest import GROUP

Live = Callable[..., Any]
TOPIC = {
    "topic": "Made",
    "defaultTopic": "TBW102",
    "readQueueNums": 3,
    "writeQueueNums": 2,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0,
    "order": "false",
}


def test_a_topic_can_be_created_changed_and_removed(client: Any) -> None:
    assert client.answer(RequestCode.UPDATE_AND_CREATE_TOPIC, **TOPIC).code == ResponseCode.SUCCESS
    told = json.loads(client.answer(RequestCode.GET_ALL_TOPIC_CONFIG).body)
    assert told["topicConfigTable"]["Made"] == {
        "order": False,
        "perm": 6,
        "readQueueNums": 3,
        "topicFilterType": "SINGLE_TAG",
        "topicName": "Made",
        "topicSysFlag": 0,
        "writeQueueNums": 2,
    }
    client.answer(RequestCode.UPDATE_AND_CREATE_TOPIC, **{**TOPIC, "perm": 4})
    again = json.loads(client.answer(RequestCode.GET_ALL_TOPIC_CONFIG).body)
    assert again["topicConfigTable"]["Made"]["perm"] == 4
    assert again["dataVersion"]["counter"] == told["dataVersion"]["counter"] + 1
    client.answer(RequestCode.DELETE_TOPIC_IN_BROKER, topic="Made")
    assert "Made" not in json.loads(client.answer(RequestCode.GET_ALL_TOPIC_CONFIG).body)["topicConfigTable"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": "TBW102"},
        {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"},
        {"topic": "DefaultCluster"},
        {"topic": "a b"},
        {"readQueueNums": 0},
        {"writeQueueNums": 1 << 20},
        {"perm": 9},
        {"topicFilterType": "NO_TAG"},
    ],
)
def test_an_invalid_topic_is_refused(bench: Any, wrong: dict[str, object]) -> None:
    before = bench.broker.topics.version
    answer = bench.client().answer(RequestCode.UPDATE_AND_CREATE_TOPIC, **{**TOPIC, **wrong})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert bench.broker.topics.version == before


def test_a_topic_created_again_still_has_its_old_messages(client: Any) -> None:
    client.send_message(b"m")
    client.answer(RequestCode.DELETE_TOPIC_IN_BROKER, topic="Orders")
    assert client.pull().code == ResponseCode.TOPIC_NOT_EXIST
    assert client.send_message(b"n").ext_fields["queueOffset"] == "1"
    assert [record.body for record in client.pulled()] == [b"m", b"n"]


def test_topic_stats_are_keyed_by_queue_as_java_clients_expect(client: Any) -> None:
    client.send_message(b"m", e=1, d=2)
    stored_ms = client.pulled(queueId=1)[0].store_timestamp_ms
    answer = client.answer(RequestCode.GET_TOPIC_STATS_INFO, topic="Orders")
    assert answer.body.decode() == (
        '{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"Orders"}:'
        '{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0},'
        '{"brokerName":"broker-a","queueId":1,"topic":"Orders"}:'
        f'{{"lastUpdateTimestamp":{stored_ms},"maxOffset":1,"minOffset":0}}}}}}'
    )
    assert client.answer(RequestCode.GET_TOPIC_STATS_INFO, topic="No").code == ResponseCode.TOPIC_NOT_EXIST


def test_a_group_can_be_created_listed_and_removed_with_its_offsets(bench: Any, client: Any) -> None:
    client.send_message(b"m")
    group = {"groupName": GROUP, "retryMaxTimes": 3}
    client.answer(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, json.dumps(group).encode())
    told = json.loads(client.answer(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)
    assert told["subscriptionGroupTable"][GROUP] == {
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "groupName": GROUP,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 3,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }
    fields = {"consumerGroup": GROUP, "topic": "Orders", "queueId": 0, "commitOffset": 1}
    client.answer(RequestCode.UPDATE_CONSUMER_OFFSET, **fields)
    client.answer(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName=GROUP, removeOffset="true")
    assert bench.broker.groups.get(GROUP) is None
    assert bench.broker.offsets.json_members == {"offsetTable": {}}


def test_connections_are_listed_in_the_format_of_rocketmq_tools(bench: Any, client: Any) -> None:
    client.heartbeat(expression="A || B", version=5)
    connection = {"clientAddr": client.remote_address, "clientId": client.client_id, "language": "JAVA", "version": 409}
    consumers = json.loads(client.answer(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup=GROUP).body)
    assert consumers == {
        "connectionSet": [connection],
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "subscriptionTable": {
            "Orders": {
                "classFilterMode": False,
                "codeSet": [65, 66],
                "expressionType": "TAG",
                "subString": "A || B",
                "subVersion": 5,
                "tagsSet": ["A", "B"],
                "topic": "Orders",
            }
        },
    }
    producers = client.answer(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="sellers")
    assert json.loads(producers.body) == {"connectionSet": [connection]}
    everyone = json.loads(client.answer(RequestCode.GET_ALL_PRODUCER_INFO).body)
    assert everyone["data"]["sellers"][0]["lastUpdateTimestamp"] == bench.world.clock.now_ms()
    nobody = client.answer(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="other")
    assert nobody.code == ResponseCode.CONSUMER_NOT_ONLINE
    who = client.answer(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="Orders")
    assert json.loads(who.body) == {"groupList": [GROUP]}


def test_consumer_progress_can_be_reported_and_reset(bench: Any, client: Any) -> None:
    for _ in range(3):
        client.send_message(b"m", d=1)
        bench.sleep(1000)
    stored_ms = [record.store_timestamp_ms for record in client.pulled()]
    commit = {"consumerGroup": GROUP, "topic": "Orders", "queueId": 0, "commitOffset": 2}
    client.answer(RequestCode.UPDATE_CONSUMER_OFFSET, **commit)
    stats = client.answer(RequestCode.GET_CONSUME_STATS, consumerGroup=GROUP)
    queue = '{"brokerName":"broker-a","queueId":0,"topic":"Orders"}'
    told = f'{{"brokerOffset":3,"consumerOffset":2,"lastTimestamp":{stored_ms[1]}}}'
    assert stats.body.decode() == f'{{"consumeTps":0.3,"offsetTable":{{{queue}:{told}}}}}'

    reset = {"topic": "Orders", "group": GROUP, "timestamp": stored_ms[1], "isForce": "false"}
    offline = client.answer(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **reset)
    assert offline.code == ResponseCode.CONSUMER_NOT_ONLINE
    client.heartbeat()
    client.got.clear()
    answer = client.answer(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **reset)
    assert answer.body.decode() == f'{{"offsetTable":{{{queue}:1}}}}'
    (push,) = client.got
    assert (push.code, push.body) == (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, answer.body)
    forward = client.answer(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **{**reset, "timestamp": -1})
    assert forward.body.decode() == f'{{"offsetTable":{{{queue}:2}}}}'
    forced = {**reset, "timestamp": -1, "isForce": "true"}
    assert client.answer(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **forced).body.endswith(b":3}}")
    client.got.clear()
    client.language = LANGUAGES.index("CPP")
    assert client.answer(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **reset).body == answer.body
    (push,) = client.got
    assert push.body == b'{"offsetTable":[{"brokerName":"broker-a","offset":1,"queueId":0,"topic":"Orders"}]}'


def test_the_consume_rate_of_a_group_covers_the_last_minute(bench: Any, client: Any) -> None:
    for _ in range(5):
        client.send_message(b"m")
    bench.sleep(10_000)
    for _ in range(4):
        client.pulled()
    bench.sleep(10_000)
    given = 4 * len(client.pulled())

    def rate() -> float:
        stats = client.answer(RequestCode.GET_CONSUME_STATS, consumerGroup=GROUP, topic="Orders")
        return float(stats.body.partition(b":")[2].partition(b",")[0])

    assert given / 30 <= rate() <= given / 5
    bench.sleep(90_000)
    assert rate() == 0.0


def test_slaves_can_copy_consumer_and_delay_offsets(bench: Any, client: Any) -> None:
    client.send_message(b"m", properties={"DELAY": "1"})
    bench.sleep(2_000)
    commit = {"consumerGroup": GROUP, "topic": "Orders", "queueId": 0, "commitOffset": 1}
    client.answer(RequestCode.UPDATE_CONSUMER_OFFSET, **commit)
    offsets = client.answer(RequestCode.GET_ALL_CONSUMER_OFFSET)
    assert offsets.body == b'{"offsetTable":{"Orders@billing":{0:1}}}'
    delays = decode_side_json(client.answer(RequestCode.GET_ALL_DELAY_OFFSET).body, file="body")
    assert delays["offsetTable"]["1"] == 1


def test_a_broker_reports_its_settings_and_runtime_info(client: Any) -> None:
    client.send_message(b"m")
    answer = client.answer(RequestCode.GET_BROKER_CONFIG)
    lines = answer.body.decode().splitlines()
    assert {"brokerName=broker-a", "traceOn=true", "flushDiskType=ASYNC_FLUSH"} <= set(lines)
    assert json.loads(answer.ext_fields["version"])["counter"] == 0
    info = json.loads(client.answer(RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]
    assert all(type(value) is str for value in info.values())
    assert (info["brokerVersionDesc"], info["putMessageTimesTotal"]) == ("V4_9_8", "1")
    for code in (RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, RequestCode.DELETE_EXPIRED_COMMITLOG):
        assert client.answer(code).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("queues", [-1, 65_537])
def test_a_group_with_too_many_or_too_few_retry_queues_is_refused(bench: Any, queues: int) -> None:
    config = json.dumps({"groupName": GROUP, "retryQueueNums": queues}).encode()
    answer = bench.client().answer(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, config)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert f"retryQueueNums: expected 0 to 65536, found '{queues}'" in answer.remark
    assert bench.broker.groups.get(GROUP) is None


@pytest.mark.parametrize("topic", ["broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC", "my_traces", "TBW102"])
@with_settings(trace_topic_enable=True, msg_trace_topic_name="my_traces")
def test_topics_named_by_settings_are_system_topics(bench: Any, client: Any, topic: str) -> None:
    answer = client.answer(RequestCode.DELETE_TOPIC_IN_BROKER, topic=topic)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert bench.broker.topics.get(topic) is not None
    for code in (RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS):
        assert json.loads(client.answer(code).body)["topicList"].count(topic) == 1


def runtime_info(bench: Any) -> dict[str, str]:
    table: dict[str, str] = json.loads(bench.client().answer(RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]
    return table


class Days:
    """A clock with a time zone, set by the test."""

    def __init__(self, zone_hours: int) -> None:
        self.hours = 0
        self._zone_hours = zone_hours

    def now_ms(self) -> int:
        return self.hours * 3_600_000

    def utc_offset_ms(self) -> int:
        return self._zone_hours * 3_600_000

    def monotonic_ns(self) -> int:
        return self.hours * 3_600_000_000_000


@pytest.mark.parametrize("zone_hours", [0, 9, -5])
def test_message_totals_are_reported_for_two_local_midnights_and_now(bench: Any, zone_hours: int) -> None:
    client, clock, told = bench.client(), Days(zone_hours), []
    clock.hours = 100 * 24 - zone_hours
    daily = DailyMessageTotals(replace(bench.world, clock=clock), bench.broker.own_store.stats)
    for messages in (2, 3, 4):
        for number in range(messages):
            client.send_message(b"%d" % number)
        client.pulled()
        clock.hours += 23
        told.append([*daily.runtime_info_fields().values()])
        clock.hours += 1
        daily.start_day_if_new()
    assert told == [["0", "0", "2", "0", "0", "2"], ["0", "2", "5", "0", "2", "7"], ["2", "5", "9", "2", "7", "16"]]


def test_the_earliest_message_time_is_that_of_the_first_message(bench: Any) -> None:
    assert int(runtime_info(bench)["msgPutTotalTodayNow"]) == 0
    assert runtime_info(bench)["earliestMessageTimeStamp"] == "-1"
    bench.client().send_message(b"first")
    first_ms = bench.client().pulled()[0].store_timestamp_ms
    bench.sleep(5_000)
    bench.client().send_message(b"second")
    found = runtime_info(bench)
    assert found["earliestMessageTimeStamp"] == str(first_ms)
    assert found["remainTransientStoreBufferNumbs"] == "2147483647"
    assert found["commitLogDirCapacity"].startswith("Total : ")


def test_slow_puts_and_long_lock_holds_are_logged_every_ten_seconds(bench: Any) -> None:
    told: list[str] = []
    bench.broker.watch.emit = told.append
    client, log, sleep = bench.client(), bench.broker.own_store.commit_log, bench.world.tasks.sleep
    client.send_message(b"fast")
    bench.sleep(11_000)
    assert told == []

    place, appended = log._place_records, log.on_appended
    log._place_records = lambda *given: (sleep(700), place(*given))
    client.send_message(b"slow in the lock")
    log._place_records, log.on_appended = place, lambda: (sleep(1_200), appended())
    client.send_message(b"slow outside of it")
    log.on_appended = appended
    bench.sleep(11_000)
    bench.sleep(11_000)
    assert told == [
        "slow puts: 2 took longer than 500 ms, the longest 1,200 ms",
        "slow puts: 1 held the log's lock for longer than 500 ms, the longest 700 ms",
    ]
    assert {level_of(line) for line in told} == {LineLevel.WARNING}


def test_a_full_disk_and_a_missing_segment_are_logged_once_and_when_they_end(live: Live) -> None:
    def body(bench: Any) -> list[str]:
        told: list[str] = []
        bench.broker.watch.emit = told.append
        client, store = bench.client(), bench.broker.own_store
        client.send_message(b"room")

        store.flags.add_refusal(RefusalReason.DISK_FULL)
        refused = [client.send_message(b"m").code for _ in range(3)]
        assert refused == [ResponseCode.SERVICE_NOT_AVAILABLE] * 3
        store.flags.clear_refusal(RefusalReason.DISK_FULL)
        bench.sleep(11_000)

        make = store.allocate.make_segment
        store.allocate.make_segment = no_room
        codes = {client.send_message(bytes(9_000)).code for _ in range(12)}
        assert codes == {ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR}
        store.allocate.make_segment = make
        assert client.send_message(bytes(9_000)).code == ResponseCode.SUCCESS
        bench.sleep(11_000)
        return told

    def no_room(_: int) -> None:
        raise OSError(ENOSPC, "No space left on device")

    full, room, missing, made = live(body)
    assert "the disk is full" in full
    assert "messages are accepted" in room
    assert "a segment of 32,768 bytes cannot be created: No space left on device" in missing
    assert "commitlog/" in missing
    assert "mapedFileSizeCommitLog" in missing
    assert "a new segment" in made
