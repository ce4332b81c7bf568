"""Bugs of single fields in stored messages and in replies to sends and pulls."""

from dataclasses import replace

from ....store.broker.processors import pull
from ....store.broker.processors.pull import PullMessageProcessor
from ....store.broker.processors.send import SendMessageProcessor
from ....store.broker.requests import ResponseCode
from ....store.broker.router import Channel
from ....store.broker.sending import SendChecks, SendRequest
from ....store.broker.topics import TopicConfig
from ....store.formats.half_message import HalfMessage, committed_message_of
from ....store.formats.host import Host, encode_message_id
from ....store.formats.message import MessageRecord
from ....store.formats.messages import GetMessageResult, Message, PutMessageResult
from ....store.formats.remoting.command import RemotingCommand
from ....store.services import transaction_service
from ...claims.catalogue.brokers import BROKER
from ..mutant import bit, bug, needs

_LIVELY = BROKER.replace(heals=(True,), consumers=(1, 2), messages_each=(8,))
_SENT_BACK = _LIVELY.replace(broker={"send_back_chance": (1.0,), "rest_ms_max": (8_000,)})


@bug("send-loses-flag", SendChecks, "build_message", found_by=("PREFIX", "DUR", "READ"))
@needs(_LIVELY)
def store_message_without_flag(
    self: SendChecks, send: SendRequest, topic: TopicConfig, body: bytes, channel: Channel
) -> Message:
    """A broker stores a message without the flag from its client."""
    bit(send.flag != 0)
    return store_message_without_flag.original(self, send._replace(flag=0), topic, body, channel)


# A client that sends to a retry topic sets reconsumeTimes in its request.
@bug("send-loses-reconsume-times", SendChecks, "build_message", found_by=("PREFIX", "DUR", "READ"))
@needs(_LIVELY)
def store_with_zero_reconsume_times(
    self: SendChecks, send: SendRequest, topic: TopicConfig, body: bytes, channel: Channel
) -> Message:
    """A broker stores reconsumeTimes 0 for a message that was sent back."""
    bit(send.reconsume_times != 0)
    return store_with_zero_reconsume_times.original(self, send._replace(reconsume_times=0), topic, body, channel)


# The transaction check derives the age of a half message from bornTimestamp.
@bug("send-born-time-is-arrival", SendChecks, "build_message", found_by=("PREFIX", "DUR", "READ"))
@needs(_LIVELY)
def store_with_arrival_as_born_time(
    self: SendChecks, send: SendRequest, topic: TopicConfig, body: bytes, channel: Channel
) -> Message:
    """A broker stores the arrival time of a message as its born time."""
    now_ms = self._parts.world.clock.now_ms()
    bit(send.born_timestamp_ms != now_ms)
    return store_with_arrival_as_born_time.original(self, send._replace(born_timestamp_ms=now_ms), topic, body, channel)


# SQL filters read the user's properties.
@bug("send-loses-own-property", SendMessageProcessor, "_put_single", found_by=("PREFIX", "DUR", "VIS", "READ", "LIVE"))
@needs(_LIVELY, consuming={"filtered": (True,)})
def put_without_user_properties(
    self: SendMessageProcessor, message: Message, properties: dict[str, str], late: object
) -> object:
    """A broker stores a message without the user's properties."""
    known = {name: value for name, value in properties.items() if name.isupper() or "_" in name}
    bit(len(known) < len(properties))
    return put_without_user_properties.original(self, message, known, late)


@bug("commit-loses-port", transaction_service, "committed_message_of", found_by=("PREFIX", "READ"))
@needs(_LIVELY, transactions={"chance": (1.0,)})
def committed_without_port(half: HalfMessage) -> Message | None:
    """A committed message has the bornHost of its half message without the port."""
    message = committed_message_of(half)
    if message is not None:
        bit()
        message = replace(message, born_host=Host(message.born_host.address, 0))
    return message


# Without an increasing reconsumeTimes, the broker redelivers the message forever.
@bug("sent-back-uncounted", SendMessageProcessor, "_retry_message", found_by=("PREFIX",))
@needs(_SENT_BACK)
def send_back_without_reconsume_count(
    self: SendMessageProcessor, record: MessageRecord, topic: TopicConfig, level: int
) -> Message:
    """A message that a consumer sends back keeps its reconsumeTimes."""
    bit()
    return replace(
        send_back_without_reconsume_count.original(self, record, topic, level), reconsume_times=record.reconsume_times
    )


@bug("sent-back-born-time-changed", SendMessageProcessor, "_retry_message", found_by=("PREFIX",))
@needs(_SENT_BACK)
def send_back_with_new_born_time(
    self: SendMessageProcessor, record: MessageRecord, topic: TopicConfig, level: int
) -> Message:
    """A message that a consumer sends back gets a new born time."""
    now_ms = self._parts.world.clock.now_ms()
    bit(record.born_timestamp_ms != now_ms)
    return replace(send_back_with_new_born_time.original(self, record, topic, level), born_timestamp_ms=now_ms)


@bug("sent-back-at-first-level", SendMessageProcessor, "_retry_message", found_by=("SCHED",))
@needs(_SENT_BACK)
def send_back_with_first_level(
    self: SendMessageProcessor, record: MessageRecord, topic: TopicConfig, level: int
) -> Message:
    """A message that a consumer sends back has the shortest delay, whatever level the consumer asked for."""
    bit(level > 1)
    return send_back_with_first_level.original(self, record, topic, min(level, 1))


@bug("send-answers-next-offset", SendMessageProcessor, "_make_send_response", found_by=("QOFF", "PREFIX", "READ"))
@needs(_LIVELY)
def answer_with_end(
    self: SendMessageProcessor, request: RemotingCommand, queue_id: int, result: PutMessageResult
) -> RemotingCommand:
    """The reply to a send has the queue offset of the next message."""
    response = answer_with_end.original(self, request, queue_id, result)
    if not bit(result.append is not None):
        return response
    following = str(int(response.ext_fields["queueOffset"]) + 1)
    return replace(response, ext_fields={**response.ext_fields, "queueOffset": following})


@bug(
    "send-answers-record-end",
    SendMessageProcessor,
    "_make_send_response",
    found_by=("QOFF", "PREFIX", "STATUS", "DUR", "READ"),
)
@needs(_LIVELY)
def answer_with_record_end(
    self: SendMessageProcessor, request: RemotingCommand, queue_id: int, result: PutMessageResult
) -> RemotingCommand:
    """The reply to a send has a message id with the log offset of the next record."""
    response, append = answer_with_record_end.original(self, request, queue_id, result), result.append
    if append is None:
        return response
    bit()
    message_id = encode_message_id(self._parts.config.store_host, append.wrote_offset + append.wrote_bytes)
    return replace(response, ext_fields={**response.ext_fields, "msgId": message_id})


# Clients make message ids from storeHost. With the slave's host, a look-up by id goes to the slave.
@bug("pull-names-the-answering", PullMessageProcessor, "_pull", found_by=("READ",))
@needs(
    _LIVELY,
    sync_flush=(True,),
    memory={"transient_pool": (False,)},
    cluster={"slaves": (1,)},
    broker={"slaves_are_read": (True,)},
)
def pull_with_own_store_host(
    self: PullMessageProcessor, request: RemotingCommand, channel: Channel, *, may_hold: bool
) -> RemotingCommand | None:
    """A pulled message has the host of the answering broker as its storeHost."""
    response = pull_with_own_store_host.original(self, request, channel, may_hold=may_hold)
    if response is None or not response.body:
        return response
    own = self._parts.config.store_host
    host = own.address + own.port.to_bytes(4, "big")
    return replace(response, body=_rewritten(response.body, _STORE_HOST_AT, host))


@bug("pull-gives-no-reconsume-times", pull, "_make_pull_response", found_by=("READ",))
@needs(_LIVELY)
def answer_without_times(
    request: RemotingCommand, code: ResponseCode, broker_id: int, result: GetMessageResult
) -> RemotingCommand:
    """A pulled message has reconsumeTimes 0 although a consumer has sent it back."""
    response = answer_without_times.original(request, code, broker_id, result)
    return replace(response, body=_rewritten(response.body, _RECONSUME_TIMES_AT, bytes(4)))


# A client that trusts minOffset skips messages.
@bug("pull-begins-where-it-goes-on", pull, "_make_pull_response", found_by=("READ",))
@needs(_LIVELY)
def answer_with_late_min_offset(
    request: RemotingCommand, code: ResponseCode, broker_id: int, result: GetMessageResult
) -> RemotingCommand:
    """The reply to a pull has the next offset as the queue's minimum offset."""
    response = answer_with_late_min_offset.original(request, code, broker_id, result)
    bit(result.min_offset != result.next_begin_offset)
    return replace(response, ext_fields={**response.ext_fields, "minOffset": str(result.next_begin_offset)})


_STORE_HOST_AT, _RECONSUME_TIMES_AT = 64, 72
"""Field offsets in a record with IPv4 hosts, as all simulated clients have."""


def _rewritten(records: bytes, at: int, field: bytes) -> bytes:
    changed, begin = bytearray(records), 0
    while begin < len(changed):
        place = slice(begin + at, begin + at + len(field))
        bit(changed[place] != field)
        changed[place] = field
        begin += int.from_bytes(changed[begin : begin + 4], "big")
    return bytes(changed)
