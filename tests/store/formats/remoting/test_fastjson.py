"""RocketMQ's own reader and this one read alike. Answers of the first are kept in `fastjson/answers.json`."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.maven import JavaProgram
from tests.store.formats.remoting.fastjson.answers import ask_rocketmq, program, stored_answers
from tests.store.formats.remoting.fastjson.corpus import CASES, READ, REFUSED
from tornlog.store.broker.processors.client_manage import LockRequest
from tornlog.store.broker.subscriptions import HeartbeatData
from tornlog.store.broker.topics import SubscriptionGroupConfig, TopicConfig
from tornlog.store.broker.versioned_table import DataVersion
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.remoting.command import LANGUAGES, RemotingCommand, decode_json_header
from tornlog.store.formats.remoting.fastjson import DIALECT_BYTES_MAX, decode_fastjson
from tornlog.store.formats.remoting.json_body import MessageQueue, decode_json_body, decode_queue_offsets


def _header(raw: bytes) -> Any:
    command = decode_json_header(raw, b"", file="peer", offset=0)
    names = ("code", "opaque", "flag", "version", "remark")
    return {name: getattr(command, name) for name in names} | {
        "language": LANGUAGES[command.language],
        "extFields": dict(command.ext_fields),
    }


def _heartbeat(raw: bytes) -> Any:
    heartbeat = HeartbeatData.decode(raw)
    consumers = {
        each.group: {
            "consumeType": each.consume_type,
            "messageModel": each.message_model,
            "consumeFromWhere": each.consume_from_where,
            "unitMode": each.unit_mode,
            "topics": {
                one.topic: {
                    "subString": one.expression,
                    "expressionType": one.expression_type,
                    "classFilterMode": one.class_filter_mode,
                }
                for one in each.subscriptions
            },
        }
        for each in heartbeat.consumers
    }
    return {"clientID": heartbeat.client_id, "producers": sorted(heartbeat.producer_groups), "consumers": consumers}


def _queue(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name} {queue.queue_id}"


def _lock(raw: bytes) -> Any:
    lock = LockRequest.from_request(RemotingCommand(41, 1, body=raw))
    return {"clientId": lock.client_id, "consumerGroup": lock.group, "mqSet": sorted(map(_queue, lock.queues))}


def _topics(raw: bytes) -> Any:
    members = decode_json_body(raw)
    table = members.inner_object("topicConfigTable").table()
    topics = {name: TopicConfig.from_json_members(name, entry).json_members for name, entry in table}
    return {
        "topicConfigTable": topics,
        "dataVersion": DataVersion.from_json_members(members.inner_object("dataVersion")).json_members,
    }


def _offsets(raw: bytes) -> Any:
    return {_queue(queue): offset for queue, offset in decode_queue_offsets(raw, "messageQueueTable").items()}


READERS: dict[str, Callable[[bytes], Any]] = {
    "header": _header,
    "heartbeat": _heartbeat,
    "lock": _lock,
    "group": lambda raw: SubscriptionGroupConfig.from_json_members("", decode_json_body(raw)).json_members,
    "topics": _topics,
    "version": lambda raw: DataVersion.from_json_members(decode_json_body(raw)).json_members,
    "offsets": _offsets,
    "any": lambda raw: decode_fastjson(raw, file="body"),
    "register": lambda raw: decode_fastjson(raw, file="body"),
    "cluster": lambda raw: decode_fastjson(raw, file="body"),
    "reset": lambda raw: {_queue(queue): offset for queue, offset in decode_queue_offsets(raw, "offsetTable").items()},
}


def _comparable(value: Any) -> Any:
    """Leave out members without a value, which are missing here; fastjson writes integers beyond 53 bits as texts."""
    if isinstance(value, int) and abs(value) >= 1 << 53:
        return str(value)
    if isinstance(value, dict):
        return {name: _comparable(each) for name, each in value.items() if each is not None}
    return [*map(_comparable, value)] if isinstance(value, list) else value


@pytest.mark.parametrize(("kind", "text", "answer"), [each for each in stored_answers() if each[0] != "written"])
def test_a_json_text_is_parsed_as_by_fastjson(kind: str, text: str, answer: Any) -> None:
    if (kind, text) in READ:
        assert "error" in answer
        READERS[kind](text.encode())
    elif "error" in answer or answer["is"] is None:
        with pytest.raises(CorruptFileError):
            READERS[kind](text.encode())
    else:
        assert _comparable(READERS[kind](text.encode())) == _comparable(answer["is"])


QUEUES = {'T "1" broker-a 0', "T-2 broker-ü 7"}
TABLE = {
    "dataVersion": {"counter": 0, "timestamp": 1795309986689},
    "topicConfigTable": {
        "T": {
            "order": False,
            "perm": 6,
            "readQueueNums": 4,
            "topicFilterType": "SINGLE_TAG",
            "topicName": "T",
            "topicSysFlag": 0,
            "writeQueueNums": 8,
        }
    },
}
BROKER = {"brokerAddrs": {"0": "127.0.0.1:10911", "1": "[::1]:10911"}, "brokerName": "broker-a", "cluster": "C"}
WRITTEN_AS = {
    "header": {
        "code": 310,
        "opaque": 7,
        "flag": 0,
        "version": 409,
        "language": "JAVA",
        "remark": "a\nb",
        "extFields": {"i": "KEYS\u0001k\u0002", "é": "😀"},
    },
    "heartbeat": {
        "clientID": "127.0.0.1@1",
        "producers": ["p"],
        "consumers": {
            "g": {
                "consumeType": "CONSUME_ACTIVELY",
                "messageModel": "BROADCASTING",
                "consumeFromWhere": "CONSUME_FROM_TIMESTAMP",
                "unitMode": False,
                "topics": {"T": {"subString": "A || B", "expressionType": "TAG", "classFilterMode": False}},
            }
        },
    },
    "lock": {"clientId": "c", "consumerGroup": "g", "mqSet": sorted(QUEUES)},
    "group": {
        "brokerId": 0,
        "consumeBroadcastEnable": False,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "groupName": "g",
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    },
    "topics": TABLE,
    "register": {"filterServerList": [], "topicConfigSerializeWrapper": TABLE},
    "offsets": {"T-2 broker-ü 7": (1 << 63) - 1, 'T "1" broker-a 0': 12},
    "reset": {"T-2 broker-ü 7": -1},
    "cluster": {"brokerAddrTable": {"broker-a": BROKER}, "clusterAddrTable": {"C": ["broker-a"]}},
}


@pytest.mark.parametrize(
    ("name", "text"), [(each[1], each[2]["is"]) for each in stored_answers() if each[0] == "written"]
)
def test_an_object_that_rocketmq_writes_is_parsed(name: str, text: str) -> None:
    read = READERS[name](text.encode())
    assert read == WRITTEN_AS[name]


@pytest.mark.parametrize(("kind", "text"), sorted(REFUSED))
def test_a_json_text_that_no_client_writes_is_refused(kind: str, text: str) -> None:
    with pytest.raises(CorruptFileError):
        READERS[kind](text.encode())


@pytest.mark.ci
def test_the_stored_fastjson_answers_are_those_of_rocketmq_4_9_8(
    fetched: Callable[[Callable[[], JavaProgram]], JavaProgram],
) -> None:
    java = fetched(program)
    assert ask_rocketmq(java, CASES) == [answer for _, _, answer in stored_answers()]
    assert all("is" in answer for answer in ask_rocketmq(java, sorted(REFUSED)))


def test_a_fastjson_error_names_the_byte_where_parsing_stopped() -> None:
    with pytest.raises(CorruptFileError) as caught:
        decode_fastjson("{'é':[1,2,x]}".encode(), file="peer", offset=100)
    assert (caught.value.file, caught.value.offset, caught.value.expected) == ("peer", 111, "a value")


def test_the_size_of_a_text_in_fastjson_dialect_is_limited() -> None:
    text = b"{a:'" + b"x" * (DIALECT_BYTES_MAX - 6) + b"'}"
    assert decode_fastjson(text, file="peer")["a"].startswith("x")
    with pytest.raises(CorruptFileError):
        decode_fastjson(text.replace(b"'}", b"x'}"), file="peer")


def test_a_number_with_a_huge_exponent_is_parsed_quickly() -> None:
    members = decode_json_body(b'{"n":1e999999999,"t":1e999999999}')
    assert members.text("t") == "1E+999999999"
    with pytest.raises(CorruptFileError, match="n: expected a 64-bit integer"):
        members.integer("n")


def test_a_header_in_fastjson_dialect_is_accepted() -> None:
    raw = b"{code:10,'opaque':2,extFields:{defaultTopicQueueNums:4,batch:false}}"
    assert decode_json_header(raw, b"", file="peer", offset=0).ext_fields == {
        "defaultTopicQueueNums": "4",
        "batch": "false",
    }
