"""Bugs of retries: messages that consumers send back, and dead letters."""

from dataclasses import replace

from ....store.broker.processors import send
from ....store.broker.processors.send import FIRST_DELAY_LEVEL, SendMessageProcessor
from ....store.broker.requests import RequestRefusedError, success_response
from ....store.broker.router import Channel, LateResponse
from ....store.broker.sending import MAX_RECONSUME_TIMES_VERSION, NO_LIMIT, SendRequest
from ....store.broker.topics import TopicConfig
from ....store.formats.host import encode_message_id
from ....store.formats.message import MessageRecord
from ....store.formats.messages import Message
from ....store.formats.properties import (
    PROPERTY_DELAY,
    PROPERTY_INNER_MULTI_DISPATCH,
    decode_properties,
    rebuild_properties,
)
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
    """With retryQueueNums 0, a group cannot send a message back, so its consumer never gets past the message."""
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


@bug("retry-loses-tags", SendMessageProcessor, "_retry_message", found_by=("PREFIX",))
@needs(_FAILING)
def retry_message_without_tags(
    self: SendMessageProcessor, record: MessageRecord, topic: TopicConfig, level: int
) -> Message:
    """A message that a consumer sends back loses its tags."""
    message = retry_message_without_tags.original(self, record, topic, level)
    properties = decode_properties(message.properties)
    bit(properties.pop("TAGS", None) is not None)
    return replace(message, properties=rebuild_properties(properties))


@bug("hopeless-message-retried", SendMessageProcessor, "send_back", found_by=("SCHED", "REDEL"))
@needs(_FAILING)
def send_back_hopeless(self: SendMessageProcessor, request: RemotingCommand, channel: Channel) -> _SendBack:
    """A consumer that gives a message up with a negative delay level gets the message again."""
    if bit(int(request.ext_fields["delayLevel"]) < 0):
        request = _with_fields(request, delayLevel="0")
    return send_back_hopeless.original(self, request, channel)


@bug("dead-letter-keeps-queue", SendMessageProcessor, "_retry_or_dead_letter", found_by=("SCHED",))
@needs(_SENDING, retry={"retry_queues": (2, 3)})
def dead_letter_in_queue_of_retry(
    self: SendMessageProcessor, request: RemotingCommand, send: SendRequest, message: Message
) -> Message:
    """A dead letter keeps the queue id of its retry, a queue that the dead letter topic does not have."""
    made = dead_letter_in_queue_of_retry.original(self, request, send, message)
    bit(made.topic.startswith("%DLQ%") and message.queue_id > 0)
    return replace(made, queue_id=message.queue_id)


@bug("missing-message-sent-back", SendMessageProcessor, "send_back", found_by=("STATUS",))
@needs(SCENARIOS["operator-changes"].ranges)
def send_back_missing(self: SendMessageProcessor, request: RemotingCommand, channel: Channel) -> _SendBack:
    """A broker answers SUCCESS for a message that it does not have, so the consumer goes on and the retry is lost."""
    if bit(self._parts.store.look_message_by_offset(int(request.ext_fields["offset"])) is None):
        return success_response(request)
    return send_back_missing.original(self, request, channel)


@bug("retry-keeps-queue", SendMessageProcessor, "_retry_message", found_by=("SCHED",))
@needs(SCENARIOS["consumer-retry"].ranges, queues_per_topic=(2,), heals=(True,))
def retry_message_in_own_queue(
    self: SendMessageProcessor, record: MessageRecord, topic: TopicConfig, level: int
) -> Message:
    """A retry keeps the queue id of its message, a queue that the retry topic may not have."""
    bit(record.queue_id >= topic.write_queue_nums)
    return replace(retry_message_in_own_queue.original(self, record, topic, level), queue_id=record.queue_id)


@bug("retry-loses-compression", SendMessageProcessor, "_retry_message", found_by=("PREFIX",))
@needs(_FAILING)
def retry_message_uncompressed(
    self: SendMessageProcessor, record: MessageRecord, topic: TopicConfig, level: int
) -> Message:
    """The retry of a message with a compressed body is not marked as compressed."""
    message = retry_message_uncompressed.original(self, record, topic, level)
    bit(message.sys_flag & 1 > 0)
    return replace(message, sys_flag=message.sys_flag & ~1)


@bug("unnamed-maximum-is-sixteen", SendMessageProcessor, "send_back", found_by=("REDEL", "SCHED"))
@needs(_FAILING, retry={"old_clients": (False,)})
def send_back_with_default(self: SendMessageProcessor, request: RemotingCommand, channel: Channel) -> _SendBack:
    """A consumer that names no maximum of retries gets 16 of them, whatever its group says."""
    if bit(request.version >= MAX_RECONSUME_TIMES_VERSION and "maxReconsumeTimes" not in request.ext_fields):
        request = _with_fields(request, maxReconsumeTimes="16")
    return send_back_with_default.original(self, request, channel)


@bug("dead-letter-uncounted", SendMessageProcessor, "_retry_or_dead_letter", found_by=("PREFIX", "REDEL"))
@needs(_SENDING)
def dead_letter_without_count(
    self: SendMessageProcessor, request: RemotingCommand, send: SendRequest, message: Message
) -> Message:
    """A dead letter that a consumer sends itself has reconsumeTimes 0."""
    made = dead_letter_without_count.original(self, request, send, message)
    if bit(made.topic.startswith("%DLQ%") and made.reconsume_times > 0):
        made = replace(made, reconsume_times=0)
    return made


@bug("missing-maximum-leaves-no-retry", SendMessageProcessor, "_retry_or_dead_letter", found_by=("REDEL",))
@needs(_SENDING, retry={"old_clients": (False,)})
def dead_letter_without_maximum(
    self: SendMessageProcessor, request: RemotingCommand, send: SendRequest, message: Message
) -> Message:
    """A message that a consumer sends to its retry topic without a maximum of retries is dead at once."""
    if bit(request.version >= MAX_RECONSUME_TIMES_VERSION and send.max_reconsume_times == NO_LIMIT):
        send = send._replace(max_reconsume_times=0)
    return dead_letter_without_maximum.original(self, request, send, message)


@bug("retry-leaves-light-queues", SendMessageProcessor, "_retry_message", found_by=("DUR", "REDEL", "PREFIX"))
@needs(SCENARIOS["consumer-retry"].ranges, light_queues={"chance": (0.9,)})
def retry_without_light_queues(
    self: SendMessageProcessor, record: MessageRecord, topic: TopicConfig, level: int
) -> Message:
    """A message that a consumer sends back is in none of its light queues again."""
    made = retry_without_light_queues.original(self, record, topic, level)
    properties = decode_properties(made.properties)
    if not bit(properties.pop(PROPERTY_INNER_MULTI_DISPATCH, None) is not None):
        return made
    return replace(made, properties=rebuild_properties(properties))


# RocketMQ: asyncConsumerSendMsgBack, and apache/rocketmq issue 4816.
@bug("retry-keeps-delay", SendMessageProcessor, "_retry_message", found_by=("SCHED",))
@needs(SCENARIOS["consumer-retry"].ranges, delay={"chance": (0.5,)})
def retry_at_same_level(self: SendMessageProcessor, record: MessageRecord, topic: TopicConfig, level: int) -> Message:
    """A message that was delayed before waits at the same delay level for each retry."""
    message = retry_at_same_level.original(self, record, topic, level)
    known = decode_properties(record.properties.encode(errors="surrogateescape").decode(errors="replace"))
    if bit(level > 0 and known.get(PROPERTY_DELAY, str(level)) != str(level)):
        kept = decode_properties(message.properties) | {PROPERTY_DELAY: known[PROPERTY_DELAY]}
        message.properties = rebuild_properties(kept)
    return message


# apache/rocketmq: SendMessageProcessor treats a retry with TRAN_MSG as a plain message, as old clients need it.
@bug("retry-is-half-message", send, "delay_level", found_by=("LIVE", "DUR", "SCHED", "PREFIX", "TX", "REDEL"))
@needs(_SENDING, transactions={"chance": (1.0,)}, retry={"old_clients": (True,), "retries_max": (2,)})
def no_level_of_retry(properties: bytes) -> int:
    """A consumer's own send of a message that was a transaction waits for a decision that no producer makes."""
    bit(no_level_of_retry.original(properties) > 0)
    return 0


@bug("level-zero-ends-transaction", send, "delay_level", found_by=("STATUS", "QOFF", "TX", "VIS", "PREFIX", "DUR"))
@needs(SCENARIOS["transaction-network-faults"].ranges, transactions={"chance": (1.0,)})
def level_by_name(properties: bytes) -> int:
    """A transactional message that was retried and has a level without a delay is delivered without a decision."""
    level = level_by_name.original(properties)
    return level or bit(b"DELAY\1" in properties)


# RocketMQ: AbstractSendMessageProcessor.DLQ_NUMS_PER_GROUP.
@bug("dead-letter-in-any-queue", SendMessageProcessor, "_retry_message", found_by=("SCHED",))
@needs(_FAILING, broker={"operators": (1,), "rest_ms_max": (8_000,)}, retry={"retries_max": (0, 1)})
def dead_letter_in_any_queue(
    self: SendMessageProcessor, record: MessageRecord, topic: TopicConfig, level: int
) -> Message:
    """Dead letters go to all queues that an operator has given their topic."""
    message = dead_letter_in_any_queue.original(self, record, topic, level)
    if level or not bit(topic.write_queue_nums > 1):
        return message
    return replace(message, queue_id=self._parts.next_round_robin_queue_id(topic.write_queue_nums))
