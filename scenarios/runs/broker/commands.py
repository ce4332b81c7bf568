"""Commands: the requests of simulated clients, as RocketMQ's clients send them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ....sim.choices import Stream
from ....store.broker.requests import RequestCode
from ....store.broker.topic_names import AUTO_CREATE_TOPIC
from ....store.formats.message import TRANSACTION_PREPARED
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import MessageQueue, encode_json_body
from ...oracle.group_delivery import Queue
from ...oracle.put_entry import PutEntry
from ...oracle.reader import ReadRecord, properties_of, read
from ...oracle.returned import RetrySend, SendBackRequest
from ...oracle.transactions import GROUP
from ...workload.drawing import Draft
from .message_options import Subscription

PRODUCER_GROUP = GROUP
CONSUMER_GROUP = "consumers"
HEARTBEAT_MS = 3_000
"""RocketMQ's clients use 30 s. RocketMQ's brokers drop a client after 120 s without a heartbeat."""
COMMIT_FLAG, _SUSPEND, _SUBSCRIPTION = 1, 2, 4
_LEFT_OUT_CHANCE, _MAXIMUM_CHANCE = 0.2, 0.1
_CODES = (*(RequestCode.SEND_MESSAGE_V2,) * 4, RequestCode.SEND_MESSAGE)
_CODES_OF_BATCHES = (*(RequestCode.SEND_BATCH_MESSAGE,) * 2, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_MESSAGE)
_EXPRESSION_FIELDS = ("subscription", "expressionType")
_WORD_FIELDS = (
    *("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp"),
    *("flag", "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes", "batch"),
)
_WORDS = dict(zip("abcdefghijklm", _WORD_FIELDS, strict=True))
"""Source: RocketMQ SendMessageRequestHeader, SendMessageRequestHeaderV2."""


def make_request(code: RequestCode, body: bytes = b"", /, **fields: object) -> RemotingCommand:
    """Return a request. A field is sent as its text, a boolean as `true` or `false`."""
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
    return RemotingCommand(code, 0, ext_fields=texts, body=body)


def send_command(
    draft: Draft, puts: Sequence[PutEntry], queues: int, queue_id: int | None = None, *, names_wait: bool = True
) -> RemotingCommand:
    """Return the request for a send.

    queues: the number of queues if the broker creates the topic. queue_id: -1 lets the broker choose. names_wait:
    whether the request has the property WAIT; without it a send waits.
    """
    content, names = draft.content, [put.name for put in puts]
    properties = f"WAIT\1{'true' if draft.wait else 'false'}\2" if names_wait else ""
    if draft.in_batch:
        body = draft.batch_body(names)
    else:
        body = puts[0].body
        properties += f"{sent_properties(draft, names[0])}\2"
    code = RequestCode.SEND_BATCH_MESSAGE if draft.in_batch else RequestCode.SEND_MESSAGE_V2
    fields = {"a": PRODUCER_GROUP, "b": draft.topic, "c": AUTO_CREATE_TOPIC, "d": queues}
    fields["e"] = puts[0].queue_id if queue_id is None else queue_id
    sys_flag = content.sys_flag if draft.behaviour is None else content.sys_flag | TRANSACTION_PREPARED
    fields |= {"f": sys_flag, "g": content.born_timestamp_ms, "h": content.flag, "i": properties}
    return make_request(code, body, **fields, j=content.reconsume_times, k=False, m=draft.in_batch)


def with_words(send: RemotingCommand) -> RemotingCommand:
    """Return a send as clients without sendSmartMsg send it: with words as names of the fields."""
    fields = {_WORDS[letter]: text for letter, text in send.ext_fields.items()}
    return replace(send, code=RequestCode.SEND_MESSAGE, ext_fields=fields)


def with_letters(send: RemotingCommand, code: RequestCode) -> RemotingCommand:
    """Reverse `with_words`."""
    fields = {letter: send.ext_fields[word] for letter, word in _WORDS.items() if word in send.ext_fields}
    return replace(send, code=code, ext_fields=fields)


def draw_form_of_send(forms: Stream, send: RemotingCommand) -> RemotingCommand:
    """Return a send as one of RocketMQ's clients encodes it.

    Clients may leave out optional fields with default values, or name the maximum of retries, which has no effect
    outside retry topics. The field `batch` marks a batch with any code.
    """
    fields, is_batch = dict(send.ext_fields), send.code == RequestCode.SEND_BATCH_MESSAGE
    if forms.chance(_LEFT_OUT_CHANCE, "leaves out defaults"):
        fields = {name: text for name, text in fields.items() if name not in "jkm" or text not in ("0", "false")}
    elif forms.chance(_MAXIMUM_CHANCE, "maximum of retries"):
        fields["l"] = "3"
    code = forms.choice(_CODES_OF_BATCHES if is_batch else _CODES, "code of a send")
    send = replace(send, code=code, ext_fields=fields)
    return with_words(send) if code == RequestCode.SEND_MESSAGE else send


def waits_for_durability(send: RemotingCommand) -> bool:
    """Return whether a broker with SYNC_FLUSH answers a send only after its messages are durable."""
    properties = send.ext_fields.get("i" if "i" in send.ext_fields else "properties", "")
    return not properties.startswith("WAIT\1false")


def sent_properties(draft: Draft, name: str) -> str:
    unique = () if draft.behaviour is None else (f"UNIQ_KEY\1{name}",)
    return draft.messages[0].properties(name, *unique)


def end_transaction_command(
    name: str, queue_offset: int, log_offset: int, decision: int, *, asked: bool
) -> RemotingCommand:
    return make_request(
        RequestCode.END_TRANSACTION,
        producerGroup=PRODUCER_GROUP,
        tranStateTableOffset=queue_offset,
        commitLogOffset=log_offset,
        commitOrRollback=decision,
        fromTransactionCheck=asked,
        msgId=name,
        transactionId=name,
    )


def producer_heartbeat(client_id: str) -> RemotingCommand:
    return heartbeat_command(client_id, producers=[PRODUCER_GROUP])


def consumer_heartbeat(
    client_id: str,
    topics: Iterable[str],
    wanted_of_each: Subscription,
    group: str = CONSUMER_GROUP,
    *,
    version: int = 0,
    others: Iterable[str] = (),
) -> RemotingCommand:
    """others: further groups of the client, without subscriptions."""
    expression = {"subString": wanted_of_each.text, "expressionType": wanted_of_each.kind, "subVersion": version}
    wanted = [{"topic": topic, **expression} for topic in topics]
    consumers = [{"groupName": group, "subscriptionDataSet": wanted}]
    consumers += [{"groupName": other, "subscriptionDataSet": []} for other in others]
    return heartbeat_command(client_id, consumers=consumers)


def groups_heartbeat(client_id: str, groups: Iterable[str], *, unit: bool = False) -> RemotingCommand:
    """Return the heartbeat of a client that is a member of several groups without subscriptions. unit: `unitMode`."""
    consumers = [{"groupName": group, "unitMode": unit, "subscriptionDataSet": []} for group in groups]
    return heartbeat_command(client_id, consumers=consumers)


def unregister_command(
    client_id: str, group: str, *, consumers: bool = True, producers: bool = False
) -> RemotingCommand:
    """consumers, producers: whether the client leaves the consumers and the producers of this name."""
    fields = {"consumerGroup": group} if consumers else {}
    fields |= {"producerGroup": group} if producers else {}
    return make_request(RequestCode.UNREGISTER_CLIENT, clientID=client_id, **fields)


def member_list_command(group: str) -> RemotingCommand:
    return make_request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group)


def lock_command(
    code: RequestCode, group: str, client_id: str, broker: str, queues: Iterable[Queue]
) -> RemotingCommand:
    """code: LOCK_BATCH_MQ or UNLOCK_BATCH_MQ."""
    wanted = [MessageQueue(topic, broker, queue_id) for topic, queue_id in queues]
    fields = {"consumerGroup": group, "clientId": client_id, "mqSet": wanted}
    return RemotingCommand(code, 0, body=encode_json_body(fields))


def granted_queues(response: RemotingCommand) -> list[Queue]:
    """Return the queues of an answer to LOCK_BATCH_MQ, in order."""
    return sorted((each["topic"], each["queueId"]) for each in msgspec.json.decode(response.body)["lockOKMQSet"])


def heartbeat_command(
    client_id: str, *, producers: Iterable[str] = (), consumers: Sequence[Mapping[str, Any]] = ()
) -> RemotingCommand:
    """producers: groups. consumers: RocketMQ's ConsumerData of each group."""
    groups = [{"groupName": group} for group in producers]
    fields = {"clientID": client_id, "producerDataSet": groups, "consumerDataSet": list(consumers)}
    return RemotingCommand(RequestCode.HEART_BEAT, 0, body=encode_json_body(fields))


def pull_command(
    topic: str,
    queue_id: int,
    offset: int,
    wanted: Subscription,
    *,
    most: int,
    suspend_ms: int,
    commit: int | None = None,
    group: str = CONSUMER_GROUP,
) -> RemotingCommand:
    """commit: the offset that the pull commits, if any."""
    return make_request(
        RequestCode.PULL_MESSAGE,
        consumerGroup=group,
        topic=topic,
        queueId=queue_id,
        queueOffset=offset,
        maxMsgNums=most,
        sysFlag=(_SUSPEND if suspend_ms else 0) | _SUBSCRIPTION | (0 if commit is None else COMMIT_FLAG),
        commitOffset=commit or 0,
        suspendTimeoutMillis=suspend_ms,
        subscription=wanted.text,
        subVersion=0,
        expressionType=wanted.kind,
    )


def without_expression(pull: RemotingCommand) -> RemotingCommand:
    """Return a pull for which the broker uses the subscription in the group's last heartbeat."""
    fields = {name: text for name, text in pull.ext_fields.items() if name not in _EXPRESSION_FIELDS}
    fields["sysFlag"] = str(int(fields["sysFlag"]) & ~_SUBSCRIPTION)
    return replace(pull, ext_fields=fields)


def max_offset_command(topic: str, queue_id: int) -> RemotingCommand:
    return make_request(RequestCode.GET_MAX_OFFSET, topic=topic, queueId=queue_id)


def query_offset_command(topic: str, queue_id: int, group: str = CONSUMER_GROUP) -> RemotingCommand:
    return make_request(RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup=group, topic=topic, queueId=queue_id)


def update_offset_command(topic: str, queue_id: int, offset: int, group: str = CONSUMER_GROUP) -> RemotingCommand:
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id, "commitOffset": offset}
    return make_request(RequestCode.UPDATE_CONSUMER_OFFSET, **fields)


def send_back_command(topic: str, log_offset: int, request: SendBackRequest, *, version: int = 0) -> RemotingCommand:
    """version: the client's. From 3.4.9 on, it may send its maximum of retries, which replaces the group's.

    topic: of the message; empty if the request leaves out optional fields.
    """
    fields = {"group": request.group, "offset": log_offset, "delayLevel": request.delay_level}
    fields |= {"originTopic": topic, "unitMode": False} if topic else {}
    if version and request.names_maximum:
        fields["maxReconsumeTimes"] = request.retries_max
    return replace(make_request(RequestCode.CONSUMER_SEND_MSG_BACK, **fields), version=version)


def retry_send_command(send: RetrySend, queue_id: int, reading: ReadRecord, *, version: int) -> RemotingCommand:
    """Return a consumer's own send of a pulled message to the retry topic of its group.

    The properties on the wire repeat both numbers, because RocketMQ's client encodes them before it clears these two.
    The send waits for durability, also if the first one did not.
    """
    record, body = reading
    own_id = (record.head.store_host + record.physical_offset.to_bytes(8, "big")).hex().upper()
    first = {"RETRY_TOPIC": record.topic, "ORIGIN_MESSAGE_ID": own_id}
    properties = {**first, **properties_of(record.properties), "RECONSUME_TIME": str(send.times)}
    properties["DELAY"] = str(send.delay_level)
    # Old clients repeat TRAN_MSG, which a broker ignores in a retry.
    transaction = () if send.times and not version else ("TRAN_MSG",)
    for name in ("MAX_RECONSUME_TIMES", "WAIT", *transaction):
        properties.pop(name, None)
    if send.names_maximum:
        properties["MAX_RECONSUME_TIMES"] = str(send.retries_max)
    fields: dict[str, object] = {
        "a": "CLIENT_INNER_PRODUCER",
        "b": f"%RETRY%{send.group}",
        "c": AUTO_CREATE_TOPIC,
        "d": "4",
    }
    fields |= {"e": queue_id, "f": 0, "g": send.born[0], "h": record.head.flag, "j": send.times}
    fields |= {"i": "".join(f"{name}\1{text}\2" for name, text in properties.items()), "k": False, "m": False}
    if version and send.names_maximum:
        fields["l"] = send.retries_max
    return replace(make_request(RequestCode.SEND_MESSAGE_V2, body, **fields), version=version)


def route_command(topic: str) -> RemotingCommand:
    return make_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic, acceptStandardJsonOnly=True)


def topic_command(
    topic: str,
    *,
    reads: int = 1,
    writes: int = 1,
    perm: int = 6,
    order: bool = False,
    flag: int = 0,
    filter_type: str = "SINGLE_TAG",
) -> RemotingCommand:
    """Return a request that creates or changes a topic. reads, writes: numbers of queues."""
    fields = {"topic": topic, "defaultTopic": AUTO_CREATE_TOPIC, "readQueueNums": reads, "writeQueueNums": writes}
    fields |= {"perm": perm, "topicFilterType": filter_type, "topicSysFlag": flag, "order": order}
    return make_request(RequestCode.UPDATE_AND_CREATE_TOPIC, **fields)


def pulled_records(body: bytes) -> Iterator[ReadRecord]:
    """Yield the records in the answer to a pull. Raises UnreadableError for other content."""
    at = 0
    while at < len(body):
        reading = read(body, at, len(body), file="answer to a pull")
        yield reading
        at += reading.record.size_bytes
