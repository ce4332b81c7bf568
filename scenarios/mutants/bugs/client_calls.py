"""Bugs of the calls by which a broker passes an operator's questions to clients."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ....store.broker import client_calls
from ....store.broker.client_calls import ClientCalls
from ....store.broker.processors.group_admin import GroupAdminProcessor
from ....store.broker.requests import BROKER_VERSION, RequestRefusedError, ResponseCode, response_to
from ....store.broker.router import Channel
from ....store.formats.remoting.command import RemotingCommand
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

_SHORT_MS, _LONG_MS = client_calls.TIMEOUT_MS // 10, client_calls.TIMEOUT_MS * 2
_ASKED = SCENARIOS["operator-changes"].ranges.replace(
    broker={"client_questions": (1,), "group_members": (2,), "tasks_each": (6,), "rest_ms_max": (15_000,)}
)


def _call(
    self: ClientCalls,
    channels: Iterable[Channel],
    request: RemotingCommand,
    *,
    timeout_ms: int = client_calls.TIMEOUT_MS,
    lists_late: bool = False,
) -> dict[Channel, RemotingCommand]:
    """Call clients as the broker does, with another timeout, or with each call listed only after its send."""
    unlisted = vars(self).setdefault("unlisted", set())
    calls = {}
    with self._lock:
        if self._operators >= client_calls.CALLS_MAX:
            raise RequestRefusedError("too many operators wait", ResponseCode.SYSTEM_BUSY)
        self._operators += 1
    try:
        for channel in channels:
            key = channel, client_calls._OPAQUE_BASE | self._opaques.add(1)
            calls[key] = client_calls._PendingCall(self._world.tasks.signal("answer of a client"))
            if lists_late:
                unlisted.add(key)
            else:
                _list_call(self, key, calls[key])
            channel.send(replace(request, opaque=key[1]))
            if lists_late:
                _list_call(self, key, calls[key])
                unlisted.remove(key)
        clock = self._world.clock
        end_ns = clock.monotonic_ns() + timeout_ms * 1_000_000
        for call in calls.values():
            call.answered.wait(max(0, (end_ns - clock.monotonic_ns()) // 1_000_000))
    finally:
        with self._lock:
            self._operators -= 1
            for key in calls:
                del self._calls[key]
    return {channel: call.response for (channel, _), call in calls.items() if call.response is not None}


def _list_call(self: ClientCalls, key: tuple[Channel, int], call: client_calls._PendingCall) -> None:
    with self._lock:
        self._calls[key] = call


# Apache RocketMQ: apache/rocketmq issue 10575, for the table of pending requests.
@bug("call-listed-after-send", ClientCalls, "call_clients", found_by=("STATUS",))
@needs(_ASKED, disturbances={"paused_task_chance": (1.0,), "paused_task_ms_max": (50,)})
def send_then_list(
    self: ClientCalls, channels: Iterable[Channel], code: int, fields: Mapping[str, str], body: bytes = b""
) -> dict[Channel, RemotingCommand]:
    """A client's answer to an operator's question is dropped if it arrives just after the question was sent."""
    request = RemotingCommand(code, 0, version=BROKER_VERSION, ext_fields=fields, body=body)
    return _call(self, channels, request, lists_late=True)


@send_then_list.also(ClientCalls, "deliver_response")
def deliver_to_listed(self: ClientCalls, channel: Channel, response: RemotingCommand) -> bool:
    is_listed = deliver_to_listed.original(self, channel, response)
    bit(not is_listed and (channel, response.opaque) in vars(self).get("unlisted", ()))
    return is_listed


@bug("call-of-client-ends-early", ClientCalls, "call_clients", found_by=("STATUS",))
@needs(_ASKED)
def call_impatiently(
    self: ClientCalls, channels: Iterable[Channel], code: int, fields: Mapping[str, str], body: bytes = b""
) -> dict[Channel, RemotingCommand]:
    """The broker waits half a second instead of five for the answers of clients."""
    request = RemotingCommand(code, 0, version=BROKER_VERSION, ext_fields=fields, body=body)
    answers = _call(self, channels, request, timeout_ms=_SHORT_MS)
    bit(not answers)
    return answers


@bug("call-of-client-ends-late", ClientCalls, "call_clients", found_by=("LIVE",))
@needs(_ASKED)
def call_patiently(
    self: ClientCalls, channels: Iterable[Channel], code: int, fields: Mapping[str, str], body: bytes = b""
) -> dict[Channel, RemotingCommand]:
    """The broker waits ten seconds instead of five for the answers of clients."""
    request = RemotingCommand(code, 0, version=BROKER_VERSION, ext_fields=fields, body=body)
    answers = _call(self, channels, request, timeout_ms=_LONG_MS)
    bit(not answers)
    return answers


@bug("refused-operator-counts", ClientCalls, "call_clients", found_by=("STATUS",))
@needs(_ASKED)
def count_refused(
    self: ClientCalls, channels: Iterable[Channel], code: int, fields: Mapping[str, str], body: bytes = b""
) -> dict[Channel, RemotingCommand]:
    """An operator whose question got no answer counts as waiting for ever, so the broker soon refuses all questions."""
    answers = count_refused.original(self, channels, code, fields, body)
    if bit(not answers):
        with self._lock:
            self._operators += 1
    return answers


@bug("answer-of-client-loses-code", GroupAdminProcessor, "forward_to_consumer", found_by=("STATUS",))
@needs(_ASKED)
def forward_as_success(self: GroupAdminProcessor, request: RemotingCommand, _: Channel) -> RemotingCommand:
    """If a client answers with an error, the operator gets SUCCESS."""
    answer = forward_as_success.original(self, request, _)
    bit(answer.code != ResponseCode.SUCCESS)
    return response_to(request, ResponseCode.SUCCESS, answer.remark, answer.ext_fields, answer.body)


@bug("consumed-message-not-sent", GroupAdminProcessor, "consume_message_directly", found_by=("STATUS",))
@needs(_ASKED)
def forward_without_message(self: GroupAdminProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """A client that shall consume a message at once gets the operator's request without the message."""
    bit()
    return self.forward_to_consumer(request, channel)
