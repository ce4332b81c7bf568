"""Refused requests: invalid requests of clients and operators, with the codes of the refusals (STATUS).

A broker may also answer any request with SYSTEM_BUSY or SERVICE_NOT_AVAILABLE.
Source: RocketMQ AbstractSendMessageProcessor.msgCheck, PullMessageProcessor, AdminBrokerProcessor,
EndTransactionProcessor, TopicValidator.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ....sim.choices import Stream
from ....store.broker.requests import RequestCode as Code
from ....store.broker.requests import ResponseCode
from ....store.broker.topic_names import AUTO_CREATE_TOPIC
from ....store.formats.batch import BatchUnit, encode_batch
from ....store.formats.message import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import encode_json_body
from ...claims.features import BrokerSettingsPlan
from ...oracle.evidence import Violation, record_tried
from ...oracle.returned import SendBackRequest
from .commands import (
    CONSUMER_GROUP,
    consumer_heartbeat,
    end_transaction_command,
    make_request,
    pull_command,
    send_back_command,
    topic_command,
    update_offset_command,
    without_expression,
)
from .message_options import EVERYTHING, WRONG_SQL, Subscription

_UNKNOWN_CODE = 9_999
_MISSING = "nobody-s"
"""A topic and group that no user creates."""
TRANSIENT = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)
BEYOND = 1 << 40
"""A log offset after the end of every log."""
_NO_INTEGERS = ("", "first", "1.5", "0x1", "9223372036854775808")
_TOO_LONG = ("2147483648", "4294967296", "4294967297")
"""Texts that are no 32-bit integers. The lower 32 bits of the last two are small."""


class RefusedRequest(NamedTuple):
    """A request that a broker must refuse, and the reason."""

    reason: str
    command: RemotingCommand
    codes: tuple[ResponseCode, ...]
    """The allowed answers, except transient ones."""


def refused_requests(
    topic: str,
    queues: int,
    settings: BrokerSettingsPlan,
    wrong_sql: str = WRONG_SQL[0],
    *,
    changes_settings: bool = False,
    filters: bool = False,
) -> list[RefusedRequest]:
    """Return requests that a broker started with these settings must refuse. topic: one with this number of queues.

    wrong_sql: an expression that a broker refuses. changes_settings: whether an operator may remove the permissions of
    the broker, and allow changes of system topics. filters: enablePropertyFilter.
    """
    closed = (ResponseCode.NO_PERMISSION,) if changes_settings else ()
    early = (ResponseCode.SYSTEM_ERROR,) if settings.accepts_sends_after_ms else ()
    no_group = () if settings.auto_create_subscription_group else (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,)
    keeps_system_topics = settings.validate_system_topic_when_update_topic and not changes_settings
    return [
        RefusedRequest(reason, command, (*(code if isinstance(code, tuple) else (code,)), *more))
        for rows, more in (
            (_sends(topic, queues), (*early, *closed)),
            (_pulls(topic, queues, wrong_sql, filters=filters), (*no_group, *closed)),
            (_others(), ()),
            (_changes(topic, keeps_system_topics=keeps_system_topics), ()),
        )
        for reason, command, code in rows
    ]


_Row = tuple[str, RemotingCommand, ResponseCode | tuple[ResponseCode, ...]]


def _sends(topic: str, queues: int) -> Iterator[_Row]:
    yield "a send to a topic of the broker", _send("SCHEDULE_TOPIC_XXXX"), ResponseCode.NO_PERMISSION
    for template in (_MISSING, topic):
        yield f"a first send by the template {template}", _send(_MISSING, c=template), ResponseCode.TOPIC_NOT_EXIST
    yield "a send to an invalid topic", _send("no topic"), ResponseCode.SYSTEM_ERROR
    yield "a send to a topic with a long name", _send("t" * 128), ResponseCode.SYSTEM_ERROR
    for missing in (queues, 99):
        yield f"a send to queue {missing} of {queues}", _send(topic, e=str(missing)), ResponseCode.SYSTEM_ERROR
    yield "a send with a queue id that is no number", _send(topic, e="first"), ResponseCode.SYSTEM_ERROR
    yield "a send with a delivery time", timed_send(topic), ResponseCode.MESSAGE_ILLEGAL
    batch = _send("%RETRY%consumers", Code.SEND_BATCH_MESSAGE, m="true")
    yield "a batch to a retry topic", batch, ResponseCode.MESSAGE_ILLEGAL
    yield "a batch of which one message has a delivery time", timed_batch(topic), ResponseCode.MESSAGE_ILLEGAL
    yield (
        "a return of a missing message",
        send_back_command(topic, BEYOND, SendBackRequest(CONSUMER_GROUP, 1, 0)),
        ResponseCode.SYSTEM_ERROR,
    )


def _pulls(topic: str, queues: int, wrong_sql: str, *, filters: bool) -> Iterator[_Row]:
    """A topic may lack the permission to read, which a broker checks before queue and expression."""
    closed = ResponseCode.NO_PERMISSION
    yield "a pull of a missing topic", _pull(_MISSING, 0), ResponseCode.TOPIC_NOT_EXIST
    for missing in (queues, 99, -1):
        yield f"a pull of queue {missing} of {queues}", _pull(topic, missing), (ResponseCode.SYSTEM_ERROR, closed)
    for kind, text in (("SQL92", wrong_sql), ("REGEX", ".*")):
        wanted = Subscription(kind, text, lambda _: False)
        codes = ResponseCode.SUBSCRIPTION_PARSE_FAILED, closed
        yield f"a pull with the {kind} expression {text!r}", _pull(topic, 0, wanted), codes
        fields = {"subscriptionData": {"topic": topic, "subString": text, "expressionType": kind}}
        checked = RemotingCommand(Code.CHECK_CLIENT_CONFIG, 0, body=encode_json_body(fields))
        # SYSTEM_ERROR: without enablePropertyFilter, before the expression is parsed
        codes = ResponseCode.SUBSCRIPTION_PARSE_FAILED, ResponseCode.SYSTEM_ERROR
        yield f"a check of the {kind} expression {text!r}", checked, codes
    if not filters:
        wanted = Subscription("SQL92", "tier IS NULL", lambda _: False)
        yield (
            "a pull with an expression that is not enabled",
            _pull(topic, 0, wanted),
            (ResponseCode.SYSTEM_ERROR, closed),
        )
    codes = ResponseCode.SUBSCRIPTION_NOT_EXIST, closed
    yield "a pull without an expression by a group without a heartbeat", without_expression(_pull(topic, 0)), codes


def _others() -> Iterator[_Row]:
    yield "a request with an unknown code", RemotingCommand(_UNKNOWN_CODE, 0), ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    yield "a request without its field", RemotingCommand(Code.GET_MIN_OFFSET, 0), ResponseCode.SYSTEM_ERROR
    unknown = TRANSACTION_COMMIT | TRANSACTION_ROLLBACK
    for decision in (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, unknown):
        ended = end_transaction_command(_MISSING, 0, BEYOND, decision, asked=False)
        yield f"a decision {decision} about a missing message", ended, ResponseCode.SYSTEM_ERROR
    yield "a negative offset", update_offset_command(_MISSING, 0, -1, _MISSING), ResponseCode.SYSTEM_ERROR
    missing = update_offset_command(_MISSING, 0, 0, _MISSING)
    yield "an offset in a missing topic", missing, ResponseCode.TOPIC_NOT_EXIST
    for client_id, group in (("c" * 256, _MISSING), (_MISSING, "g" * 256)):
        heartbeat = consumer_heartbeat(client_id, (), EVERYTHING, group)
        yield "a heartbeat with a long name", heartbeat, ResponseCode.SYSTEM_ERROR
    for text in (b"", b"# traceOn=true\n", b"traceOn=\xff\n", b"%s=1\n" % (b"k" * 256)):
        changed = RemotingCommand(Code.UPDATE_BROKER_CONFIG, 0, body=text)
        yield f"a change of settings by {text[:20]!r}", changed, ResponseCode.SYSTEM_ERROR


def _changes(topic: str, *, keeps_system_topics: bool) -> Iterator[_Row]:
    error = ResponseCode.SYSTEM_ERROR
    for field, value in (("perm", "9"), ("topicFilterType", "NO_TAG"), ("readQueueNums", "-1"), ("topic", "no topic")):
        yield f"a topic with {field} {value}", _topic(topic, **{field: value}), error
    yield "a change of the cluster's topic", _topic("DefaultCluster"), error
    if keeps_system_topics:
        for name in (AUTO_CREATE_TOPIC, f"rmq_sys_{_MISSING}"):
            yield f"a change of the system's topic {name}", _topic(name), error
        deletion = make_request(Code.DELETE_TOPIC_IN_BROKER, topic=AUTO_CREATE_TOPIC)
        yield "a deletion of a system's topic", deletion, error
    body = b'{"groupName": "%s", "retryQueueNums": -1}' % _MISSING.encode()
    group = RemotingCommand(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 0, body=body)
    yield "a group with a negative number of queues", group, error
    reset = make_request(Code.INVOKE_BROKER_TO_RESET_OFFSET, topic=_MISSING, group=_MISSING, timestamp=0, isForce=True)
    yield "a reset of offsets in a missing topic", reset, error


def requests_to_slave(topic: str) -> Iterator[RefusedRequest]:
    """Yield requests that a slave must refuse. topic: one that the slave may have."""
    codes = tuple(code for code in ResponseCode if code is not ResponseCode.SUCCESS)
    yield RefusedRequest("a send to a slave", _send(topic), codes)
    returned = send_back_command(topic, 0, SendBackRequest(CONSUMER_GROUP, 1, 0))
    yield RefusedRequest("a return to a slave", returned, codes)
    ended = end_transaction_command(_MISSING, 0, BEYOND, TRANSACTION_COMMIT, asked=False)
    yield RefusedRequest("a decision at a slave", ended, (ResponseCode.SLAVE_NOT_AVAILABLE,))


def send_without_queues(topic: str) -> RefusedRequest:
    """Return a send to any queue of a topic without queues, from which consumers could not pull."""
    codes = ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION
    return RefusedRequest("a send to a topic without queues", _send(topic, e="-1"), codes)


def send_to_missing_queue(topic: str, queues: int = 1, *, unit: bool = False) -> RemotingCommand:
    """Return a send that a broker refuses, but for which it creates a missing topic.

    queues: how many the producer asks for. unit: unitMode of the producer.
    """
    return _send(topic, e="99", d=str(queues), k=str(unit).lower())


def request_without_integer(stream: Stream, topic: str) -> RefusedRequest:
    """Return a request in which one field is missing, or is not an integer of its size."""
    what, command, short, long_ = stream.choice(
        (
            ("a send", _send(topic), "defh", "g"),
            ("a pull", _pull(topic, 0), ("queueId", "maxMsgNums", "sysFlag"), ("queueOffset", "commitOffset")),
            ("a commit", update_offset_command(topic, 0, 0, _MISSING), ("queueId",), ("commitOffset",)),
            ("a topic", _topic(_MISSING), ("readQueueNums", "writeQueueNums", "perm"), ()),
        ),
        "request without an integer",
    )
    field = stream.choice((*short, *long_), "field")
    text = stream.choice((None, *_NO_INTEGERS, *(_TOO_LONG if field in short else ())), "text of the field")
    fields = {name: known for name, known in command.ext_fields.items() if name != field}
    command = replace(command, ext_fields=fields if text is None else {**fields, field: text})
    reason = f"{what} {'without' if text is None else repr(text) + ' as'} {field}"
    return RefusedRequest(reason, command, (ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION))


def timed_send(topic: str) -> RemotingCommand:
    """Return a send with a delivery time, which RocketMQ 4.9 does not have."""
    return _send(topic, i="TIMER_DELAY_MS\0015000\2")


def timed_batch(topic: str) -> RemotingCommand:
    units = encode_batch(BatchUnit(0, b"refused", each) for each in (b"", b"TIMER_DELIVER_MS\0011\2"))
    return replace(_send(topic, Code.SEND_BATCH_MESSAGE, m="true"), body=units)


def _send(topic: str, code: Code = Code.SEND_MESSAGE_V2, **changed: str) -> RemotingCommand:
    fields = {"a": _MISSING, "b": topic, "c": AUTO_CREATE_TOPIC, "d": "1", "e": "0", "f": "0", "g": "0", "h": "0"}
    fields |= {"i": "", "j": "0", "k": "false", "m": "false", **changed}
    return make_request(code, b"refused", **fields)


def _pull(topic: str, queue_id: int, wanted: Subscription = EVERYTHING) -> RemotingCommand:
    return pull_command(topic, queue_id, 0, wanted, most=1, suspend_ms=0, group=_MISSING)


def _topic(topic: str, /, **changed: str) -> RemotingCommand:
    command = topic_command(topic)
    return replace(command, ext_fields={**command.ext_fields, **changed})


_BY_DEFAULT = refused_requests("", 1, BrokerSettingsPlan())
REFUSED_CODES = tuple(code for code in Code if any(each.command.code == code for each in _BY_DEFAULT))
"""The known codes of the requests."""


def check_refused(asked: RefusedRequest, code: int, *, disk_may_fail: bool) -> Iterator[Violation]:
    """Yield an answer that accepts the request, or that has another reason than RocketMQ's.

    A broker answers with SYSTEM_ERROR if its disk fails.
    """
    record_tried("STATUS")
    if code not in (*asked.codes, *TRANSIENT) and not (disk_may_fail and code == ResponseCode.SYSTEM_ERROR):
        expected = " or ".join(each.name for each in asked.codes)
        summary = f"{asked.reason} gets a wrong answer"
        yield Violation("STATUS", summary, "", -1, "code", expected, ResponseCode(code).name)
