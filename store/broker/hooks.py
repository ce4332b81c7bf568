"""Hooks for sends and consumption in programs that embed a broker. docs/broker-reference.md has an example.

Hooks run in the task of the request, the first registered one first. The broker logs an exception of a hook and
continues the request.
Source: RocketMQ 4.9 SendMessageHook, ConsumeMessageHook, AbstractSendMessageProcessor, PullMessageProcessor,
SendMessageProcessor.asyncConsumerSendMsgBack.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ..formats.remoting.command import RemotingCommand
from .operator_log import Emit, failure_line
from .requests import ExtFields, ResponseCode
from .router import Channel


@dataclass(slots=True)
class SendMessageContext:
    """Context of a send.

    A hook may replace `properties` before the store gets the message. The last four fields contain the answer.
    """

    producer_group: str
    topic: str
    queue_id: int
    """Negative until the broker has chosen a queue."""
    properties: str
    """Properties in the client's format: name, U+0001, value, U+0002."""
    body_length: int
    born_host: str
    born_timestamp_ms: int
    broker_address: str
    region_id: str
    code: ResponseCode | int = ResponseCode.SUCCESS
    error_message: str | None = None
    message_id: str = ""
    """The offset message id, or empty if the message is not stored."""
    queue_offset: int = -1

    def copy_answer(self, response: RemotingCommand) -> None:
        fields = response.ext_fields
        self.code, self.error_message = response.code, response.remark
        self.message_id = fields.get("msgId", "")
        self.queue_id = int(fields.get("queueId", self.queue_id))
        self.queue_offset = int(fields.get("queueOffset", self.queue_offset))


@dataclass(slots=True)
class ConsumeMessageContext:
    """Context of a pull's answer or of a message that a consumer sends back."""

    consumer_group: str
    topic: str
    client_host: str
    queue_id: int = -1
    """-1 for a message sent back."""
    offset: int = -1
    code: ResponseCode | int = ResponseCode.SUCCESS
    body_length: int = 0
    """Total size of the messages in the answer to a pull."""
    message_id: str = ""


_Context = TypeVar("_Context", SendMessageContext, ConsumeMessageContext)


class SendMessageHook(Protocol):
    """Observer of sends."""

    @property
    def hook_name(self) -> str:
        """Name for the log."""

    def send_message_before(self, context: SendMessageContext) -> None:
        """Called before a send is checked and stored."""

    def send_message_after(self, context: SendMessageContext) -> None:
        """Called with the answer to a send."""


class ConsumeMessageHook(Protocol):
    """Observer of pulls and of messages that consumers send back."""

    @property
    def hook_name(self) -> str:
        """Name for the log."""

    def consume_message_before(self, context: ConsumeMessageContext) -> None:
        """Called before the answer to a pull is sent."""

    def consume_message_after(self, context: ConsumeMessageContext) -> None:
        """Called after a consumer sends back a message that it could not process."""


class MessageHooks:
    """The hooks of one broker. Register hooks before the broker starts."""

    def __init__(self) -> None:
        self.emit: Emit = lambda line: None
        self.send: list[SendMessageHook] = []
        self.consume: list[ConsumeMessageHook] = []

    def register_send_message_hook(self, hook: SendMessageHook) -> None:
        self.send.append(hook)

    def register_consume_message_hook(self, hook: ConsumeMessageHook) -> None:
        self.consume.append(hook)

    def before_send(self, context: SendMessageContext) -> None:
        self._run_hooks(((hook.hook_name, hook.send_message_before) for hook in self.send), context)

    def after_send(self, context: SendMessageContext, response: RemotingCommand) -> RemotingCommand:
        context.copy_answer(response)
        self._run_hooks(((hook.hook_name, hook.send_message_after) for hook in self.send), context)
        return response

    def before_consume(self, request: RemotingCommand, channel: Channel, response: RemotingCommand) -> None:
        if not self.consume:
            return
        fields = ExtFields(request.ext_fields)
        context = ConsumeMessageContext(
            fields.text("consumerGroup"),
            fields.text("topic"),
            channel.remote_address,
            fields.int32("queueId"),
            fields.int64("queueOffset"),
            response.code,
            len(response.body),
        )
        self._run_hooks(((hook.hook_name, hook.consume_message_before) for hook in self.consume), context)

    def after_consume(self, request: RemotingCommand, channel: Channel) -> None:
        fields = ExtFields(request.ext_fields)
        message_id = fields.text("originMsgId", "")
        if not self.consume or not message_id:
            return
        group, topic = fields.text("group"), fields.text("originTopic", "")
        context = ConsumeMessageContext(group, topic, channel.remote_address, message_id=message_id)
        self._run_hooks(((hook.hook_name, hook.consume_message_after) for hook in self.consume), context)

    def _run_hooks(self, calls: Iterable[tuple[str, Callable[[_Context], None]]], context: _Context) -> None:
        for name, call in calls:
            try:
                call(context)
            except Exception as error:
                self.emit(failure_line(f"hook {name}: {type(error).__name__}: {error}"))
