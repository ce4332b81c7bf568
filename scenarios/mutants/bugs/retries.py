"""Bugs of retries: messages that consumers send back, and dead letters."""

from dataclasses import replace

from ....store.broker.processors.send import FIRST_DELAY_LEVEL, SendMessageProcessor
from ....store.broker.requests import RequestRefusedError, success_response
from ....store.broker.router import Channel, LateResponse
from ....store.broker.sending import NO_LIMIT, SendRequest
from ....store.broker.topics import TopicConfig
from ....store.formats.host import encode_message_id
from ....store.formats.message import MessageRecord
from ....store.formats.messages import Message
from ....store.formats.properties import decode_properties, rebuild_properties
from ....store.formats.remoting.command import RemotingCommand
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

_FAILING = SCENARIOS["consumer-dead-letters"].ranges.replace(heals=(True,), retry={"fail_chance": (1.0,)})
_SENDING = _FAILING.replace(retry={"own_send_chance": (1.0,), "retry_queues": (1, 2)})
_SendBack = RemotingCommand | LateResponse


def _with_fields(request: RemotingCommand, **fields: str) -> RemotingCommand:
    return replace(request, ext_fields={**request.ext_fields, **fields})


@bug("one-retry-too-many", SendMessageProcessor, "send_back", found_by=("REDEL",))
@needs(_FAILING, retry={"old_clients": (False,)})
def send_back_once_more(self: SendMessageProcessor, request: RemotingCommand, channel: Channel) -> _SendBack:
    """A message gets one retry more than its consumer allows before it is a dead letter."""
    bit("maxReconsumeTimes" in request.ext_fields)
    most = int(request.ext_fields.get("maxReconsumeTimes", "16")) + 1
    return send_back_once_more.original(self, _with_fields(request, maxReconsumeTimes=str(most)), channel)


@bug("client-maximum-ignored", SendMessageProcessor, "send_back", found_by=("REDEL",))
@needs(_FAILING, retry={"old_clients": (False,)})
def send_back_by_group(self: SendMessageProcessor, request: RemotingCommand, channel: Channel) -> _SendBack:
    """The group's maximum of retries applies although the consumer sends its own."""
    bit(request.version > 0)
    return send_back_by_group.original(self, replace(request, version=0), channel)


@bug("origin-is-last-retry", SendMessageProcessor, "_retry_message", found_by=("SCHED",))
@needs(_FAILING, retry={"retries_max": (2,)})
def retry_message_with_own_id(
    self: SendMessageProcessor, record: MessageRecord, topic: TopicConfig, level: int
) -> Message:
    """A retry of a retry names the last retry as its origin, so an operator cannot find the first message."""
    message = retry_message_with_own_id.original(self, record, topic, level)
    bit(record.topic.startswith("%RETRY%"))
    own_id = encode_message_id(record.store_host, record.physical_offset)
    properties = {**decode_properties(message.properties), "ORIGIN_MESSAGE_ID": own_id}
    return replace(message, properties=rebuild_properties(properties))


@bug("retry-level-ignored", SendMessageProcessor, "send_back", found_by=("SCHED",))
@needs(_FAILING, retry={"retries_max": (2,)})
def send_back_at_first_level(self: SendMessageProcessor, request: RemotingCommand, channel: Channel) -> _SendBack:
    """A broker chooses the delay of each retry although the consumer asks for a level."""
    level = int(request.ext_fields["delayLevel"])
    bit(level > 0)
    return send_back_at_first_level.original(self, _with_fields(request, delayLevel=str(min(level, 0))), channel)


@bug("second-retry-lost", SendMessageProcessor, "send_back", found_by=("SCHED",))
@needs(_FAILING, retry={"retries_max": (2,), "retry_queues": (1, 2)})
def send_back_once(self: SendMessageProcessor, request: RemotingCommand, channel: Channel) -> _SendBack:
    """A broker answers SUCCESS for a message that comes from the retry topic, and stores no record."""
    record = self._parts.store.look_message_by_offset(int(request.ext_fields["offset"]))
    if bit(record is not None and record.topic.startswith("%RETRY%")):
        return success_response(request)
    return send_back_once.original(self, request, channel)


@bug("retry-stored-twice", SendMessageProcessor, "send_back", found_by=("REDEL",))
@needs(_FAILING)
def send_back_twice(self: SendMessageProcessor, request: RemotingCommand, channel: Channel) -> _SendBack:
    """A broker stores a message again that is already on its way to the retry topic."""
    bit()
    send_back_twice.original(self, request, channel)
    return send_back_twice.original(self, request, channel)


@bug("group-without-retries-refuses", SendMessageProcessor, "send_back", found_by=("LIVE",))
@needs(_FAILING, retry={"retry_queues": (0,)})
def send_back_needs_queue(self: SendMessageProcessor, request: RemotingCommand, channel: Channel) -> _SendBack:
    """A group whose retryQueueNums is 0 cannot send a message back, so its consumer never gets past the message."""
    group = self._parts.require_group(request.ext_fields["group"])
    if bit(group.retry_queue_nums <= 0):
        raise RequestRefusedError("the group has no retry queue")
    return send_back_needs_queue.original(self, request, channel)


@bug("retry-at-maximum", SendMessageProcessor, "_retry_or_dead_letter", found_by=("REDEL",))
@needs(_SENDING)
def retry_at_maximum(
    self: SendMessageProcessor, request: RemotingCommand, send: SendRequest, message: Message
) -> Message:
    """A message that a consumer sends to the retry topic with the maximum number of retries is retried once more.

    An orderly consumer sends it with this number each time, so the message never becomes a dead letter. Source:
    apache/rocketmq issue 6163.
    """
    if bit(send.max_reconsume_times != NO_LIMIT and message.reconsume_times == send.max_reconsume_times):
        return message
    return retry_at_maximum.original(self, request, send, message)


# apache/rocketmq issue 2724.
@bug("dead-letter-delayed", SendMessageProcessor, "_retry_message", found_by=("SCHED",))
@needs(_FAILING)
def retry_message_with_delay(
    self: SendMessageProcessor, record: MessageRecord, topic: TopicConfig, level: int
) -> Message:
    """A dead letter has the delay of a further retry, so it appears hours after the consumer has given it up."""
    bit(level == 0)
    return retry_message_with_delay.original(self, record, topic, level or FIRST_DELAY_LEVEL + record.reconsume_times)
