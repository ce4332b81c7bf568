"""Requests and responses: RocketMQ's codes, field parser, response builder.

All fields are strings. The broker refuses a missing or invalid field with SYSTEM_ERROR and a remark with the field's
name, the expected and the found value. It ignores unknown fields, because newer clients send more fields.
Source: RocketMQ RequestCode, ResponseCode, RemotingSysResponseCode, RemotingCommand.decodeCommandCustomHeader and
createResponseCommand, NettyRemotingAbstract.processRequestCommand.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NoReturn

from ..formats.host import decode_message_id
from ..formats.java_text import java_integer
from ..formats.remoting.command import RESPONSE_FLAG, RemotingCommand
from ..formats.remoting.json_body import encode_json_body

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
_PLAIN_DIGITS_MAX = 18
"""A number of at most 18 digits fits into 64 bits."""
_SMALL_INTEGERS: Mapping[str | None, int] = {str(number): number for number in range(256)}
"""Most numbers in requests: queue ids, flags, counts."""
_SHOWN_CHARACTERS = 80

BROKER_VERSION = 409
"""RocketMQ's MQVersion of 4.9.8."""
JAVA_LANGUAGE = 0
"""Language code of responses. RocketMQ's clients expect Java."""
_OF_BROKER = (RESPONSE_FLAG, JAVA_LANGUAGE, BROKER_VERSION)
REMARK_CHARACTERS_MAX = 1_000
"""Maximum length of a remark, which may quote a large request."""
_NO_FIELDS: Mapping[str, str] = {}


class RequestCode(IntEnum):
    """Type of a request. A broker sends the types in PUSHED to its clients."""

    SEND_MESSAGE = 10
    PULL_MESSAGE = 11
    QUERY_MESSAGE = 12
    QUERY_CONSUMER_OFFSET = 14
    UPDATE_CONSUMER_OFFSET = 15
    UPDATE_AND_CREATE_TOPIC = 17
    GET_ALL_TOPIC_CONFIG = 21
    UPDATE_BROKER_CONFIG = 25
    GET_BROKER_CONFIG = 26
    GET_BROKER_RUNTIME_INFO = 28
    SEARCH_OFFSET_BY_TIMESTAMP = 29
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    GET_EARLIEST_MSG_STORETIME = 32
    VIEW_MESSAGE_BY_ID = 33
    HEART_BEAT = 34
    UNREGISTER_CLIENT = 35
    CONSUMER_SEND_MSG_BACK = 36
    END_TRANSACTION = 37
    GET_CONSUMER_LIST_BY_GROUP = 38
    CHECK_TRANSACTION_STATE = 39  # PUSHED
    NOTIFY_CONSUMER_IDS_CHANGED = 40  # PUSHED
    LOCK_BATCH_MQ = 41
    UNLOCK_BATCH_MQ = 42
    GET_ALL_CONSUMER_OFFSET = 43
    GET_ALL_DELAY_OFFSET = 45
    CHECK_CLIENT_CONFIG = 46
    UPDATE_AND_CREATE_ACL_CONFIG = 50
    DELETE_ACL_CONFIG = 51
    GET_BROKER_CLUSTER_ACL_INFO = 52
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = 53
    GET_BROKER_CLUSTER_ACL_CONFIG = 54
    PUT_KV_CONFIG = 100
    GET_KV_CONFIG = 101
    DELETE_KV_CONFIG = 102
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
    GET_TOPIC_STATS_INFO = 202
    GET_CONSUMER_CONNECTION_LIST = 203
    GET_PRODUCER_CONNECTION_LIST = 204
    WIPE_WRITE_PERM_OF_BROKER = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_SUBSCRIPTIONGROUP = 207
    GET_CONSUME_STATS = 208
    DELETE_TOPIC_IN_BROKER = 215
    DELETE_TOPIC_IN_NAMESRV = 216
    GET_KVLIST_BY_NAMESPACE = 219
    RESET_CONSUMER_CLIENT_OFFSET = 220  # PUSHED
    GET_CONSUMER_STATUS_FROM_CLIENT = 221  # PUSHED
    INVOKE_BROKER_TO_RESET_OFFSET = 222
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223
    GET_TOPICS_BY_CLUSTER = 224
    QUERY_TOPIC_CONSUME_BY_WHO = 300
    QUERY_CONSUME_TIME_SPAN = 303
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305
    CLEAN_EXPIRED_CONSUMEQUEUE = 306
    GET_CONSUMER_RUNNING_INFO = 307
    QUERY_CORRECTION_OFFSET = 308
    CONSUME_MESSAGE_DIRECTLY = 309
    SEND_MESSAGE_V2 = 310
    GET_UNIT_TOPIC_LIST = 311
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313
    CLONE_GROUP_OFFSET = 314
    VIEW_BROKER_STATS_DATA = 315
    CLEAN_UNUSED_TOPIC = 316
    GET_BROKER_CONSUME_STATS = 317
    UPDATE_NAMESRV_CONFIG = 318
    GET_NAMESRV_CONFIG = 319
    SEND_BATCH_MESSAGE = 320
    QUERY_CONSUME_QUEUE = 321
    QUERY_DATA_VERSION = 322
    RESUME_CHECK_HALF_MESSAGE = 323
    SEND_REPLY_MESSAGE = 324
    SEND_REPLY_MESSAGE_V2 = 325
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326  # PUSHED
    ADD_WRITE_PERM_OF_BROKER = 327
    GET_ALL_PRODUCER_INFO = 328
    DELETE_EXPIRED_COMMITLOG = 329


class ResponseCode(IntEnum):
    """Result of a request."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    CONSUMER_NOT_ONLINE = 206
    CONSUME_MSG_TIMEOUT = 207
    UPDATE_AND_CREATE_ACL_CONFIG_FAILED = 209
    DELETE_ACL_CONFIG_FAILED = 210
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED = 211


class RequestRefusedError(Exception):
    """Refusal of a request, with the error code and remark of the answer."""

    def __init__(self, remark: str, code: ResponseCode = ResponseCode.SYSTEM_ERROR) -> None:
        super().__init__(f"{code.name}: {remark}")
        self.code = code
        self.remark = remark


class ExtFields:
    """The fields of a request. A field without a default is required."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields

    def text(self, name: str, default: str | None = None) -> str:
        value = self._fields.get(name, default)
        if value is None:
            refuse_field(name, "a string", None)
        return value

    def message_offset(self, name: str) -> int:
        message_id = self.text(name)
        try:
            return decode_message_id(message_id)[1]
        except ValueError:
            refuse_field(name, "an offset message id", message_id)

    @property
    def size_characters(self) -> int:
        return sum(len(name) + len(value) for name, value in self._fields.items())

    def int32(self, name: str, default: int | None = None) -> int:
        number = _SMALL_INTEGERS.get(self._fields.get(name))
        return self._parse_integer(name, default, INT_MAX, "a 32-bit integer") if number is None else number

    def int64(self, name: str, default: int | None = None) -> int:
        return self._parse_integer(name, default, LONG_MAX, "a 64-bit integer")

    def boolean(self, name: str, default: bool | None = None) -> bool:
        """As in RocketMQ, all texts except "true" are false; C++ clients send 0."""
        text = self._fields.get(name)
        if text is not None:
            return text.lower() == "true"
        if default is None:
            refuse_field(name, "true or false", None)
        return default

    def _parse_integer(self, name: str, default: int | None, maximum: int, expected: str) -> int:
        text = self._fields.get(name)
        if text is None:
            if default is None:
                refuse_field(name, expected, None)
            return default
        if len(text) <= _PLAIN_DIGITS_MAX and text.isdecimal() and text.isascii() and (number := int(text)) <= maximum:
            return number
        value = java_integer(text, maximum.bit_length() + 1)
        if value is None:
            refuse_field(name, expected, text)
        return value


def refuse_request_if(fault: str | None) -> None:
    if fault is not None:
        raise RequestRefusedError(fault)


def refuse_field(name: str, expected: str, found: str | None) -> NoReturn:
    """`found` is None for a missing field."""
    shown = "no such field" if found is None else repr(found[:_SHOWN_CHARACTERS])
    raise RequestRefusedError(f"{name}: expected {expected}, found {shown}")


def response_to(
    request: RemotingCommand,
    code: int,
    remark: str | None = None,
    ext_fields: Mapping[str, str] = _NO_FIELDS,
    body: bytes = b"",
) -> RemotingCommand:
    """Return a response with the opaque and header format of the request. Truncate a long remark."""
    remark = None if remark is None else remark[:REMARK_CHARACTERS_MAX]
    return RemotingCommand(code, request.opaque, *_OF_BROKER, remark, ext_fields, body, request.form)


def success_response(request: RemotingCommand, body: Any = None, **ext_fields: object) -> RemotingCommand:
    fields = {name: str(value) for name, value in ext_fields.items()}
    encoded = b"" if body is None else encode_json_body(body)
    return response_to(request, ResponseCode.SUCCESS, None, fields, encoded)
