"""Permissions: which there are, and which of them each request needs.

Source: RocketMQ Permission, PlainAccessValidator.parse. Beyond it, batches (320) and replies (324, 325) need what
single messages need, and whatever changes a broker needs an administrator.
"""

from collections.abc import Iterator, Mapping
from enum import Flag
from typing import NamedTuple

from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import Members
from ...formats.side_json import decode_side_json
from ..requests import RequestCode
from ..subscriptions import GROUPS_MAX, TOPICS_MAX

RETRY_PREFIX = "%RETRY%"


class Permission(Flag):
    """What may be done with a topic or as a consumer group; none of it is DENY."""

    DENY = 0
    PUB = 1
    SUB = 2


PERMISSIONS: Mapping[str, Permission] = {
    "DENY": Permission.DENY,
    "PUB": Permission.PUB,
    "SUB": Permission.SUB,
    "PUB|SUB": Permission.PUB | Permission.SUB,
    "SUB|PUB": Permission.PUB | Permission.SUB,
}
"""As plain_acl.yml spells them."""


class Need(NamedTuple):
    """One permission that a request needs. A group is known by the name of its retry topic."""

    resource: str
    permission: Permission

    @property
    def is_group(self) -> bool:
        """Return whether it is about a consumer group."""
        return self.resource.startswith(RETRY_PREFIX)

    def describe(self) -> str:
        """Name what it is about."""
        return f"group:{self.resource[len(RETRY_PREFIX) :]}" if self.is_group else f"topic:{self.resource}"


ADMIN_CODES = frozenset(
    (
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.ADD_WRITE_PERM_OF_BROKER,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
    )
)
"""Requests that only administrators may make."""

OPEN_CODES = frozenset((RequestCode.GET_ROUTEINFO_BY_TOPIC,))
"""What name servers answer to anyone. A client that gets no route blames its topic and never learns what is wrong."""

_SEND_LONG = (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)
_SEND_SHORT = (  # fields under names of one letter
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
)

_SUBSCRIBED: Mapping[int, tuple[str | None, str | None]] = {
    RequestCode.PULL_MESSAGE: ("topic", "consumerGroup"),
    RequestCode.QUERY_MESSAGE: ("topic", None),
    RequestCode.UPDATE_CONSUMER_OFFSET: ("topic", "consumerGroup"),
    RequestCode.UNREGISTER_CLIENT: (None, "consumerGroup"),
    RequestCode.CONSUMER_SEND_MSG_BACK: (None, "group"),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: (None, "consumerGroup"),
}
"""Fields with a topic and a group that must be allowed SUB, by request code."""


def group_resource(group: str) -> str:
    """Return what a group is known by: the name of its retry topic."""
    return group if group.startswith(RETRY_PREFIX) else RETRY_PREFIX + group


def needs_of(command: RemotingCommand) -> list[Need]:
    """Return the permissions that a request needs beside a signature. CorruptFileError for a heartbeat that is none."""
    fields, code = command.ext_fields, command.code
    if code in _SEND_LONG:
        return _to_send(fields.get("topic"))
    if code in _SEND_SHORT:
        return _to_send(fields.get("b"))
    if code == RequestCode.HEART_BEAT:
        return list(_to_subscribe(command))
    topic_field, group_field = _SUBSCRIBED.get(code, (None, None))
    needs = []
    if topic_field is not None and (topic := fields.get(topic_field)):
        needs.append(Need(topic, Permission.SUB))
    if group_field is not None and (group := fields.get(group_field)):
        needs.append(Need(group_resource(group), Permission.SUB))
    return needs


def _to_send(topic: str | None) -> list[Need]:
    """A consumer that sends back what it could not handle sends to its group's retry topic."""
    if not topic:
        return []
    permission = Permission.SUB if topic.startswith(RETRY_PREFIX) else Permission.PUB
    return [Need(topic, permission)]


def _to_subscribe(heartbeat: RemotingCommand) -> Iterator[Need]:
    members = Members(decode_side_json(heartbeat.body, file="heartbeat"), "", "heartbeat")
    for consumer in members.objects("consumerDataSet", GROUPS_MAX):
        yield Need(group_resource(consumer.text("groupName")), Permission.SUB)
        for subscription in consumer.objects("subscriptionDataSet", TOPICS_MAX):
            yield Need(subscription.text("topic"), Permission.SUB)
