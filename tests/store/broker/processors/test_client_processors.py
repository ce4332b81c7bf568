"""Clients, consumer groups, offsets and queue locks."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.one_life import with_settings
from tornlog.store.broker.requests import RequestCode, ResponseCode

from .conftest import GROUP

Live = Callable[..., Any]
CHANGED = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


def member_ids(client: Any, group: str = GROUP) -> list[str]:
    answer = client.answer(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group)
    return json.loads(answer.body)["consumerIdList"] if answer.code == ResponseCode.SUCCESS else []


def test_a_heartbeat_registers_a_member_and_creates_the_retry_topic(bench: Any, client: Any) -> None:
    assert client.heartbeat().code == ResponseCode.SUCCESS
    assert member_ids(client) == [client.client_id]
    assert bench.broker.topics.get(f"%RETRY%{GROUP}").read_queue_nums == 1
    assert [info.client_id for info in bench.broker.producers.clients_of_group("sellers")] == [client.client_id]


def test_members_are_notified_only_when_one_joins_or_leaves(bench: Any) -> None:
    first, second = bench.client(), bench.client()
    first.heartbeat()
    first.heartbeat()
    assert first.codes() == [CHANGED]
    second.heartbeat()
    assert (first.codes(), second.codes()) == ([CHANGED] * 2, [CHANGED])
    assert first.got[-1].ext_fields == {"consumerGroup": GROUP}
    assert member_ids(first) == [first.client_id, second.client_id]
    second.answer(
        RequestCode.UNREGISTER_CLIENT, clientID=second.client_id, consumerGroup=GROUP, producerGroup="sellers"
    )
    assert (first.codes(), second.codes()) == ([CHANGED] * 3, [CHANGED])
    assert member_ids(first) == [first.client_id]
    assert len(bench.broker.producers.clients_of_group("sellers")) == 1


def test_a_closed_connection_removes_its_client_from_every_group(bench: Any) -> None:
    first, second = bench.client(), bench.client()
    for group in (GROUP, "audit"):
        first.heartbeat(group)
        second.heartbeat(group)
    second.close()
    assert member_ids(first) == member_ids(first, "audit") == [first.client_id]
    first.close()
    assert member_ids(first) == []
    assert bench.broker.producers.groups == {}


def test_a_heartbeat_on_an_ended_connection_leaves_no_member(bench: Any, client: Any) -> None:
    client.is_open = False
    client.heartbeat()
    assert member_ids(bench.client()) == []


def test_a_silent_client_expires_after_two_minutes(bench: Any) -> None:
    first, second = bench.client(), bench.client()
    first.heartbeat()
    second.heartbeat()
    for _ in range(5):
        bench.sleep(30_000)
        first.heartbeat()
    assert (first.is_open, second.is_open) == (True, False)
    assert member_ids(first) == [first.client_id]


def test_a_push_larger_than_a_frame_is_not_sent(bench: Any, client: Any) -> None:
    assert not bench.broker.pushes.push(client, CHANGED, {"consumerGroup": "g" * (16 << 20)})
    assert bench.broker.pushes.push(client, CHANGED, {"consumerGroup": GROUP})
    assert client.codes() == [CHANGED]


def test_a_producer_group_name_may_have_255_characters(bench: Any) -> None:
    """A client with tracing adds a second producer group, whose name is that of the first group after a prefix."""
    group = "_INNER_TRACE_PRODUCER-" + "g" * 233
    said = {"clientID": "c", "producerDataSet": [{"groupName": group}]}
    client = bench.client()
    assert client.answer(RequestCode.HEART_BEAT, json.dumps(said).encode()).code == ResponseCode.SUCCESS
    assert list(bench.broker.producers.groups) == [group]


def test_consumer_change_notifications_can_be_disabled_for_a_group(client: Any) -> None:
    group = {"groupName": GROUP, "notifyConsumerIdsChangedEnable": False}
    client.answer(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, json.dumps(group).encode())
    client.heartbeat()
    assert client.codes() == []


def test_a_broker_without_change_notifications_sends_none_when_a_connection_ends(bench: Any) -> None:
    bench.broker.settings.change({"notifyConsumerIdsChangedEnable": "false"}, "operator")
    first, second = bench.client(), bench.client()
    first.heartbeat()
    second.heartbeat()
    second.close()
    assert first.codes() == []


@pytest.mark.parametrize(
    ("heartbeat", "word"),
    [
        (b"", "an object"),
        (b"[]", "an object"),
        (b"{}", "clientID"),
        (b'{"clientID":null}', "clientID"),
        (b'{"clientID":"c","consumerDataSet":[{}]}', "consumerDataSet[0].groupName"),
        (b'{"clientID":"c","consumerDataSet":[7]}', "consumerDataSet[0]: expected an object"),
        (
            b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"T",'
            b'"subVersion":"x"}]}]}',
            "consumerDataSet[0].subscriptionDataSet[0].subVersion",
        ),
        (b'{"clientID":"c","producerDataSet":[' + b"{}," * 5000 + b"{}]}", "256 or fewer"),
        (b'{"clientID":"\xff"}', "UTF-8"),
        (b'{"clientID":"' + b"c" * 256 + b'"}', "clientID: expected at most 255 characters"),
        (b'{"clientID":"c","producerDataSet":[{"groupName":"' + b"g" * 256 + b'"}]}', "groupName"),
        (b'{"clientID":"c","consumerDataSet":[{"groupName":"' + b"g" * 121 + b'"}]}', "group"),
        (b'{"clientID":"c","consumerDataSet":[{"groupName":"a@b"}]}', "group: expected letters"),
    ],
)
def test_a_malformed_heartbeat_is_answered_with_its_error(bench: Any, heartbeat: bytes, word: str) -> None:
    answer = bench.client().answer(RequestCode.HEART_BEAT, heartbeat)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert word in answer.remark


def test_a_client_can_validate_its_filter_expression(live: Live) -> None:
    def check(bench: Any, kind: str, expression: str) -> int:
        subscription = {"topic": "Orders", "subString": expression, "expressionType": kind, "subVersion": 1}
        request = {"clientId": "c", "group": GROUP, "subscriptionData": subscription}
        answer = bench.client().answer(RequestCode.CHECK_CLIENT_CONFIG, json.dumps(request).encode())
        code: int = answer.code
        return code

    def without(bench: Any) -> None:
        assert check(bench, "TAG", "A") == ResponseCode.SUCCESS
        assert check(bench, "SQL92", "a > 1") == ResponseCode.SYSTEM_ERROR

    def with_filter(bench: Any) -> None:
        assert check(bench, "SQL92", "a > 1") == ResponseCode.SUCCESS
        assert check(bench, "SQL92", "a >") == ResponseCode.SUBSCRIPTION_PARSE_FAILED

    live(without)
    live(with_filter, enable_property_filter=True)


def test_a_new_group_starts_at_0_in_a_queue_with_all_its_messages(client: Any) -> None:
    client.send_message(b"m")
    query = {"consumerGroup": GROUP, "topic": "Orders", "queueId": 0}
    assert client.answer(RequestCode.QUERY_CONSUMER_OFFSET, **query).ext_fields == {"offset": "0"}
    client.answer(RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=5, **query)
    assert client.answer(RequestCode.QUERY_CONSUMER_OFFSET, **query).ext_fields == {"offset": "5"}


@with_settings(store={"physical_memory_bytes": 2048})
def test_a_new_group_does_not_start_at_0_if_the_first_message_is_not_in_memory(client: Any) -> None:
    for _ in range(20):
        client.send_message(b"x" * 100)
    query = {"consumerGroup": GROUP, "topic": "Orders", "queueId": 0}
    assert client.answer(RequestCode.QUERY_CONSUMER_OFFSET, **query).code == ResponseCode.QUERY_NOT_FOUND


def test_offsets_are_stored_only_for_existing_queues(bench: Any, client: Any) -> None:
    client.send_message(b"m")
    for fields, code in (
        ({"topic": "Nothing", "queueId": 0, "commitOffset": 1}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "Orders", "queueId": 9, "commitOffset": 1}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "Orders", "queueId": 0, "commitOffset": -1}, ResponseCode.SYSTEM_ERROR),
    ):
        answer = client.answer(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=GROUP, **fields)
        assert answer.code == code
    for group in ("", "a@b", "x" * 200):
        fields = {"topic": "Orders", "queueId": 0, "commitOffset": 1, "consumerGroup": group}
        answer = client.answer(RequestCode.UPDATE_CONSUMER_OFFSET, **fields)
        assert answer.code == ResponseCode.SYSTEM_ERROR
    assert bench.broker.offsets.json_members == {"offsetTable": {}}


def lock_queues(client: Any, *queue_ids: int, code: int = RequestCode.LOCK_BATCH_MQ) -> list[int]:
    queues = [{"topic": "Orders", "brokerName": "broker-a", "queueId": number} for number in queue_ids]
    wish = {"consumerGroup": GROUP, "clientId": client.client_id, "mqSet": queues}
    answer = client.answer(code, json.dumps(wish).encode())
    assert answer.code == ResponseCode.SUCCESS
    return [queue["queueId"] for queue in json.loads(answer.body)["lockOKMQSet"]] if answer.body else []


def test_a_queue_is_locked_by_one_client_until_unlock_or_expiry(bench: Any) -> None:
    first, second = bench.client(), bench.client()
    first.send_message(b"m")
    assert lock_queues(first, 0, 1) == [0, 1]
    assert lock_queues(second, 1, 2) == [2]
    lock_queues(second, 0, 1, code=RequestCode.UNLOCK_BATCH_MQ)
    assert lock_queues(second, 0, 1) == []
    lock_queues(first, 1, code=RequestCode.UNLOCK_BATCH_MQ)
    assert lock_queues(second, 0, 1) == [1]
    bench.sleep(59_000)
    assert lock_queues(second, 0) == []
    bench.sleep(2_000)
    assert lock_queues(second, 0) == [0]
    assert lock_queues(first, 4, -1) == []


def test_a_client_can_change_its_id(bench: Any, client: Any) -> None:
    client.heartbeat()
    before, client.client_id = client.client_id, "renamed"
    client.heartbeat()
    producers = bench.broker.producers
    assert [info.client_id for info in producers.clients_of_group("sellers")] == ["renamed"]
    assert producers.find_channel("renamed") is client
    assert producers.find_channel(before) is None
