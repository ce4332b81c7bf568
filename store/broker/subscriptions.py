"""What a consumer group wants of a topic, and the filter that finds it.

Source: RocketMQ SubscriptionData, FilterAPI.build, ExpressionType.
"""

from dataclasses import dataclass
from typing import Any

from ..errors import FilterExpressionError
from ..filters.consumer_filter import ConsumerFilterData, SqlMessageFilter
from ..filters.message_filter import MessageFilter, TagFilter
from ..filters.sql_filter import EXPRESSION_CHARACTERS_MAX, SqlExpression
from ..formats.java_hash import java_hash
from ..formats.remoting.json_body import Members
from .requests import RequestRefusedError, ResponseCode

TAG = "TAG"
SQL92 = "SQL92"
_ALL = "*"
_EVERYTHING = TagFilter.parse(None)


@dataclass(frozen=True, slots=True)
class SubscriptionData:
    """A subscription to one topic."""

    topic: str
    expression: str = _ALL
    expression_type: str = TAG
    version: int = 0
    """When the consumer subscribed, in ms since 1970 by its clock; a later one is newer."""
    class_filter_mode: bool = False
    """Whether somebody else filters, so that everything is given: RocketMQ's filter servers of old."""

    @property
    def is_tag(self) -> bool:
        """Return whether tags are enough to tell what is wanted."""
        return self.expression_type in (TAG, "")

    @property
    def is_sql(self) -> bool:
        """Return whether properties tell what is wanted, by an expression that can be understood."""
        try:
            self.check()
        except RequestRefusedError:
            return False
        return not self.is_tag

    @property
    def members(self) -> dict[str, Any]:
        """Return it as an object."""
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
        if not self.is_tag or self.expression.strip() == _ALL:
            return []
        return list(dict.fromkeys(tag.strip() for tag in self.expression.split("||") if tag.strip()))

    @classmethod
    def of(cls, members: Members) -> "SubscriptionData":
        """Read it from an object. Its sets of tags and hashes say no more than its expression."""
        return cls(
            members.text("topic"),
            members.text("subString", _ALL),
            members.text("expressionType", TAG),
            members.integer("subVersion", 0),
            members.boolean("classFilterMode", False),
        )

    def check(self) -> None:
        """Refuse a request whose expression cannot be understood."""
        if self.is_tag:
            if len(self.expression) > EXPRESSION_CHARACTERS_MAX:
                raise RequestRefusedError(
                    ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                    f"subscription expression: expected at most {EXPRESSION_CHARACTERS_MAX} characters,"
                    f" found {len(self.expression)}",
                )
            return
        if self.expression_type != SQL92:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"expressionType: expected {TAG} or {SQL92}, found {self.expression_type[:80]!r}",
            )
        try:
            SqlExpression.parse(self.expression)
        except FilterExpressionError as error:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"subscription expression {error}"
            ) from error

    def filter(self, registered: ConsumerFilterData | None = None) -> MessageFilter:
        """Return what tells the messages that are wanted; registered is what bit maps know the group's expression by.

        Only for a subscription that was checked.
        """
        if self.class_filter_mode:
            return _EVERYTHING
        if self.is_tag:
            return TagFilter.parse(self.expression)
        if registered is not None and registered.expression.text == self.expression:
            return SqlMessageFilter.of_consumer(registered)
        return SqlMessageFilter.parse(self.expression)
