"""Subscriptions and heartbeats: JSON form and message filters.

Source: RocketMQ SubscriptionData, FilterAPI.build, ExpressionType, HeartbeatData, ConsumerData, ProducerData.
"""

from dataclasses import dataclass
from typing import Any

from ..errors import CorruptFileError, FilterExpressionError
from ..filters.message_filter import MessageFilter, TagFilter
from ..filters.sql_filter import EXPRESSION_CHARACTERS_MAX, SqlExpression
from ..formats.java_hash import java_hash
from ..formats.java_text import java_trim
from ..formats.remoting.json_body import BODY, JsonMembers, decode_json_body
from ..services.consumer_filter import ConsumerFilterData, SqlMessageFilter
from .requests import RequestRefusedError, ResponseCode

TAG = "TAG"
SQL92 = "SQL92"
_ALL = "*"
_EVERYTHING = TagFilter.parse(None)

# C++ clients send indexes instead of names of RocketMQ's ConsumeType, MessageModel and ConsumeFromWhere.
_CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY")
_MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING")
_FROM_WHERE = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)

TEXT_CHARACTERS_MAX = 255
"""Maximum length of client ids and group names; RocketMQ's clients stay within it."""
GROUPS_MAX = 256
"""Maximum number of groups in a heartbeat, because each new consumer group needs two disk writes."""
TOPICS_MAX = 4096


@dataclass(frozen=True, slots=True)
class SubscriptionData:
    """A subscription to one topic."""

    topic: str
    expression: str = _ALL
    expression_type: str = TAG
    version: int = 0
    """Subscription time in ms since 1970, on the consumer's clock. The latest subscription counts."""
    class_filter_mode: bool = False
    """Whether a filter server of an old RocketMQ filters, so that the broker returns all messages."""

    @property
    def is_tag(self) -> bool:
        return self.expression_type in (TAG, "")

    @property
    def is_sql(self) -> bool:
        return not self.is_tag and self._expression_fault is None

    @property
    def json_members(self) -> dict[str, Any]:
        tags = self._tags
        return {
            "classFilterMode": self.class_filter_mode,
            "codeSet": [java_hash(tag) for tag in tags],
            "expressionType": self.expression_type,
            "subString": self.expression,
            "subVersion": self.version,
            "tagsSet": tags,
            "topic": self.topic,
        }

    @property
    def _tags(self) -> list[str]:
        if not self.is_tag or java_trim(self.expression) == _ALL:
            return []
        return list(dict.fromkeys(tag for tag in map(java_trim, self.expression.split("||")) if tag))

    @classmethod
    def from_json_members(cls, members: JsonMembers) -> "SubscriptionData":
        """Parse a subscription without its tag sets, which repeat the expression."""
        return cls(
            members.text("topic"),
            members.text("subString", _ALL),
            members.text("expressionType", TAG),
            members.integer("subVersion", 0),
            members.boolean("classFilterMode", False),
        )

    def check_expression(self) -> None:
        if (fault := self._expression_fault) is not None:
            raise RequestRefusedError(fault, ResponseCode.SUBSCRIPTION_PARSE_FAILED)

    @property
    def _expression_fault(self) -> str | None:
        if self.is_tag:
            maximum, found = EXPRESSION_CHARACTERS_MAX, len(self.expression)
            too_long = f"subscription expression: expected at most {maximum} characters, found {found}"
            return too_long if found > maximum else None
        if self.expression_type != SQL92:
            return f"expressionType: expected {TAG} or {SQL92}, found {self.expression_type[:80]!r}"
        try:
            SqlExpression.parse(self.expression)
        except FilterExpressionError as error:
            return f"subscription expression {error}"
        return None

    def message_filter(self, registered: ConsumerFilterData | None = None) -> MessageFilter:
        """Return the filter, with the group's registration for bit maps. Call `check_expression` first."""
        if self.class_filter_mode:
            return _EVERYTHING
        if self.is_tag:
            return TagFilter.parse(self.expression)
        if registered is not None and registered.expression.text == self.expression:
            return SqlMessageFilter.of_consumer(registered)
        return SqlMessageFilter.parse(self.expression)


@dataclass(frozen=True, slots=True)
class ConsumerData:
    """One consumer group of a client."""

    group: str
    consume_type: str
    """CONSUME_ACTIVELY (pull) or CONSUME_PASSIVELY (push)"""
    message_model: str
    """CLUSTERING (members share the queues) or BROADCASTING (each member reads all queues)"""
    consume_from_where: str
    unit_mode: bool
    subscriptions: tuple[SubscriptionData, ...]

    @classmethod
    def from_json_members(cls, members: JsonMembers) -> "ConsumerData":
        return cls(
            _read_short_name(members, "groupName"),
            members.choice("consumeType", _CONSUME_TYPES, "CONSUME_PASSIVELY"),
            members.choice("messageModel", _MESSAGE_MODELS, "CLUSTERING"),
            members.choice("consumeFromWhere", _FROM_WHERE, "CONSUME_FROM_LAST_OFFSET"),
            members.boolean("unitMode", False),
            tuple(map(SubscriptionData.from_json_members, members.objects("subscriptionDataSet", TOPICS_MAX))),
        )


@dataclass(frozen=True, slots=True)
class HeartbeatData:
    """Content of a heartbeat."""

    client_id: str
    producer_groups: tuple[str, ...]
    consumers: tuple[ConsumerData, ...]

    @classmethod
    def decode(cls, body: bytes) -> "HeartbeatData":
        """Raises CorruptFileError."""
        members = decode_json_body(body)
        return cls(
            _read_short_name(members, "clientID"),
            tuple(_read_short_name(each, "groupName") for each in members.objects("producerDataSet", GROUPS_MAX)),
            tuple(map(ConsumerData.from_json_members, members.objects("consumerDataSet", GROUPS_MAX))),
        )


def _read_short_name(members: JsonMembers, name: str) -> str:
    """Read a name. Refuse a long one, because the broker sends names to other clients in frames."""
    found = members.text(name)
    if len(found) > TEXT_CHARACTERS_MAX:
        raise CorruptFileError(BODY, 0, name, f"at most {TEXT_CHARACTERS_MAX} characters", len(found))
    return found
