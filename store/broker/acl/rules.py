"""The rules of one plain_acl.yml: who is let in, and what each account may do.

Source: RocketMQ PlainPermissionManager.validate, checkPerm.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...errors import AccessDeniedError
from ...formats.remoting.command import RemotingCommand
from ..requests import ResponseCode
from .addresses import NOBODY, AddressPattern, address_parts
from .permissions import ADMIN_CODES, OPEN_CODES, Need, Permission, needs_of
from .signature import ACCESS_KEY, is_signed

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


@dataclass(frozen=True, slots=True)
class Account:
    """One access key. Permissions are by topic, a group's by that of its retry topic."""

    access_key: str
    secret_key: str = field(repr=False)
    white_remote_address: AddressPattern = NOBODY
    """From here it needs neither signature nor permission."""
    admin: bool = False
    default_topic_perm: Permission = Permission.DENY
    default_group_perm: Permission = Permission.DENY
    perms: Mapping[str, Permission] = field(default_factory=dict)

    def may(self, need: Need) -> bool:
        """Return whether it has a permission, by name or by default."""
        default = self.default_group_perm if need.is_group else self.default_topic_perm
        return need.permission in self.perms.get(need.resource, default)


@dataclass(frozen=True, slots=True)
class AccessRules:
    """All accounts of a file by access key, and the addresses from which everything is allowed."""

    accounts: Mapping[str, Account]
    global_white_remote_addresses: tuple[AddressPattern, ...] = ()

    def check(self, command: RemotingCommand, host: str) -> None:
        """Return if a request from an address is allowed. Raises AccessDeniedError with RocketMQ's words."""
        if command.code in OPEN_CODES:
            return
        parts = address_parts(host)
        if any(pattern.matches(parts) for pattern in self.global_white_remote_addresses):
            return
        access_key = command.ext_fields.get(ACCESS_KEY)
        if access_key is None:
            raise _denied("No accessKey is configured")
        account = self.accounts.get(access_key)
        if account is None:
            raise _denied(f"No acl config for {access_key}")
        if account.white_remote_address.matches(parts):
            return
        if not is_signed(command, account.secret_key):
            raise _denied(f"Check signature failed for accessKey={access_key}")
        if command.code in ADMIN_CODES and not account.admin:
            code = command.code
            raise _denied(f"Need admin permission for request code={code}, but accessKey={access_key} is not")
        if account.admin and not account.perms:
            return
        needs = needs_of(command)
        if Need(TRACE_TOPIC, Permission.PUB) in needs:
            return  # whoever is let in may leave traces
        for need in needs:
            if not account.may(need):
                raise _denied(f"No default permission for {need.describe()}")


def _denied(why: str) -> AccessDeniedError:
    return AccessDeniedError(ResponseCode.SYSTEM_ERROR, f"org.apache.rocketmq.acl.common.AclException: {why}")
