"""Commands: the requests of simulated clients, as RocketMQ's clients send them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from struct import Struct
from typing import Any

from ....store.broker.requests import RequestCode
from ....store.broker.topic_names import AUTO_CREATE_TOPIC
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
_COMMIT_OFFSET, _SUSPEND, _SUBSCRIPTION = 1, 2, 4
_EXPRESSION_FIELDS = ("subscription", "expressionType")
_CPP_HEAD = Struct(">ii")
_CPP_HEADER_AT = 4
_CPP_VERSION = 63
_INTEGER = re.compile("0|-?[1-9][0-9]*")
_BOOLEANS = {"true": True, "false": False}


def send_command(draft: Draft, puts: Sequence[PutEntry], queues: int) -> RemotingCommand:
    """queues: the number of queues if the broker creates the topic."""
    given, names = draft.given, [put.name for put in puts]
    wait = f"WAIT\1{'true' if draft.wait else 'false'}"
    if draft.in_batch:
        body, properties = draft.batch_body(names), wait
    else:
        body, properties = puts[0].body, f"{wait}\2{sent_properties(draft, names[0])}"
    fields = {
        "a": PRODUCER_GROUP,
        "b": draft.topic,
        "c": AUTO_CREATE_TOPIC,
        "d": str(queues),
        "e": str(puts[0].queue_id),
        "f": str(given.sys_flag),
        "g": str(given.born_timestamp_ms),
        "h": str(given.flag),
        "i": f"{properties}\2",
        "j": str(given.reconsume_times),
        "k": "false",
        "m": "true" if draft.in_batch else "false",
    }
    code = RequestCode.SEND_BATCH_MESSAGE if draft.in_batch else RequestCode.SEND_MESSAGE_V2
    return RemotingCommand(code, 0, ext_fields=fields, body=body)


def waits_for_durability(send: RemotingCommand) -> bool:
    """Return whether a broker with SYNC_FLUSH answers a send only after its messages are durable."""
    return not send.ext_fields.get("i", "").startswith("WAIT\1false")


def sent_properties(draft: Draft, name: str) -> str:
    unique = () if draft.behaviour is None else (f"UNIQ_KEY\1{name}",)
    return draft.messages[0].properties(name, *unique)


def end_transaction_command(
    name: str, queue_offset: int, log_offset: int, decision: int, *, asked: bool
) -> RemotingCommand:
    fields = {
        "producerGroup": PRODUCER_GROUP,
        "tranStateTableOffset": str(queue_offset),
        "commitLogOffset": str(log_offset),
        "commitOrRollback": str(decision),
        "fromTransactionCheck": "true" if asked else "false",
        "msgId": name,
        "transactionId": name,
    }
    return RemotingCommand(RequestCode.END_TRANSACTION, 0, ext_fields=fields)


def producer_heartbeat(client_id: str) -> RemotingCommand:
    return _heartbeat(client_id, producers=[{"groupName": PRODUCER_GROUP}])


def consumer_heartbeat(
    client_id: str,
    topics: Iterable[str],
    wanted_of_each: Subscription,
    group: str = CONSUMER_GROUP,
    *,
    version: int = 0,
) -> RemotingCommand:
    expression = {"subString": wanted_of_each.text, "expressionType": wanted_of_each.kind, "subVersion": version}
    wanted = [{"topic": topic, **expression} for topic in topics]
    return _heartbeat(client_id, consumers=[{"groupName": group, "subscriptionDataSet": wanted}])


def unregister_command(client_id: str, group: str) -> RemotingCommand:
    fields = {"clientID": client_id, "consumerGroup": group}
    return RemotingCommand(RequestCode.UNREGISTER_CLIENT, 0, ext_fields=fields)


def member_list_command(group: str) -> RemotingCommand:
    return RemotingCommand(RequestCode.GET_CONSUMER_LIST_BY_GROUP, 0, ext_fields={"consumerGroup": group})


def lock_command(
    code: RequestCode, group: str, client_id: str, broker: str, queues: Iterable[Queue]
) -> RemotingCommand:
    """code: LOCK_BATCH_MQ or UNLOCK_BATCH_MQ."""
    wanted = [MessageQueue(topic, broker, queue_id) for topic, queue_id in queues]
    said = {"consumerGroup": group, "clientId": client_id, "mqSet": wanted}
    return RemotingCommand(code, 0, body=encode_json_body(said))


def _heartbeat(
    client_id: str, *, producers: Sequence[Mapping[str, Any]] = (), consumers: Sequence[Mapping[str, Any]] = ()
) -> RemotingCommand:
    said = {"clientID": client_id, "producerDataSet": list(producers), "consumerDataSet": list(consumers)}
    return RemotingCommand(RequestCode.HEART_BEAT, 0, body=encode_json_body(said))


def pull_command(
    topic: str,
    queue_id: int,
    offset: int,
    wanted: Subscription,
    *,
    most: int,
    suspend_ms: int,
    commit: bool = False,
    group: str = CONSUMER_GROUP,
) -> RemotingCommand:
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(most),
        "sysFlag": str((_SUSPEND if suspend_ms else 0) | _SUBSCRIPTION | (_COMMIT_OFFSET if commit else 0)),
        "commitOffset": str(offset if commit else 0),
        "suspendTimeoutMillis": str(suspend_ms),
        "subscription": wanted.text,
        "subVersion": "0",
        "expressionType": wanted.kind,
    }
    return RemotingCommand(RequestCode.PULL_MESSAGE, 0, ext_fields=fields)


def without_expression(pull: RemotingCommand) -> RemotingCommand:
    """Return a pull for which the broker uses the subscription in the group's last heartbeat."""
    fields = {name: text for name, text in pull.ext_fields.items() if name not in _EXPRESSION_FIELDS}
    fields["sysFlag"] = str(int(fields["sysFlag"]) & ~_SUBSCRIPTION)
    return replace(pull, ext_fields=fields)


def max_offset_command(topic: str, queue_id: int) -> RemotingCommand:
    return RemotingCommand(RequestCode.GET_MAX_OFFSET, 0, ext_fields={"topic": topic, "queueId": str(queue_id)})


def query_offset_command(topic: str, queue_id: int, group: str = CONSUMER_GROUP) -> RemotingCommand:
    return RemotingCommand(RequestCode.QUERY_CONSUMER_OFFSET, 0, ext_fields=_group_fields(topic, queue_id, group))


def update_offset_command(topic: str, queue_id: int, offset: int, group: str = CONSUMER_GROUP) -> RemotingCommand:
    fields = {**_group_fields(topic, queue_id, group), "commitOffset": str(offset)}
    return RemotingCommand(RequestCode.UPDATE_CONSUMER_OFFSET, 0, ext_fields=fields)


def send_back_command(topic: str, log_offset: int, request: SendBackRequest, *, version: int = 0) -> RemotingCommand:
    """version: of the client. From 3.4.9 on, it may send its maximum of retries, which replaces the group's."""
    fields = {
        "group": request.group,
        "offset": str(log_offset),
        "delayLevel": str(request.delay_level),
        "originTopic": topic,
        "unitMode": "false",
    }
    if version and request.names_maximum:
        fields["maxReconsumeTimes"] = str(request.retries_max)
    return RemotingCommand(RequestCode.CONSUMER_SEND_MSG_BACK, 0, version=version, ext_fields=fields)


def retry_send_command(send: RetrySend, queue_id: int, reading: ReadRecord, *, version: int) -> RemotingCommand:
    """Return a consumer's own send of a pulled message to the retry topic of its group.

    The properties on the wire repeat both numbers, because RocketMQ's client encodes them before it clears these two.
    The send waits for durability, also if the first one did not.
    """
    record, body = reading
    own_id = (record.head.store_host + record.physical_offset.to_bytes(8, "big")).hex().upper()
    first = {"RETRY_TOPIC": record.topic, "ORIGIN_MESSAGE_ID": own_id}
    counts = {"RECONSUME_TIME": str(send.times), "MAX_RECONSUME_TIMES": str(send.retries_max)}
    properties = {**first, **properties_of(record.properties), **counts, "DELAY": str(send.delay_level)}
    properties.pop("WAIT", None)
    fields = {"a": "CLIENT_INNER_PRODUCER", "b": f"%RETRY%{send.group}", "c": AUTO_CREATE_TOPIC, "d": "4"}
    fields |= {"e": str(queue_id), "f": "0", "g": str(send.born[0]), "h": str(record.head.flag), "j": str(send.times)}
    fields |= {"i": "".join(f"{name}\1{text}\2" for name, text in properties.items()), "k": "false", "m": "false"}
    if version:
        fields["l"] = str(send.retries_max)
    return RemotingCommand(RequestCode.SEND_MESSAGE_V2, 0, version=version, ext_fields=fields, body=body)


def route_command(topic: str) -> RemotingCommand:
    fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
    return RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, 0, ext_fields=fields)


def pulled_records(body: bytes) -> Iterator[ReadRecord]:
    """Yield the records in the answer to a pull. Raises UnreadableError for other content."""
    at = 0
    while at < len(body):
        reading = read(body, at, len(body), file="answer to a pull")
        yield reading
        at += reading.record.size_bytes


def _group_fields(topic: str, queue_id: int, group: str) -> dict[str, str]:
    return {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}


def cpp_frame(command: RemotingCommand) -> bytes:
    """Encode a command as RocketMQ's C++ client does.

    Numbers and booleans are JSON values, not strings as in the Java client. The header ends with a line break.
    """
    header = {
        "code": command.code,
        "extFields": {name: _json_value(text) for name, text in command.ext_fields.items()},
        "flag": command.flag,
        "language": "CPP",
        "opaque": command.opaque,
        "remark": "",
        "version": _CPP_VERSION,
    }
    raw = json.dumps(header, separators=(",", ":")).encode() + b"\n"
    return _CPP_HEAD.pack(_CPP_HEADER_AT + len(raw) + len(command.body), len(raw)) + raw + command.body


def _json_value(text: str) -> str | int | bool:
    """Return the JSON value that a reader converts back to `text`."""
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    return int(text) if _INTEGER.fullmatch(text) else text
