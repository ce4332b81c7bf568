"""Bugs of access control: accounts, signatures, permissions, and the file that has them."""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from ....store.broker.acl import editing, rules
from ....store.broker.acl.plain_acl import AccessControl, PlainAclError, read_plain_acl
from ....store.broker.acl.rules import AccessRules, AddressPattern, Parts, Permission, RequiredPermission
from ....store.broker.processors import acl_admin
from ....store.broker.request_pool import PooledRequest
from ....store.broker.requests import response_to
from ....store.broker.router import Response
from ....store.broker.server import RemotingServer
from ....store.broker.versioned_table import DataVersion
from ....store.errors import AccessDeniedError
from ....store.formats.remoting.command import RemotingCommand
from ...claims.catalogue import SCENARIOS
from ...runs.broker.access_file import OTHERS
from ..mutant import bit, bug, needs

_ACCOUNTS = SCENARIOS["broker-accounts"].ranges.replace(broker={"rest_ms_max": (15_000,)})
_EDITED = _ACCOUNTS.replace(access={"edited_by_hand": (True,)})


@bug("signature-not-checked", rules, "has_valid_signature", found_by=("STATUS",))
@needs(_ACCOUNTS)
def accept_signature(command: RemotingCommand, secret_key: str) -> bool:
    """A broker executes a request that was signed with another secret key."""
    bit(not accept_signature.original(command, secret_key))
    return True


@bug("group-permission-ignored", rules, "required_permissions", found_by=("STATUS",))
@needs(_ACCOUNTS)
def require_topics_only(command: RemotingCommand) -> list[RequiredPermission]:
    """A broker checks the permission for a topic, and not that for the group."""
    needed = require_topics_only.original(command)
    bit(any(each.is_group for each in needed))
    return [each for each in needed if not each.is_group]


@bug("admin-requests-for-all", AccessRules, "check_access", found_by=("STATUS",))
@needs(_ACCOUNTS)
def check_without_admins(self: AccessRules, command: RemotingCommand, host: str) -> None:
    """An account that is no administrator changes topics and accounts."""
    try:
        check_without_admins.original(self, command, host)
    except AccessDeniedError as error:
        if not bit("Need admin permission" in str(error)):
            raise


@bug("white-list-matches-prefix", AddressPattern, "matches", found_by=("STATUS",))
@needs(_ACCOUNTS)
def match_any_last_part(self: AddressPattern, parts: Parts | None) -> bool:
    """An address in a white list lets a whole network in."""
    if match_any_last_part.original(self, parts):
        return True
    cut = [row[:3] for row in self.rows or () if len(row) == 4]
    return bit(
        parts is not None
        and any(all(part in allowed for part, allowed in zip(parts[:3], row, strict=True)) for row in cut)
    )


@bug("account-change-in-memory", AccessControl, "edit_file", found_by=("META",))
@needs(_ACCOUNTS, lives=(2,))
def edit_memory(self: AccessControl, edit: Callable[[str], str]) -> None:
    """An administrator's change of an account is answered with SUCCESS and lost at the next start."""
    with self._lock:
        self.rules = read_plain_acl(edit(self.read_text()))
        bit()


@bug("account-change-applies-late", AccessControl, "edit_file", found_by=("STATUS",))
@needs(_ACCOUNTS, access={"edited_by_hand": (False,)})
def edit_file_alone(self: AccessControl, edit: Callable[[str], str]) -> None:
    """An administrator's change of an account applies only when the broker reads the file again."""
    before, seen = self.rules, self._seen
    edit_file_alone.original(self, edit)
    bit(self.rules != before)
    self.rules, self._seen = before, seen


@bug("accounts-never-reloaded", AccessControl, "_reload_if_changed", found_by=("STATUS",))
@needs(_EDITED)
def reload_nothing(self: AccessControl) -> None:
    """An account that was removed from the file keeps its permissions until a restart."""
    bit(self._file_state() != self._seen)


@bug("accounts-compared-by-length", AccessControl, "_file_state", found_by=("STATUS",))
@needs(_EDITED)
def file_state_by_length(self: AccessControl) -> tuple[int, int] | None:
    """An edit of the file with the accounts that keeps its length is not noticed: a permission changed from PUB to SUB
    still allows sends."""
    state = file_state_by_length.original(self)
    if state is None:
        return None
    seen: tuple[int, int] | None = self.__dict__.get("_seen")  # the first look comes before it
    bit(seen is not None and state[0] == seen[0] and state != seen)
    return state[0], 0


@bug("damaged-accounts-open-broker", AccessControl, "_read_rules", found_by=("STATUS",))
@needs(_EDITED)
def read_rules_or_open(self: AccessControl) -> AccessRules:
    """While the file with the accounts is invalid, a broker executes the requests of every client."""
    try:
        return read_rules_or_open.original(self)
    except PlainAclError:
        bit()
        return AccessRules({}, (AddressPattern(None),))


@bug("interrupted-account-change", AccessControl, "_restore_interrupted_edit", found_by=("START", "LIVE"))
@needs(_ACCOUNTS, lives=(2,), endings=("crash in traffic",), crash_aim=("mark",))
def restore_nothing(self: AccessControl) -> None:
    """After a crash inside a change of an account, a broker does not find its accounts and cannot start."""
    bit(self.world.files.status(self.path) is None)


@bug("refused-request-executed", RemotingServer, "_make_response", found_by=("PREFIX", "META", "STATUS"))
@needs(_ACCOUNTS)
def execute_before_check(self: RemotingServer, request: PooledRequest) -> Response:
    """A broker executes a request that it then refuses, so a client without permission stores messages."""
    check, self._check = self._check, None
    response = execute_before_check.original(self, request)
    self._check = check
    try:
        if check is not None:
            check(request.command, request.session)
    except AccessDeniedError as error:
        bit()
        return response_to(request.command, error.code, str(error))
    return response


@bug("white-range-without-its-end", rules, "_allowed_values", found_by=("STATUS",))
@needs(_ACCOUNTS)
def allowed_values_to_end(part: str, base: int, maximum: int, pattern: str, *, is_last: bool) -> Container[int]:
    """A range of addresses in a white list does not contain its last address."""
    found: Container[int] = allowed_values_to_end.original(part, base, maximum, pattern, is_last=is_last)
    return found[:-1] if isinstance(found, range) and bit("-" in part and part not in OTHERS) else found


@bug("retry-send-needs-pub", rules, "_permissions_to_send", found_by=("STATUS",))
@needs(_ACCOUNTS)
def require_pub(topic: str | None) -> list[RequiredPermission]:
    """A consumer with SUB for its group cannot send to the group's retry topic."""
    needed = require_pub.original(topic)
    bit(any(each.is_group for each in needed))
    return [each._replace(permission=Permission.PUB) for each in needed]


@bug("unique-key-always-signed", rules, "has_valid_signature", found_by=("STATUS",))
@needs(_ACCOUNTS)
def check_all_fields(command: RemotingCommand, secret_key: str) -> bool:
    """A broker refuses the query of a client that does not sign the field _UNIQUE_KEY_QUERY."""
    fields = {name: text for name, text in command.ext_fields.items() if name != "_UNIQUE_KEY_QUERY"}
    found = bool(check_all_fields.original(command, secret_key))
    bit(found and fields.keys() != command.ext_fields.keys())
    return found and rules.hmac_signature(command.ext_fields, command.body, secret_key) == fields.get("Signature")


@bug("account-key-becomes-number", editing, "_yaml_root", found_by=("STATUS", "META"))
@needs(_ACCOUNTS, access={"edited_by_hand": (False,)})
def typed_root(text: str) -> dict[str, Any]:
    """A change of one account turns the key 0012345 of another into 5349, so its client is refused."""
    root = typed_root.original(text)
    for each in root.get("accounts") or []:
        if bit(each["accessKey"] == "0012345"):
            each["accessKey"] = int("0012345", 8)
    return root


@bug("invalid-account-change-written", AccessControl, "edit_file", found_by=("START", "META", "LIVE", "STATUS"))
@needs(_ACCOUNTS, access={"edited_by_hand": (False,)})
def edit_file_unchecked(self: AccessControl, edit: Callable[[str], str]) -> None:
    """A refused change of an account is in the file, with which the broker cannot start again."""
    try:
        edit_file_unchecked.original(self, edit)
    except PlainAclError:
        bit()
        self._file.store(edit(self.read_text()).encode())
        raise


@bug("missing-accounts-close-broker", AccessControl, "_reload_if_changed", found_by=("STATUS", "LIVE"))
@needs(_EDITED)
def reload_missing(self: AccessControl) -> None:
    """While the file with the accounts is missing, a broker refuses all clients."""
    if bit(self._file_state() is None):
        self.rules, self._seen = AccessRules({}), None
    else:
        reload_missing.original(self)


# apache/rocketmq issue 3128.
@bug("cleared-white-list-stays", acl_admin, "put_white_addresses_in_text", found_by=("STATUS", "META"))
@needs(_ACCOUNTS, access={"edited_by_hand": (False,)})
def put_white_addresses_if_any(text: str, addresses: Sequence[str], version: DataVersion) -> str:
    """An operator clears the global white list and gets SUCCESS, but its addresses still need no signature."""
    known = editing.accounts_as_json(text)[0]
    cleared = bit(not addresses and bool(known))
    return put_white_addresses_if_any.original(text, known if cleared else addresses, version)


@bug("account-change-clears-permissions", acl_admin, "put_account_in_text", found_by=("STATUS", "META"))
@needs(_ACCOUNTS, access={"edited_by_hand": (False,)})
def put_whole_account(text: str, account: Mapping[str, str | Sequence[str]], version: DataVersion) -> str:
    """A change of an account that names no topics or no groups removes the account's permissions for them."""
    accounts = editing.accounts_as_json(text)[1]
    known = next((each for each in accounts if each["accessKey"] == account["accessKey"]), {})
    left_out = [name for name in ("topicPerms", "groupPerms") if known.get(name) and name not in account]
    bit(bool(left_out))
    return put_whole_account.original(text, {**account, **{name: [] for name in left_out}}, version)
