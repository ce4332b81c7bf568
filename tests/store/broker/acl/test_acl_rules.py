"""Permissions of accounts."""

import json

import pytest

from tornlog.store.broker.acl.plain_acl import read_plain_acl
from tornlog.store.broker.acl.rules import AccessRules, make_signer
from tornlog.store.errors import AccessDeniedError, CorruptFileError
from tornlog.store.formats.remoting.command import RemotingCommand

RULES = read_plain_acl(
    """
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.{1,2}

accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC=SUB
  groupPerms:
  - groupA=DENY
  - groupB=PUB|SUB
- accessKey: rocketmq2
  secretKey: 12345678
  whiteRemoteAddress: 192.168.1.*
  admin: true
- accessKey: rocketmq3
  secretKey: 87654321
  admin: true
  topicPerms: [topicA=PUB]
"""
)
KEYS = {"RocketMQ": "12345678", "rocketmq2": "12345678", "rocketmq3": "87654321"}


def why_denied(
    command: RemotingCommand, access_key: str | None = "RocketMQ", host: str = "127.0.0.1", rules: AccessRules = RULES
) -> str | None:
    """Return why a signed request is denied, or None."""
    signed = command if access_key is None else make_signer(access_key, KEYS.get(access_key, "wrong"))(command)
    try:
        rules.check_access(signed, host)
    except AccessDeniedError as error:
        return f"{error.code}: {error}".removeprefix("1: org.apache.rocketmq.acl.common.AclException: ")
    return None


def request(code: int, **fields: str) -> RemotingCommand:
    return RemotingCommand(code, 1, ext_fields=fields)


def heartbeat(group: str, *topics: str) -> RemotingCommand:
    consumer = {"groupName": group, "subscriptionDataSet": [{"topic": topic} for topic in topics]}
    return RemotingCommand(34, 1, body=json.dumps({"clientID": "c", "consumerDataSet": [consumer]}).encode())


SEND_B = request(310, a="producers", b="topicB")


def test_a_request_with_a_missing_unknown_or_wrong_key_is_denied() -> None:
    assert why_denied(SEND_B, None) == "No accessKey is configured"
    assert why_denied(SEND_B, "nobody") == "No acl config for nobody"
    forged = make_signer("RocketMQ", "not the key")(SEND_B)
    assert why_denied(forged, None) == "Check signature failed for accessKey=RocketMQ"


def test_a_globally_white_listed_address_needs_no_key_and_that_of_an_account_no_signature() -> None:
    assert why_denied(request(17), None, "10.10.103.44") is None
    assert why_denied(request(17), None, "192.168.0.2") is None
    assert why_denied(request(17), None, "192.168.0.3") is not None
    named = request(17, AccessKey="rocketmq2")
    assert why_denied(named, None, "192.168.1.7") is None
    assert why_denied(named, None, "192.168.2.7") == "Check signature failed for accessKey=rocketmq2"


@pytest.mark.parametrize(
    "allowed",
    [
        SEND_B,
        request(10, topic="topicB", producerGroup="p"),
        request(320, b="topicB"),
        request(324, topic="topicB"),
        request(325, b="topicB"),
        request(11, topic="topicC", consumerGroup="groupB"),
        request(11, topic="topicB", consumerGroup="of default"),
        request(12, topic="topicC", key="k"),
        request(15, topic="topicB", consumerGroup="groupB"),
        request(36, group="groupB"),
        request(310, a="groupB", b="%RETRY%groupB"),
        heartbeat("groupB", "topicB", "%RETRY%groupB"),
        request(310, a="any", b="RMQ_SYS_TRACE_TOPIC"),
        request(105, topic="topicA"),  # a name server request, which needs only a signature
        request(35, clientID="c"),
    ],
)
def test_a_request_with_permission_is_allowed(allowed: RemotingCommand) -> None:
    assert why_denied(allowed) is None


@pytest.mark.parametrize(
    ("denied", "of"),
    [
        (request(310, b="topicA"), "topic:topicA"),
        (request(310, b="topicC"), "topic:topicC"),
        (request(310, b="unknown"), "topic:unknown"),
        (request(320, b="topicA"), "topic:topicA"),
        (request(324, topic="topicA"), "topic:topicA"),
        (request(325, b="topicA"), "topic:topicA"),
        (request(10, topic="topicC"), "topic:topicC"),
        (request(11, topic="topicA", consumerGroup="groupB"), "topic:topicA"),
        (request(11, topic="topicB", consumerGroup="groupA"), "group:groupA"),
        (request(12, topic="topicA"), "topic:topicA"),
        (request(15, topic="topicB", consumerGroup="groupA"), "group:groupA"),
        (request(35, consumerGroup="groupA"), "group:groupA"),
        (request(36, group="groupA"), "group:groupA"),
        (request(38, consumerGroup="groupA"), "group:groupA"),
        (request(310, a="groupB", b="%RETRY%groupA"), "group:groupA"),
        (heartbeat("groupA", "topicB"), "group:groupA"),
        (heartbeat("groupB", "topicB", "topicA"), "topic:topicA"),
    ],
)
def test_a_request_without_permission_is_denied(denied: RemotingCommand, of: str) -> None:
    assert why_denied(denied) == f"No default permission for {of}"


@pytest.mark.parametrize("code", [17, 200, 207, 215, 216, 222, 306, 329, 103, 104])
def test_only_administrators_may_change_a_broker(code: int) -> None:
    assert why_denied(request(code), "rocketmq2") is None
    assert why_denied(request(code)) == f"Need admin permission for request code={code}, but accessKey=RocketMQ is not"


def test_listed_permissions_restrict_an_administrator() -> None:
    assert why_denied(request(310, b="topicA"), "rocketmq2") is None
    assert why_denied(request(310, b="topicA"), "rocketmq3") is None
    assert why_denied(request(310, b="topicB"), "rocketmq3") == "No default permission for topic:topicB"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"consumerDataSet":7}', b'{"consumerDataSet":[{}]}', b'{"consumerDataSet":[7]}', b"\xff"]
)
def test_a_malformed_heartbeat_is_an_error_and_never_allowed(body: bytes) -> None:
    with pytest.raises(CorruptFileError):
        why_denied(RemotingCommand(34, 1, body=body))


def test_a_secret_key_is_not_shown() -> None:
    assert "12345678" not in repr(RULES)


def test_route_queries_need_no_key() -> None:
    """A client without a key would report a missing route instead of the missing key."""
    assert why_denied(request(105, topic="topicA"), None) is None
    assert why_denied(request(105, topic="topicA"), "nobody") is None
