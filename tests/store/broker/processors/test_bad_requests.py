"""Malformed requests are answered and store no message."""

import json
from random import Random
from typing import Any

import pytest

from tests.one_life import with_settings
from tornlog.store.broker.requests import RequestCode

NASTY = (
    "",
    "0",
    "-1",
    "2147483647",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
    "true",
    "x",
    "*",
    "../../etc",
    "%RETRY%g",
    "Orders",
    "\x00",
    "\x01\x02",
    "é" * 100,
    "a" * 40_000,
)
FIELDS = (
    *"abcdefghijklmn",
    *("topic", "queueId", "consumerGroup", "producerGroup", "group", "groupName", "key", "maxNum", "offset"),
    *("queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "suspendTimeoutMillis", "subscription", "subVersion"),
    *("expressionType", "beginTimestamp", "endTimestamp", "timestamp", "isForce", "delayLevel", "clientID"),
    *("tranStateTableOffset", "commitLogOffset", "commitOrRollback", "msgId", "cluster", "brokerName", "brokerAddr"),
    *("brokerId", "clusterName", "haServerAddr", "bodyCrc32", "compressed", "readQueueNums", "writeQueueNums"),
    *("perm", "topicFilterType", "topicSysFlag", "order", "removeOffset", "defaultTopic", "properties"),
)
NASTY_JSON: tuple[Any, ...] = (None, True, 7, 1 << 40, -1, 1.5, "x", "Orders", "\x00", [], [7], [[]], {}, {"a": 1})
MEMBERS = (
    *("clientID", "clientId", "consumerGroup", "mqSet", "producerDataSet", "consumerDataSet", "groupName"),
    *("subscriptionDataSet", "topic", "subString", "expressionType", "subVersion", "brokerName", "queueId"),
    *("subscriptionData", "retryQueueNums", "consumeEnable", "topicConfigSerializeWrapper", "topicConfigTable"),
)
CODES = [code for code in RequestCode if code.name not in (
    "CHECK_TRANSACTION_STATE",
    "NOTIFY_CONSUMER_IDS_CHANGED",
    "RESET_CONSUMER_CLIENT_OFFSET",
    "GET_CONSUMER_STATUS_FROM_CLIENT",
    "PUSH_REPLY_MESSAGE_TO_CLIENT",
)]  # fmt: skip


def junk_json(random: Random, depth: int = 0) -> Any:
    if depth < 4 and random.random() < 0.6:
        return {random.choice(MEMBERS): junk_json(random, depth + 1) for _ in range(random.randrange(5))}
    if depth < 4 and random.random() < 0.3:
        return [junk_json(random, depth + 1) for _ in range(random.randrange(3))]
    return random.choice(NASTY_JSON)


def junk_body(random: Random) -> bytes:
    if random.random() < 0.7:
        return json.dumps(junk_json(random)).encode()
    return random.choice((b"", b"\xff" * 40, b"{", b'{"a":', bytes(64), b"[" * 2000, b"0" * 500))


def junk_fields(random: Random) -> dict[str, str]:
    named = random.sample(FIELDS, random.randrange(len(FIELDS)))
    return {name: random.choice(NASTY) for name in named}


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
@with_settings(enable_property_filter=True)
def test_malformed_requests_are_answered_and_store_no_message(bench: Any, code: RequestCode) -> None:
    random = Random(f"junk {code}")
    client = bench.client()
    client.send_message(b"kept", "Kept")
    for _ in range(60):
        answer = bench.ask(client, code, junk_body(random), random.choice((0, 409)), junk_fields(random))
        assert answer is None or 0 <= answer.code <= 215
    bench.settle()
    assert [record.body for record in client.pulled(topic="Kept")] == [b"kept"]


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_an_empty_request_is_answered(bench: Any, code: RequestCode) -> None:
    end = bench.broker.store.max_phy_offset
    assert bench.ask(bench.client(), code, b"", 409, {}) is not None
    assert bench.broker.store.max_phy_offset == end
