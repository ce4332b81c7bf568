"""Replies reach the producers that wait for them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.one_life import with_settings
from tornlog.store.broker.requests import RequestCode, ResponseCode
from tornlog.store.formats.messages import Message, PutMessageResult, PutMessageStatus
from tornlog.store.formats.properties import decode_properties, encode_properties

Live = Callable[..., Any]
TOPIC = "DefaultCluster_REPLY_TOPIC"
OF_SETTINGS = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
NOT_STORED = {"msgId": "0", "queueId": "0", "queueOffset": "0", **OF_SETTINGS}


def send_reply(client: Any, to: str, body: bytes = b"yes") -> Any:
    properties = encode_properties({"REPLY_TO_CLIENT": to, "CORRELATION_ID": "c1"})
    fields = {"a": "sellers", "b": TOPIC, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": properties}
    return client.answer(RequestCode.SEND_REPLY_MESSAGE_V2, body, **fields)


def test_a_reply_is_pushed_to_the_requesting_client_and_stored(bench: Any) -> None:
    asking, answering = bench.client(), bench.client()
    asking.heartbeat()
    asking.got.clear()
    answer = send_reply(answering, asking.client_id)
    assert answer.code == ResponseCode.SUCCESS
    assert answer.ext_fields.items() >= OF_SETTINGS.items()
    (push,) = asking.got
    assert (push.code, push.body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"yes")
    assert push.ext_fields["bornHost"] == answering.remote_address
    assert decode_properties(push.ext_fields["properties"])["CORRELATION_ID"] == "c1"
    bench.settle()
    assert [record.body for record in asking.pulled(topic=TOPIC)] == [b"yes"]


def produce(client: Any, client_id: str, *groups: str) -> None:
    body = {"clientID": client_id, "producerDataSet": [{"groupName": group} for group in groups]}
    client.answer(RequestCode.HEART_BEAT, json.dumps(body).encode())


def test_a_reply_goes_to_the_open_connection_that_joined_last(bench: Any) -> None:
    old, new = bench.client(), bench.client()
    produce(old, "buyer", "first", "second")
    produce(new, "buyer", "first")
    produce(old, "buyer", "first", "second")  # renews its memberships
    assert send_reply(old, "buyer").code == ResponseCode.SUCCESS
    assert (len(old.got), len(new.got)) == (0, 1)
    new.close()
    assert send_reply(old, "buyer").code == ResponseCode.SUCCESS
    assert (len(old.got), len(new.got)) == (1, 1)


def test_a_reply_to_an_unknown_client_is_refused(bench: Any) -> None:
    answer = send_reply(bench.client(), "gone")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "'gone'" in answer.remark


@with_settings(store_reply_message_enable=False)
def test_storing_replies_can_be_disabled(bench: Any) -> None:
    asking = bench.client()
    asking.heartbeat()
    end = bench.broker.store.max_phy_offset
    answer = send_reply(asking, asking.client_id)
    assert answer.code == ResponseCode.SUCCESS
    assert answer.ext_fields == NOT_STORED
    assert bench.broker.store.max_phy_offset == end


@pytest.mark.parametrize("fault", [None, OSError(5, "Input/output error")])
def test_pushing_a_reply_succeeds_even_if_storing_it_fails(
    live: Live, monkeypatch: pytest.MonkeyPatch, fault: OSError | None
) -> None:
    def put_message(message: Message) -> PutMessageResult:
        if fault is not None:
            raise fault
        return PutMessageResult(PutMessageStatus.SERVICE_NOT_AVAILABLE)

    def body(bench: Any) -> None:
        asking = bench.client()
        asking.heartbeat()
        monkeypatch.setattr(bench.broker.store, "put_message", put_message)
        answer = send_reply(asking, asking.client_id)
        assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
        assert answer.ext_fields == NOT_STORED

    live(body)
