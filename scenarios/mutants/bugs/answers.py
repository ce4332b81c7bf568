"""Bugs of single fields: what a broker keeps of a client's message, and what it answers to sends and pulls."""

from dataclasses import replace

from ....store.broker.processors import pull
from ....store.broker.processors.pull import PullMessageProcessor
from ....store.broker.processors.send import SendMessageProcessor
from ....store.broker.requests import ResponseCode
from ....store.broker.router import Channel
from ....store.broker.sending import SendChecks, SendRequest
from ....store.broker.topics import TopicConfig
from ....store.formats.half_message import HalfMessage, committed
from ....store.formats.host import Host, encode_message_id
from ....store.formats.message import MessageRecord
from ....store.formats.messages import GetMessageResult, Message, PutMessageResult
from ....store.formats.remoting.command import RemotingCommand
from ....store.services import transaction_service
from ...claims.catalogue.brokers import BROKER
from ..mutant import Mutant, Patch, bit

_LIVELY = BROKER.replace(heals=(True,), consumers=(1, 2), messages_each=(8,))
_SENT_BACK = _LIVELY.replace(broker={"send_back_chance": (1.0,), "rest_ms_max": (8_000,)})

_original_message = SendChecks.message
_original_again = SendMessageProcessor._again
_original_send_answer = SendMessageProcessor._answer
_original_put_one = SendMessageProcessor._put_one
_original_pull = PullMessageProcessor._pull
_original_pull_answer = pull._answer


# -- what is kept of a send ------------------------------------------------------------------------


# send-loses-flag: the flag belongs to the client. A broker that builds the message from named fields forgets it.
def _message_without_flag(
    self: SendChecks, send: SendRequest, topic: TopicConfig, body: bytes, channel: Channel
) -> Message:
    bit(send.flag != 0)
    return _original_message(self, send._replace(flag=0), topic, body, channel)


SEND_LOSES_FLAG = Mutant(
    "send-loses-flag",
    "a broker stores a message without the flag that its client gave it",
    (Patch(SendChecks, "message", _message_without_flag),),
    ("PREFIX", "DUR", "READ"),
    _LIVELY,
)


# send-loses-reconsume-times: a client that sends to a retry topic itself says how often the message has come back.
def _message_sent_first(
    self: SendChecks, send: SendRequest, topic: TopicConfig, body: bytes, channel: Channel
) -> Message:
    bit(send.reconsume_times != 0)
    return _original_message(self, send._replace(reconsume_times=0), topic, body, channel)


SEND_LOSES_RECONSUME_TIMES = Mutant(
    "send-loses-reconsume-times",
    "a broker stores a message as one that was never sent back",
    (Patch(SendChecks, "message", _message_sent_first),),
    ("PREFIX", "DUR", "READ"),
    _LIVELY,
)


# send-born-on-arrival: bornTimestamp is when the client made the message, and what it is asked about by its age.
def _message_born_now(
    self: SendChecks, send: SendRequest, topic: TopicConfig, body: bytes, channel: Channel
) -> Message:
    now_ms = self._parts.world.clock.now_ms()
    bit(send.born_timestamp_ms != now_ms)
    return _original_message(self, send._replace(born_timestamp_ms=now_ms), topic, body, channel)


SEND_BORN_ON_ARRIVAL = Mutant(
    "send-born-on-arrival",
    "a broker stores the time at which a message arrived as the time at which it was made",
    (Patch(SendChecks, "message", _message_born_now),),
    ("PREFIX", "DUR", "READ"),
    _LIVELY,
)


# send-loses-own-property: properties that no broker knows are the client's, and SQL filters read them.
def _put_known_properties(
    self: SendMessageProcessor, message: Message, properties: dict[str, str], late: object
) -> object:
    known = {name: value for name, value in properties.items() if name.isupper() or "_" in name}
    bit(len(known) < len(properties))
    return _original_put_one(self, message, known, late)  # type: ignore[arg-type]


SEND_LOSES_OWN_PROPERTY = Mutant(
    "send-loses-own-property",
    "a broker stores a message without the properties that it does not know itself",
    (Patch(SendMessageProcessor, "_put_one", _put_known_properties),),
    ("PREFIX", "DUR", "VIS", "READ", "LIVE"),
    _LIVELY.replace(consuming={"filtered": (True,)}),
)


# commit-loses-port: the message that a commit makes visible has its client's address without the port.
def _committed_without_port(half: HalfMessage) -> Message | None:
    message = committed(half)
    if message is not None:
        bit()
        message = replace(message, born_host=Host(message.born_host.address, 0))
    return message


COMMIT_LOSES_PORT = Mutant(
    "commit-loses-port",
    "a committed message has another bornHost than its half message",
    (Patch(transaction_service, "committed", _committed_without_port),),
    ("PREFIX", "READ"),
    _LIVELY.replace(transactions={"chance": (1.0,)}),
)


# -- what is kept of what is sent back -------------------------------------------------------------


# sent-back-uncounted: a message that is sent back counts no further, and comes back for ever.
def _again_uncounted(self: SendMessageProcessor, record: MessageRecord, topic: TopicConfig, level: int) -> Message:
    bit()
    return replace(_original_again(self, record, topic, level), reconsume_times=record.reconsume_times)


SENT_BACK_UNCOUNTED = Mutant(
    "sent-back-uncounted",
    "a message that is sent back does not count how often it was",
    (Patch(SendMessageProcessor, "_again", _again_uncounted),),
    ("PREFIX",),
    _SENT_BACK,
)


# sent-back-born-anew: a message that is sent back is made anew, with the time of that.
def _again_born_now(self: SendMessageProcessor, record: MessageRecord, topic: TopicConfig, level: int) -> Message:
    now_ms = self._parts.world.clock.now_ms()
    bit(record.born_timestamp_ms != now_ms)
    return replace(_original_again(self, record, topic, level), born_timestamp_ms=now_ms)


SENT_BACK_BORN_ANEW = Mutant(
    "sent-back-born-anew",
    "a message that is sent back has the time of that as the time at which it was made",
    (Patch(SendMessageProcessor, "_again", _again_born_now),),
    ("PREFIX",),
    _SENT_BACK,
)


# -- what is answered to a send --------------------------------------------------------------------


# send-answers-next-offset: queueOffset in the answer is where the queue ends now, and not where the message is.
def _answer_with_end(
    self: SendMessageProcessor, request: RemotingCommand, queue_id: int, result: PutMessageResult
) -> RemotingCommand:
    response = _original_send_answer(self, request, queue_id, result)
    if not bit(result.append is not None):
        return response
    following = str(int(response.ext_fields["queueOffset"]) + 1)
    return replace(response, ext_fields={**response.ext_fields, "queueOffset": following})


SEND_ANSWERS_NEXT_OFFSET = Mutant(
    "send-answers-next-offset",
    "a send is answered with the queue offset after that of its message",
    (Patch(SendMessageProcessor, "_answer", _answer_with_end),),
    ("QOFF", "PREFIX", "READ"),
    _LIVELY,
)


# send-answers-record-end: msgId leads to where the record ends, so that a look-up by it finds another message.
def _answer_with_record_end(
    self: SendMessageProcessor, request: RemotingCommand, queue_id: int, result: PutMessageResult
) -> RemotingCommand:
    response, append = _original_send_answer(self, request, queue_id, result), result.append
    if append is None:
        return response
    bit()
    message_id = encode_message_id(self._parts.config.store_host, append.wrote_offset + append.wrote_bytes)
    return replace(response, ext_fields={**response.ext_fields, "msgId": message_id})


SEND_ANSWERS_RECORD_END = Mutant(
    "send-answers-record-end",
    "a send is answered with a message id that leads behind its message",
    (Patch(SendMessageProcessor, "_answer", _answer_with_record_end),),
    ("QOFF", "PREFIX", "STATUS", "DUR", "READ"),
    _LIVELY,
)


# -- what is answered to a pull --------------------------------------------------------------------


# pull-names-the-answering: storeHost of what is pulled is who answers. A slave is then taken for who stored it, and a
# message id made of it leads to the slave.
def _pull_naming_itself(
    self: PullMessageProcessor, request: RemotingCommand, channel: Channel, *, may_hold: bool
) -> RemotingCommand | None:
    response = _original_pull(self, request, channel, may_hold=may_hold)
    if response is None or not response.body:
        return response
    own = self._parts.config.store_host
    host = own.address + own.port.to_bytes(4, "big")
    return replace(response, body=_rewritten(response.body, _STORE_HOST_AT, host))


PULL_NAMES_THE_ANSWERING = Mutant(
    "pull-names-the-answering",
    "a message is given to consumers with the host that answers as its storeHost",
    (Patch(PullMessageProcessor, "_pull", _pull_naming_itself),),
    ("READ",),
    _LIVELY.replace(
        sync_flush=(True,),
        memory={"transient_pool": (False,)},
        cluster={"slaves": (1,)},
        broker={"slaves_are_read": (True,)},
    ),
)


# pull-gives-no-reconsume-times: reconsumeTimes is taken for a counter of the broker and not given to consumers.
def _answer_without_times(
    request: RemotingCommand, code: ResponseCode, broker_id: int, result: GetMessageResult
) -> RemotingCommand:
    response = _original_pull_answer(request, code, broker_id, result)
    return replace(response, body=_rewritten(response.body, _RECONSUME_TIMES_AT, bytes(4)))


PULL_GIVES_NO_RECONSUME_TIMES = Mutant(
    "pull-gives-no-reconsume-times",
    "a message is given to consumers as one that was never sent back",
    (Patch(pull, "_answer", _answer_without_times),),
    ("READ",),
    _LIVELY,
)


# pull-begins-where-it-goes-on: minOffset is where the consumer goes on, so that a client that trusts it skips.
def _answer_beginning_late(
    request: RemotingCommand, code: ResponseCode, broker_id: int, result: GetMessageResult
) -> RemotingCommand:
    response = _original_pull_answer(request, code, broker_id, result)
    bit(result.min_offset != result.next_begin_offset)
    return replace(response, ext_fields={**response.ext_fields, "minOffset": str(result.next_begin_offset)})


PULL_BEGINS_WHERE_IT_GOES_ON = Mutant(
    "pull-begins-where-it-goes-on",
    "a pull is answered with the offset at which to go on as that of the queue's first message",
    (Patch(pull, "_answer", _answer_beginning_late),),
    ("READ",),
    _LIVELY,
)

_STORE_HOST_AT, _RECONSUME_TIMES_AT = 64, 72
"""Positions in a record whose hosts are IPv4, as those of simulated clients are."""


def _rewritten(records: bytes, at: int, field: bytes) -> bytes:
    """Return a run of records with one field of each replaced."""
    changed, begin = bytearray(records), 0
    while begin < len(changed):
        place = slice(begin + at, begin + at + len(field))
        bit(changed[place] != field)
        changed[place] = field
        begin += int.from_bytes(changed[begin : begin + 4], "big")
    return bytes(changed)
