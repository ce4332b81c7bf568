"""Answers to pulls, and long polling."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.one_life import with_settings
from tornlog.store.broker.requests import RequestCode, ResponseCode
from tornlog.store.broker.topics import TopicConfig
from tornlog.store.config import BrokerRole
from tornlog.store.formats.messages import GetMessageResult, GetMessageStatus
from tornlog.store.formats.remoting.command import ONE_WAY_FLAG, RemotingCommand

from .conftest import GROUP, VERSION, pull_fields, records_of

Live = Callable[..., Any]
MAY_WAIT = 4 | 2


def test_a_pull_returns_log_records_and_the_next_offset(client: Any) -> None:
    for number in range(3):
        client.send_message(b"%d" % number)
    answer = client.pull(1)
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, "FOUND")
    assert answer.ext_fields == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "3",
        "minOffset": "0",
        "maxOffset": "3",
    }
    assert [record.body for record in records_of(answer)] == [b"1", b"2"]
    assert len(client.pulled(0, maxMsgNums=2)) == 2


def test_pull_response_codes_follow_the_get_message_status(client: Any) -> None:
    client.send_message(b"m", properties={"TAGS": "A"})

    def told(offset: int, **fields: Any) -> tuple[int, str, str]:
        answer = client.pull(offset, **fields)
        return answer.code, answer.remark, answer.ext_fields["nextBeginOffset"]

    assert told(1) == (19, "OFFSET_OVERFLOW_ONE", "1")
    assert told(7) == (21, "OFFSET_OVERFLOW_BADLY", "1")
    assert told(-1) == (21, "OFFSET_TOO_SMALL", "0")
    assert told(0, subscription="B") == (20, "NO_MATCHED_MESSAGE", "1")
    assert told(0, queueId=2) == (19, "NO_MESSAGE_IN_QUEUE", "0")
    assert told(5, queueId=2) == (21, "NO_MESSAGE_IN_QUEUE", "0")


def test_a_corrected_pull_offset_is_stored_as_an_offset_moved_event(bench: Any, client: Any) -> None:
    client.send_message(b"m")
    client.pull(7)
    bench.settle()
    event = client.pulled(topic="OFFSET_MOVED_EVENT")[0]
    assert json.loads(event.body) == {
        "consumerGroup": GROUP,
        "messageQueue": {"brokerName": "broker-a", "queueId": 0, "topic": "Orders"},
        "offsetNew": 1,
        "offsetRequest": 7,
    }


@pytest.mark.parametrize(
    ("fields", "code", "word"),
    [
        ({"topic": "Nothing"}, ResponseCode.TOPIC_NOT_EXIST, "Nothing"),
        ({"queueId": 4}, ResponseCode.SYSTEM_ERROR, "0 to 3, found 4"),
        ({"queueId": -1}, ResponseCode.SYSTEM_ERROR, "0 to 3, found -1"),
        ({"consumerGroup": "no/such"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "no/such"),
        ({"sysFlag": 0}, ResponseCode.SUBSCRIPTION_NOT_EXIST, "heartbeat"),
        ({"expressionType": "SQL92", "subscription": "a >"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "a >"),
        ({"expressionType": "SQL92", "subscription": "a > 1"}, ResponseCode.SYSTEM_ERROR, "enablePropertyFilter"),
        (
            {"subscription": "A" * 65_537},
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            "expected at most 65536 characters, found 65537",
        ),
        ({"expressionType": "XPATH"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "XPATH"),
        ({"queueOffset": "x"}, ResponseCode.SYSTEM_ERROR, "queueOffset"),
    ],
)
def test_an_invalid_pull_is_answered_with_its_error(
    client: Any, fields: dict[str, Any], code: ResponseCode, word: str
) -> None:
    client.send_message(b"m")
    answer = client.pull(**fields)
    assert answer.code == code
    assert word in answer.remark


@with_settings(enable_property_filter=True)
def test_tags_and_sql_expressions_select_pulled_messages(client: Any) -> None:
    for tag, amount in (("A", 1), ("B", 5), ("C", 9)):
        client.send_message(tag.encode(), properties={"TAGS": tag, "amount": str(amount)})
    assert [each.body for each in client.pulled(subscription="A || C")] == [b"A", b"C"]
    sql = {"expressionType": "SQL92", "subscription": "amount > 4"}
    assert [each.body for each in client.pulled(**sql)] == [b"B", b"C"]


def test_a_pull_without_a_subscription_uses_that_of_the_heartbeat(client: Any) -> None:
    for tag in ("A", "B"):
        client.send_message(tag.encode(), properties={"TAGS": tag})
    client.heartbeat(expression="B", version=7)
    assert [each.body for each in client.pulled(sysFlag=0, subVersion=7)] == [b"B"]
    assert client.pull(sysFlag=0, subVersion=8).code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    other = client.pull(topic="TBW102", sysFlag=0)
    assert other.code == ResponseCode.SUBSCRIPTION_NOT_EXIST


def test_bit_maps_skip_messages_that_do_not_match(live: Live) -> None:
    def body(bench: Any) -> None:
        client = bench.client()
        client.heartbeat(expression="amount > 4", kind="SQL92")
        bench.sleep(10)
        for amount in (1, 5):
            client.send_message(b"%d" % amount, properties={"amount": str(amount)})
        assert [each.body for each in client.pulled(sysFlag=0)] == [b"5"]
        assert bench.broker.filters.find("Orders", GROUP) is not None

    settings = {"enable_property_filter": True, "enable_calc_filter_bit_map": True}
    live(body, store={"enable_consume_queue_ext": True}, **settings)


def test_an_invalid_filter_expression_fails_only_its_own_pulls(live: Live) -> None:
    def body(bench: Any) -> None:
        client = bench.client()
        client.send_message(b"m")
        assert client.heartbeat(expression="amount >", kind="SQL92").code == ResponseCode.SUCCESS
        assert client.pull(sysFlag=0).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert len(client.pulled()) == 1

    settings = {"enable_property_filter": True, "enable_calc_filter_bit_map": True}
    live(body, store={"enable_consume_queue_ext": True}, **settings)


def test_a_pull_answer_that_cannot_be_sent_closes_only_its_client(bench: Any) -> None:
    broken, sound = bench.client(), bench.client()
    sound.send_message(b"old")
    broken.send = lambda command: 1 // 0
    assert broken.pull(1, sysFlag=MAY_WAIT) is None
    assert sound.pull(1, sysFlag=MAY_WAIT) is None
    sound.send_message(b"new")
    bench.sleep(1)
    assert [record.body for record in records_of(sound.got[0])] == [b"new"]
    assert not broken.is_open
    assert isinstance(bench.broker.held_pulls.last_error, ZeroDivisionError)


def test_a_disabled_group_cannot_pull(client: Any) -> None:
    client.send_message(b"m")
    group = {"groupName": GROUP, "consumeEnable": False}
    client.answer(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, json.dumps(group).encode())
    assert client.pull().code == ResponseCode.NO_PERMISSION


def test_a_held_pull_is_answered_when_a_message_arrives(bench: Any, client: Any) -> None:
    client.send_message(b"old")
    assert client.pull(1, sysFlag=MAY_WAIT) is None
    bench.sleep(1000)
    assert client.got == []
    client.send_message(b"new")
    bench.sleep(1)
    (answer,) = client.got
    assert [record.body for record in records_of(answer)] == [b"new"]
    assert bench.broker.held_pulls.held_count == 0


@with_settings(enable_property_filter=True)
def test_a_held_pull_ignores_messages_that_do_not_match(bench: Any, client: Any) -> None:
    client.send_message(b"old")
    sql = {"expressionType": "SQL92", "subscription": "amount > 4"}
    assert client.pull(1, sysFlag=MAY_WAIT, subscription="B") is None
    assert client.pull(1, sysFlag=MAY_WAIT, **sql) is None
    client.send_message(b"other", properties={"TAGS": "A", "amount": "1"})
    bench.sleep(100)
    assert client.got == []
    client.send_message(b"wanted", properties={"TAGS": "B", "amount": "5"})
    bench.sleep(100)
    assert [[record.body for record in records_of(answer)] for answer in client.got] == [[b"wanted"]] * 2


def test_a_held_pull_is_answered_at_its_timeout(bench: Any, client: Any) -> None:
    client.send_message(b"old")
    assert client.pull(1, sysFlag=MAY_WAIT, suspendTimeoutMillis=700) is None
    bench.sleep(690)
    assert client.got == []
    bench.sleep(20)
    (answer,) = client.got
    assert answer.code == ResponseCode.PULL_NOT_FOUND


def test_a_held_pull_whose_notification_was_lost_is_answered_by_the_periodic_check(bench: Any, client: Any) -> None:
    client.send_message(b"old")
    assert client.pull(1, sysFlag=MAY_WAIT) is None
    bench.broker.store.on_arriving.remove(bench.broker.held_pulls.on_arriving)
    client.send_message(b"new")
    bench.sleep(5001)
    assert [record.body for record in records_of(client.got[0])] == [b"new"]


@with_settings(store={"long_polling_enable": False})
def test_without_long_polling_a_pull_waits_a_second(bench: Any, client: Any) -> None:
    client.send_message(b"old")
    assert client.pull(1, sysFlag=MAY_WAIT) is None
    bench.sleep(1001)
    assert [answer.code for answer in client.got] == [ResponseCode.PULL_NOT_FOUND]


@with_settings(held_pulls_max=2, held_pulls_of_client_max=1)
def test_the_number_of_held_pulls_is_limited(bench: Any) -> None:
    first, second, third = (bench.client() for _ in range(3))
    first.send_message(b"old")
    assert first.pull(1, sysFlag=MAY_WAIT) is None
    assert first.pull(1, sysFlag=MAY_WAIT).code == ResponseCode.PULL_NOT_FOUND
    assert second.pull(1, sysFlag=MAY_WAIT) is None
    assert third.pull(1, sysFlag=MAY_WAIT).code == ResponseCode.PULL_NOT_FOUND
    first.close()
    assert bench.broker.held_pulls.held_count == 1
    assert third.pull(1, sysFlag=MAY_WAIT) is None


def test_a_stopping_broker_answers_held_pulls(bench: Any, client: Any) -> None:
    client.send_message(b"old")
    assert client.pull(1, sysFlag=MAY_WAIT) is None
    assert client.pull(0, queueId=1, sysFlag=MAY_WAIT) is None
    bench.broker.held_pulls.release()
    assert [answer.code for answer in client.got] == [ResponseCode.PULL_NOT_FOUND] * 2
    assert client.pull(1, sysFlag=MAY_WAIT).code == ResponseCode.PULL_NOT_FOUND


def test_a_pull_of_a_closed_connection_is_not_held(bench: Any, client: Any) -> None:
    client.send_message(b"old")
    client.close()
    client.pull(1, sysFlag=MAY_WAIT)
    assert bench.broker.held_pulls.held_count == 0


def test_a_pull_commits_its_offset_once(bench: Any, client: Any) -> None:
    client.send_message(b"m")
    query = {"consumerGroup": GROUP, "topic": "Orders", "queueId": 0}
    client.pull(1, sysFlag=4 | 1, commitOffset=1)
    assert client.answer(RequestCode.QUERY_CONSUMER_OFFSET, **query).ext_fields == {"offset": "1"}
    assert client.pull(1, sysFlag=MAY_WAIT | 1, commitOffset=0) is None
    client.answer(RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=1, **query)
    client.send_message(b"m")
    bench.sleep(1)
    assert client.answer(RequestCode.QUERY_CONSUMER_OFFSET, **query).ext_fields == {"offset": "1"}


def test_old_clients_can_pull(client: Any) -> None:
    client.send_message(b"m", version=VERSION)
    assert len(client.pulled(version=63)) == 1


def test_a_held_pull_drops_its_request_body_and_a_large_request_is_not_held(bench: Any, client: Any) -> None:
    client.send_message(b"m")
    fields = pull_fields(1, sysFlag=MAY_WAIT)
    assert client.ask(RequestCode.PULL_MESSAGE, bytes(1_000_000), **fields) is None
    held = bench.broker.held_pulls._held
    assert [pull.request.body for pull in held.pulls_of_queue(("Orders", 0))] == [b""]

    answer = client.ask(RequestCode.PULL_MESSAGE, **fields, ballast="x" * 10_000)
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    assert held.count == 1


@pytest.mark.parametrize("may_be_read", [True, False])
def test_a_slave_without_read_permission_redirects_consumers_to_the_master(
    live: Live, monkeypatch: pytest.MonkeyPatch, may_be_read: bool
) -> None:
    def found(topic: str, queue_id: int, offset: int, *_: object, **__: object) -> GetMessageResult:
        return GetMessageResult(GetMessageStatus.FOUND, offset + 2, 0, 9, records=[b"one", b"two"])

    def body(bench: Any) -> None:
        bench.broker.topics.put("Orders", TopicConfig("Orders", 1, 1))
        monkeypatch.setattr(bench.broker.store, "get_message", found)
        for flags in (4, MAY_WAIT):
            answer = bench.client().pull(5, sysFlag=flags)
            told = answer.code, answer.ext_fields["nextBeginOffset"], answer.body
            if may_be_read:
                assert told == (ResponseCode.SUCCESS, "7", b"onetwo")
            else:
                assert told == (ResponseCode.PULL_RETRY_IMMEDIATELY, "5", b"")
                assert answer.ext_fields["suggestWhichBrokerId"] == "0"

    live(body, store={"broker_role": BrokerRole.SLAVE}, broker_id=1, slave_read_enable=may_be_read)


@pytest.mark.parametrize("is_checked", [True, False])
def test_a_lagging_slave_redirects_consumers_to_the_master(live: Live, is_checked: bool) -> None:
    def body(bench: Any) -> None:
        bench.broker.topics.put("Orders", TopicConfig("Orders", 1, 1))
        answer = bench.client().pull(5)
        found = answer.code, answer.ext_fields["nextBeginOffset"], answer.ext_fields["suggestWhichBrokerId"]
        if is_checked:
            assert found[:2] == (ResponseCode.PULL_OFFSET_MOVED, "0")
        else:
            assert found == (ResponseCode.PULL_RETRY_IMMEDIATELY, "5", "0")

    live(
        body,
        store={"broker_role": BrokerRole.SLAVE, "offset_check_in_slave": is_checked},
        broker_id=1,
        slave_read_enable=True,
    )


def test_a_one_way_pull_is_not_held(bench: Any, client: Any) -> None:
    client.send_message(b"m")
    held = client.pull(1, sysFlag=MAY_WAIT)
    assert held is None
    fields = {name: str(value) for name, value in pull_fields(1, sysFlag=MAY_WAIT).items()}
    request = RemotingCommand(RequestCode.PULL_MESSAGE, 4711, ONE_WAY_FLAG, version=VERSION, ext_fields=fields)
    answer = bench.broker.routes()[request.code].processor(request, client)
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    client.send_message(b"next")
    bench.sleep(1_000)
    assert [command.code for command in client.got] == [ResponseCode.SUCCESS]


@with_settings(store={"enable_lmq": True, "enable_multi_dispatch": True})
def test_a_light_queue_can_be_pulled_and_holds_a_pull(bench: Any, client: Any) -> None:
    light = {"topic": "%LMQ%device", "consumerGroup": "%LMQ%device"}
    client.send_message(b"one", properties={"INNER_MULTI_DISPATCH": "%LMQ%device"})
    assert [each.body for each in client.pulled(**light)] == [b"one"]
    refused = client.pull(**light, queueId=1)
    assert (refused.code, "0 to 0, found 1" in refused.remark) == (ResponseCode.SYSTEM_ERROR, True)

    assert client.pull(1, sysFlag=MAY_WAIT, **light) is None
    client.send_message(b"two", properties={"INNER_MULTI_DISPATCH": "%LMQ%device"})
    bench.settle()
    assert [each.body for answer in client.got for each in records_of(answer)] == [b"two"]


def test_the_name_of_a_light_queue_is_no_topic_without_light_queues(client: Any) -> None:
    assert client.pull(topic="%LMQ%device").code == ResponseCode.TOPIC_NOT_EXIST
