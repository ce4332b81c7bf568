"""Access rules: white lists, signatures, and permissions of accounts and requests.

White lists are patterns of IP addresses:

    (blank)                 no address
    *  *.*.*.*              every address, also *:*:*:*:*:*:*:*
    10.0.0.7                one address
    10.0.0.7,10.0.0.8       several addresses
    10.0.0.{7,8}            addresses that differ in their last part
    10.0.*.*  10.0.0-5.*    ranges: after the first range, all parts must be *
    ::1  fe80::{1,2}  2001:db8:*:*:*:*:*:*  2001:db8:0-ff:*:*:*:*:*      IPv6 in the same way, parts in hex

RocketMQ ignores the parts after the first range. After a range, this parser accepts only *.

A signature covers the values of all ext fields except the signature, sorted by field name, followed by the body.
Source: RocketMQ RemoteAddressStrategyFactory, AclClientRPCHook, AclSigner, PlainAccessValidator.parse,
PlainPermissionManager.validate, checkPerm, Permission. Unlike in RocketMQ, batches (320) and replies (324, 325) need
the same permissions as single messages, and only administrators may change a broker.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Flag
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from ...errors import AccessDeniedError
from ...formats.java_text import java_trim
from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import decode_json_body
from ..requests import RequestCode, ResponseCode
from ..subscriptions import GROUPS_MAX, TOPICS_MAX
from ..topic_names import RETRY_GROUP_PREFIX, TRACE_TOPIC

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"
SIGNATURE = "Signature"
_UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"


class Permission(Flag):
    """Permissions for a topic or a consumer group. DENY is the empty set."""

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


class RequiredPermission(NamedTuple):
    """A permission that a request requires. The resource of a group is the name of its retry topic."""

    resource: str
    permission: Permission

    @property
    def is_group(self) -> bool:
        return self.resource.startswith(RETRY_GROUP_PREFIX)

    def describe(self) -> str:
        """Return `group:NAME` or `topic:NAME`."""
        return f"group:{self.resource[len(RETRY_GROUP_PREFIX) :]}" if self.is_group else f"topic:{self.resource}"


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
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.CLONE_GROUP_OFFSET,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.PUT_KV_CONFIG,
        RequestCode.DELETE_KV_CONFIG,
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
        RequestCode.DELETE_ACL_CONFIG,
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG,
    )
)

OPEN_CODES = frozenset((RequestCode.GET_ROUTEINFO_BY_TOPIC,))
"""Requests without an access key. Clients report a denied route query as a missing topic."""

_SEND_LONG = (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)
_SEND_SHORT = (  # requests with field names of one letter
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
"""Request code -> fields with a topic and a group, for which the request needs SUB."""


def group_resource(group: str) -> str:
    return group if group.startswith(RETRY_GROUP_PREFIX) else RETRY_GROUP_PREFIX + group


def required_permissions(command: RemotingCommand) -> list[RequiredPermission]:
    """Raises CorruptFileError for an invalid heartbeat."""
    fields, code = command.ext_fields, command.code
    if code in _SEND_LONG:
        return _permissions_to_send(fields.get("topic"))
    if code in _SEND_SHORT:
        return _permissions_to_send(fields.get("b"))
    if code == RequestCode.HEART_BEAT:
        return list(_permissions_to_subscribe(command))
    topic_field, group_field = _SUBSCRIBED.get(code, (None, None))
    needs = []
    if topic_field is not None and (topic := fields.get(topic_field)):
        needs.append(RequiredPermission(topic, Permission.SUB))
    if group_field is not None and (group := fields.get(group_field)):
        needs.append(RequiredPermission(group_resource(group), Permission.SUB))
    return needs


def _permissions_to_send(topic: str | None) -> list[RequiredPermission]:
    """A send to a retry topic needs SUB, because a consumer sends a message there to receive it again."""
    if not topic:
        return []
    permission = Permission.SUB if topic.startswith(RETRY_GROUP_PREFIX) else Permission.PUB
    return [RequiredPermission(topic, permission)]


def _permissions_to_subscribe(heartbeat: RemotingCommand) -> Iterator[RequiredPermission]:
    for consumer in decode_json_body(heartbeat.body).objects("consumerDataSet", GROUPS_MAX):
        yield RequiredPermission(group_resource(consumer.text("groupName")), Permission.SUB)
        for subscription in consumer.objects("subscriptionDataSet", TOPICS_MAX):
            yield RequiredPermission(subscription.text("topic"), Permission.SUB)


Parts = tuple[int, ...]


class AddressPatternError(ValueError):
    """An invalid address pattern."""

    def __init__(self, pattern: str, expected: str) -> None:
        super().__init__(f"address: expected {expected}, found {pattern!r}")


def address_parts(host: str) -> Parts | None:
    """Return the four or eight numbers of an IP address, or None for other text. Ignore brackets."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            groups = address.exploded.partition("%")[0].split(":")  # without the zone of a link-local address
            assert len(groups) == 8, groups
            return tuple(int(group, 16) for group in groups)
        address = address.ipv4_mapped  # a dual-stack socket reports IPv4 clients like this
    assert isinstance(address, IPv4Address)
    return tuple(address.packed)


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """A pattern of IP addresses. Each row lists the allowed values per part. None matches every address."""

    rows: tuple[tuple[Container[int], ...], ...] | None

    def matches(self, parts: Parts | None) -> bool:
        if self.rows is None:
            return True
        return parts is not None and any(
            len(row) == len(parts) and all(part in allowed for part, allowed in zip(parts, row, strict=True))
            for row in self.rows
        )


NOBODY = AddressPattern(())


def parse_address_pattern(text: str) -> AddressPattern:
    """Raises AddressPatternError."""
    text = java_trim(text)
    if not text:
        return NOBODY
    if text in ("*", "*.*.*.*", "*:*:*:*:*:*:*:*"):
        return AddressPattern(None)
    if "{" not in text and "," in text:
        return AddressPattern(tuple(_parse_pattern_row(java_trim(one), text) for one in text.split(",")))
    return AddressPattern((_parse_pattern_row(text, text),))


def _parse_pattern_row(one: str, pattern: str) -> tuple[Container[int], ...]:
    if ":" in one:
        parts, base, maximum = _split_ipv6(one, pattern), 16, 0xFFFF
    else:
        parts, base, maximum = one.split("."), 10, 0xFF
        if len(parts) != 4:
            raise AddressPatternError(pattern, "four parts")
    last = len(parts) - 1
    row = tuple(_allowed_values(part, base, maximum, pattern, is_last=n == last) for n, part in enumerate(parts))
    assert len(row) in (4, 8), row
    first_range = next((n for n, part in enumerate(parts) if part == "*" or "-" in part), len(parts))
    if any(part != "*" for part in parts[first_range + 1 :]):
        raise AddressPatternError(pattern, "only * after a range")
    return row


def _split_ipv6(one: str, pattern: str) -> Sequence[str]:
    head, gap, tail = one.partition("::")
    before, after = (side.split(":") if side else [] for side in (head, tail))
    missing = 8 - len(before) - len(after)
    if missing < 0 or (missing > 0) != bool(gap):
        raise AddressPatternError(pattern, "eight parts")
    parts = [*before, *["0"] * missing, *after]
    assert len(parts) == 8, parts
    return parts


def _allowed_values(part: str, base: int, maximum: int, pattern: str, *, is_last: bool) -> Container[int]:
    if part == "*":
        return range(maximum + 1)
    if part.startswith("{") and part.endswith("}") and is_last:
        return frozenset(_parse_number(java_trim(one), base, maximum, pattern) for one in part[1:-1].split(","))
    low, dash, high = part.partition("-")
    first = _parse_number(java_trim(low), base, maximum, pattern)
    last = _parse_number(java_trim(high), base, maximum, pattern) if dash else first
    if first > last:
        raise AddressPatternError(pattern, "an ascending range")
    return range(first, last + 1)


def _parse_number(text: str, base: int, maximum: int, pattern: str) -> int:
    digits = "0123456789abcdefABCDEF" if base == 16 else "0123456789"
    if not 1 <= len(text) <= 4 or any(digit not in digits for digit in text) or int(text, base) > maximum:
        shown = f"{maximum:x}" if base == 16 else f"{maximum}"
        raise AddressPatternError(pattern, f"parts of 0 to {shown}")
    return int(text, base)


def hmac_signature(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Return the HmacSHA1 signature in base 64, without an existing signature field."""
    values = "".join(fields[name] for name in sorted(fields) if name != SIGNATURE)
    digest = hmac.new(secret_key.encode(), values.encode(), hashlib.sha1)
    digest.update(body)
    return base64.b64encode(digest.digest()).decode()


def has_valid_signature(command: RemotingCommand, secret_key: str) -> bool:
    """Check the signature in constant time.

    Some RocketMQ clients also sign the field _UNIQUE_KEY_QUERY, so a signature may include this field or not.
    """
    found = command.ext_fields.get(SIGNATURE, "").encode()
    signed = hmac.compare_digest(found, hmac_signature(command.ext_fields, command.body, secret_key).encode())
    if signed or _UNIQUE_KEY_QUERY not in command.ext_fields:
        return signed
    others = {name: value for name, value in command.ext_fields.items() if name != _UNIQUE_KEY_QUERY}
    return hmac.compare_digest(found, hmac_signature(others, command.body, secret_key).encode())


def make_signer(
    access_key: str, secret_key: str, security_token: str | None = None
) -> Callable[[RemotingCommand], RemotingCommand]:
    own = {ACCESS_KEY: access_key} | ({} if security_token is None else {SECURITY_TOKEN: security_token})

    def sign(command: RemotingCommand) -> RemotingCommand:
        fields = {**command.ext_fields, **own}
        fields[SIGNATURE] = hmac_signature(fields, command.body, secret_key)
        return replace(command, ext_fields=fields)

    return sign


@dataclass(frozen=True, slots=True)
class Account:
    """Account of an access key. `perms` has topics as keys; the key of a group is its retry topic."""

    access_key: str
    secret_key: str = field(repr=False)
    white_remote_address: AddressPattern = NOBODY
    """Requests from these addresses need neither signature nor permission."""
    admin: bool = False
    default_topic_perm: Permission = Permission.DENY
    default_group_perm: Permission = Permission.DENY
    perms: Mapping[str, Permission] = field(default_factory=dict)

    def has_permission(self, need: RequiredPermission) -> bool:
        default = self.default_group_perm if need.is_group else self.default_topic_perm
        return need.permission in self.perms.get(need.resource, default)


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Accounts by access key, and the global white list."""

    accounts: Mapping[str, Account]
    global_white_remote_addresses: tuple[AddressPattern, ...] = ()

    def check_access(self, command: RemotingCommand, host: str) -> None:
        """Raises AccessDeniedError with RocketMQ's wording."""
        if command.code in OPEN_CODES:
            return
        parts = address_parts(host)
        if any(pattern.matches(parts) for pattern in self.global_white_remote_addresses):
            return
        access_key = command.ext_fields.get(ACCESS_KEY)
        if access_key is None:
            raise _access_denied_error("No accessKey is configured")
        account = self.accounts.get(access_key)
        if account is None:
            raise _access_denied_error(f"No acl config for {access_key}")
        if account.white_remote_address.matches(parts):
            return
        # Check the signature first, because errors about permissions reveal the account's permissions.
        if not has_valid_signature(command, account.secret_key):
            raise _access_denied_error(f"Check signature failed for accessKey={access_key}")
        if command.code in ADMIN_CODES and not account.admin:
            code = command.code
            raise _access_denied_error(
                f"Need admin permission for request code={code}, but accessKey={access_key} is not"
            )
        if account.admin and not account.perms:
            return
        needs = required_permissions(command)
        if RequiredPermission(TRACE_TOPIC, Permission.PUB) in needs:
            return  # every account may send to the trace topic
        for need in needs:
            if not account.has_permission(need):
                raise _access_denied_error(f"No default permission for {need.describe()}")


def _access_denied_error(reason: str) -> AccessDeniedError:
    return AccessDeniedError(ResponseCode.SYSTEM_ERROR, f"org.apache.rocketmq.acl.common.AclException: {reason}")
