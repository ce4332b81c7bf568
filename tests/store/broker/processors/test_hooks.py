"""Hooks observe sends and consumption, can change properties, and fail no request."""

from dataclasses import replace
from typing import Any

import pytest

from tornlog.store.broker.hooks import ConsumeMessageContext, SendMessageContext
from tornlog.store.broker.operator_log import LineLevel, level_of
from tornlog.store.broker.requests import RequestCode, ResponseCode
from tornlog.store.formats.properties import decode_properties
from tornlog.store.formats.remoting.command import RemotingCommand


class Watch:
    hook_name = "watch"

    def __init__(self) -> None:
        self.seen: list[tuple[str, SendMessageContext | ConsumeMessageContext]] = []

    def send_message_before(self, context: SendMessageContext) -> None:
        self.seen.append(("send before", replace(context)))

    def send_message_after(self, context: SendMessageContext) -> None:
        self.seen.append(("send after", replace(context)))

    def consume_message_before(self, context: ConsumeMessageContext) -> None:
        self.seen.append(("consume before", context))

    def consume_message_after(self, context: ConsumeMessageContext) -> None:
        self.seen.append(("consume after", context))

    @property
    def moments(self) -> list[str]:
        return [moment for moment, _ in self.seen]


class Failing(Watch):
    hook_name = "failing"

    def send_message_before(self, context: SendMessageContext) -> None:
        raise RuntimeError("planted")

    send_message_after = send_message_before
    consume_message_before = consume_message_after = send_message_before  # type: ignore[assignment]


def register_hooks(bench: Any, *hooks: Watch) -> None:
    for hook in hooks:
        bench.broker.hooks.register_send_message_hook(hook)
        bench.broker.hooks.register_consume_message_hook(hook)


def test_a_send_hook_is_called_before_storing_and_after_the_answer(bench: Any) -> None:
    watch = Watch()
    register_hooks(bench, watch)
    answer = bench.client().send_message(b"hello", properties={"KEYS": "k"})
    (before, sent), (after, stored) = watch.seen
    assert (before, after) == ("send before", "send after")
    assert (sent.producer_group, sent.topic, sent.queue_id, sent.body_length) == ("sellers", "Orders", 0, 5)
    assert (sent.born_host, sent.born_timestamp_ms) == ("10.0.0.1:50000", 1_600_000_000_000)
    assert (sent.broker_address, sent.region_id) == ("127.0.0.1:10911", "DefaultRegion")
    assert decode_properties(sent.properties) == {"KEYS": "k"}
    assert (stored.code, stored.message_id, stored.queue_offset) == (0, answer.ext_fields["msgId"], 0)


def test_a_send_hook_receives_code_and_remark_of_a_refused_send(bench: Any) -> None:
    watch = Watch()
    register_hooks(bench, watch)
    answer = bench.client().send_message(b"hello", e=99)
    _, (_, refused) = watch.seen
    assert (refused.code, refused.error_message) == (answer.code, answer.remark)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert refused.message_id == ""


def test_a_send_hook_may_change_the_stored_properties(bench: Any) -> None:
    class Stamp(Watch):
        def send_message_before(self, context: SendMessageContext) -> None:
            context.properties = f"seen\x01yes\x02{context.properties}"

    register_hooks(bench, Stamp())
    client = bench.client()
    client.send_message(b"hello", properties={"KEYS": "k"})
    assert decode_properties(client.pulled()[0].properties)["seen"] == "yes"


def test_consume_hooks_are_called_for_answered_pulls_and_sent_back_messages(bench: Any) -> None:
    watch = Watch()
    register_hooks(bench, watch)
    client = bench.client()
    client.heartbeat()
    client.send_message(b"hello")
    record = client.pulled()[0]
    pulled = watch.seen[-1][1]
    assert (pulled.consumer_group, pulled.topic, pulled.queue_id, pulled.offset) == ("billing", "Orders", 0, 0)
    assert pulled.code == ResponseCode.SUCCESS
    assert pulled.body_length == record.size_bytes
    fields = {"group": "billing", "offset": record.physical_offset, "delayLevel": 3}
    client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **fields)
    assert watch.moments == ["send before", "send after", "consume before"]  # the request has no originMsgId
    client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **fields, originMsgId="ID", originTopic="Orders")
    moment, back = watch.seen[-1]
    assert (moment, back.topic, back.message_id) == ("consume after", "Orders", "ID")


def test_a_consume_hook_is_called_once_for_a_held_pull(bench: Any) -> None:
    watch = Watch()
    client = bench.client()
    client.send_message(b"one")
    register_hooks(bench, watch)
    assert client.pull(1, sysFlag=6) is None
    assert watch.seen == []
    bench.client().send_message(b"two")
    bench.settle()
    assert watch.moments.count("consume before") == 1
    assert isinstance(client.got[-1], RemotingCommand)


@pytest.mark.parametrize("is_first", [True, False])
def test_an_exception_in_a_hook_is_logged_and_fails_no_request(bench: Any, is_first: bool) -> None:
    watch, lines = Watch(), []
    bench.broker.hooks.emit = lines.append
    register_hooks(bench, *((Failing(), watch) if is_first else (watch, Failing())))
    client = bench.client()
    assert client.send_message(b"hello").code == ResponseCode.SUCCESS
    assert client.pulled()[0].body == b"hello"
    assert watch.moments == ["send before", "send after", "consume before"]
    assert lines == ["hook failing: RuntimeError: planted"] * 3
    assert {level_of(line) for line in lines} == {LineLevel.ERROR}
