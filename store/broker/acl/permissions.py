"""Which permissions there are, and which of them each request needs.

Source: RocketMQ Permission, PlainAccessValidator.parse. Beyond it, batches (320) need what single messages need, and
whatever changes a broker needs an administrator.
"""

from collections.abc import Iterator, Mapping
from enum import Flag
from typing import Any, NamedTuple

from ...errors import CorruptFileError
from ...formats.remoting.command import RemotingCommand
from ...formats.side_json import decode_side_json

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


_UPDATE_AND_CREATE_TOPIC = 17
_UPDATE_BROKER_CONFIG = 25
_REGISTER_BROKER = 103
_UNREGISTER_BROKER = 104
_UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
_DELETE_SUBSCRIPTIONGROUP = 207
_DELETE_TOPIC_IN_BROKER = 215
_INVOKE_BROKER_TO_RESET_OFFSET = 222
_CLEAN_EXPIRED_CONSUMEQUEUE = 306
_CLEAN_UNUSED_TOPIC = 316
_RESUME_CHECK_HALF_MESSAGE = 323
_DELETE_EXPIRED_COMMITLOG = 329
ADMIN_CODES = frozenset(
    (
        _UPDATE_AND_CREATE_TOPIC,
        _UPDATE_BROKER_CONFIG,
        _REGISTER_BROKER,
        _UNREGISTER_BROKER,
        _UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        _DELETE_SUBSCRIPTIONGROUP,
        _DELETE_TOPIC_IN_BROKER,
        _INVOKE_BROKER_TO_RESET_OFFSET,
        _CLEAN_EXPIRED_CONSUMEQUEUE,
        _CLEAN_UNUSED_TOPIC,
        _RESUME_CHECK_HALF_MESSAGE,
        _DELETE_EXPIRED_COMMITLOG,
    )
)
"""Requests that only administrators may make."""

_SEND_MESSAGE = 10
_SEND_SHORT = (310, 320)  # the fields of a message under names of one letter
_HEART_BEAT = 34

_SUBSCRIBED: Mapping[int, tuple[str | None, str | None]] = {
    11: ("topic", "consumerGroup"),  # PULL_MESSAGE
    12: ("topic", None),  # QUERY_MESSAGE
    15: ("topic", "consumerGroup"),  # UPDATE_CONSUMER_OFFSET
    35: (None, "consumerGroup"),  # UNREGISTER_CLIENT
    36: (None, "group"),  # CONSUMER_SEND_MSG_BACK
    38: (None, "consumerGroup"),  # GET_CONSUMER_LIST_BY_GROUP
}
"""Fields with a topic and a group that must be allowed SUB, by request code."""


def group_resource(group: str) -> str:
    """Return what a group is known by: the name of its retry topic."""
    return group if group.startswith(RETRY_PREFIX) else RETRY_PREFIX + group


def needs_of(command: RemotingCommand) -> list[Need]:
    """Return the permissions that a request needs beside a signature. CorruptFileError for a heartbeat that is none."""
    fields, code = command.ext_fields, command.code
    if code == _SEND_MESSAGE:
        return _to_send(fields.get("topic"))
    if code in _SEND_SHORT:
        return _to_send(fields.get("b"))
    if code == _HEART_BEAT:
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
    members = decode_side_json(heartbeat.body, file="heartbeat")
    for consumer in _objects(members, "consumerDataSet"):
        yield Need(group_resource(_text(consumer, "groupName")), Permission.SUB)
        for subscription in _objects(consumer, "subscriptionDataSet"):
            yield Need(_text(subscription, "topic"), Permission.SUB)


def _objects(members: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = members.get(name) or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise CorruptFileError("heartbeat", 0, name, "a list of objects", type(found).__name__)
    return found


def _text(members: Mapping[str, Any], name: str) -> str:
    found = members.get(name)
    if not isinstance(found, str):
        raise CorruptFileError("heartbeat", 0, name, "a text", type(found).__name__)
    return found
