"""Bugs of access control: accounts, signatures, permissions, and the file that has them."""

from collections.abc import Callable

from ....store.broker.acl import rules
from ....store.broker.acl.plain_acl import AccessControl, PlainAclError, read_plain_acl
from ....store.broker.acl.rules import AccessRules, AddressPattern, Parts, RequiredPermission
from ....store.broker.request_pool import PooledRequest
from ....store.broker.requests import response_to
from ....store.broker.router import Response
from ....store.broker.server import RemotingServer
from ....store.errors import AccessDeniedError
from ....store.formats.remoting.command import RemotingCommand
from ...claims.catalogue import SCENARIOS
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
