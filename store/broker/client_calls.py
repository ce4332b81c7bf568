"""Client calls: requests and one-way requests from the broker to its clients.
Source: RocketMQ Broker2Client, DefaultConsumerIdsChangeListener, AbstractTransactionalMessageCheckListener.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..formats.half_message import HalfMessage
from ..formats.host import encode_message_id
from ..formats.message import MessageRecord, encode_message_record
from ..formats.properties import PROPERTY_UNIQ_KEY
from ..formats.redirect import message_to_deliver
from ..formats.remoting.command import ONE_WAY_FLAG, RemotingCommand
from ..world import Signal, World
from .clients import ProducerManager
from .requests import BROKER_VERSION, RequestCode, RequestRefusedError, ResponseCode
from .router import Channel

TIMEOUT_MS = 5_000
CALLS_MAX = 2
"""Maximum number of operators that wait for clients at once. A client may never answer."""
_NS_PER_MS = 1_000_000
_OPAQUE_BASE = 1 << 30
"""The opaques of calls have this bit."""
_OPAQUE_MASK = _OPAQUE_BASE - 1
_PUSH_OPAQUE_MASK = 0x7FFFFFFF


@dataclass(slots=True)
class _PendingCall:
    answered: Signal
    response: RemotingCommand | None = None


class ClientCalls:
    """Sends requests to clients and receives their responses. Thread-safe."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = world.tasks.lock("calls of clients")
        self._opaques = world.tasks.cell("opaques of calls")
        self._calls: dict[tuple[Channel, int], _PendingCall] = {}
        self._operators = 0

    def call_client(self, channel: Channel, code: int, fields: Mapping[str, str], body: bytes) -> RemotingCommand:
        """Return the client's response.

        Refuses the operator's request after a timeout, or if CALLS_MAX other operators wait.
        """
        response = self.call_clients([channel], code, fields, body).get(channel)
        if response is None:
            remark = f"{channel.remote_address}: no answer in {TIMEOUT_MS} ms"
            raise RequestRefusedError(remark, ResponseCode.CONSUME_MSG_TIMEOUT)
        return response

    def call_clients(
        self, channels: Iterable[Channel], code: int, fields: Mapping[str, str], body: bytes = b""
    ) -> dict[Channel, RemotingCommand]:
        """Send a request to several clients in parallel. Return the responses that arrive before the timeout.

        Refuses the operator's request if CALLS_MAX other operators wait.
        """
        calls: dict[tuple[Channel, int], _PendingCall] = {}
        for channel in channels:
            opaque = _OPAQUE_BASE | self._opaques.add(1) & _OPAQUE_MASK  # stays positive after 2^30 calls
            calls[channel, opaque] = _PendingCall(self._world.tasks.signal("answer of a client"))
        with self._lock:
            if self._operators >= CALLS_MAX:
                remark = "too many operators wait for clients: try again later"
                raise RequestRefusedError(remark, ResponseCode.SYSTEM_BUSY)
            self._operators += 1
            known = self._calls
            assert known.keys().isdisjoint(calls), "an opaque is in use"
            known |= calls  # a response may arrive during the first send
            self._calls = known
        try:
            sent = [
                (channel, call)
                for (channel, opaque), call in calls.items()
                if channel.send(RemotingCommand(code, opaque, version=BROKER_VERSION, ext_fields=fields, body=body))
            ]
            clock = self._world.clock
            end_ns = clock.monotonic_ns() + TIMEOUT_MS * _NS_PER_MS
            for _, call in sent:
                # All calls share one deadline, so several silent clients delay the operator as long as one.
                call.answered.wait(max(0, (end_ns - clock.monotonic_ns()) // _NS_PER_MS))
        finally:
            with self._lock:
                operators = self._operators - 1
                assert operators >= 0, operators
                self._operators = operators
                for key in calls:
                    del self._calls[key]
        return {channel: call.response for channel, call in sent if call.response is not None}

    def deliver_response(self, channel: Channel, response: RemotingCommand) -> bool:
        """Pass a response to its call. Return False if no call waits for the response."""
        with self._lock:
            call = self._calls.get((channel, response.opaque))
        if call is None:
            return False
        call.response = response
        call.answered.notify()
        return True


class ClientPushes:
    """Sends one-way requests to clients. Thread-safe."""

    def __init__(self, world: World, producers: ProducerManager) -> None:
        self._opaques = world.tasks.cell("opaques of pushes")
        self._producers = producers

    def notify_consumer_ids_changed(self, group: str, channels: Iterable[Channel]) -> None:
        for channel in channels:
            self.push(channel, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})

    def push_transaction_check(self, record: MessageRecord) -> None:
        """Ask a connected producer of the group, if any, for the state of a half message."""
        half = HalfMessage.from_record(record)
        request, message = half.request, message_to_deliver(record)
        channel = self._producers.pick_available_channel(request.producer_group)
        if channel is None or message is None:
            return
        unique_id = half.properties.get(PROPERTY_UNIQ_KEY, "")
        fields = {
            "tranStateTableOffset": str(request.tran_state_table_offset),
            "commitLogOffset": str(request.commit_log_offset),
            "msgId": unique_id,
            "transactionId": unique_id,
            "offsetMsgId": encode_message_id(record.store_host, record.physical_offset),
        }
        shown = replace(half.record, topic=message.topic, queue_id=message.queue_id)
        shown = replace(shown, size_bytes=record.size_bytes + _text_bytes(shown) - _text_bytes(record))
        self.push(channel, RequestCode.CHECK_TRANSACTION_STATE, fields, encode_message_record(shown))

    def push(self, channel: Channel, code: RequestCode, fields: Mapping[str, str], body: bytes = b"") -> bool:
        """Return False if the request cannot be sent."""
        opaque, version = self._opaques.add(1) & _PUSH_OPAQUE_MASK, BROKER_VERSION
        command = RemotingCommand(code, opaque, ONE_WAY_FLAG, version=version, ext_fields=fields, body=body)
        try:
            return channel.send(command)
        except ValueError:  # the command does not fit a frame; the service that calls this must continue
            return False


def _text_bytes(record: MessageRecord) -> int:
    return len(record.topic.encode()) + len(record.properties.encode(errors="surrogateescape"))
