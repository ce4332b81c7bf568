"""Access control: parses plain_acl.yml, and reloads the file after a change (docs/broker-reference.md).

For an invalid entry, the parser raises an error with the line number; RocketMQ ignores the entry or reads it as DENY.
The parser ignores the dataVersion that RocketMQ's tools write. It uses PyYAML's node API, because only that API gives
line numbers. PyYAML is an optional dependency. Source: RocketMQ PlainPermissionManager.load, PlainAccessConfig,
Permission.parseResourcePerms, AclFileWatchService.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ...errors import install_command
from ...formats.java_text import java_trim
from ...formats.remoting.command import RemotingCommand
from ...marks import count_mark
from ...service import Service
from ...side_file import SideFile
from ...world import World
from ..operator_log import Emit, warning_line
from ..router import Channel
from .rules import (
    NOBODY,
    PERMISSIONS,
    AccessRules,
    Account,
    AddressPattern,
    AddressPatternError,
    Permission,
    group_resource,
    parse_address_pattern,
)

KEY_CHARACTERS_MIN = 7
_KEYS = ("globalWhiteRemoteAddresses", "accounts", "dataVersion")
_PERM_KEYS = ("defaultTopicPerm", "defaultGroupPerm", "topicPerms", "groupPerms")
_ACCOUNT_KEYS = ("accessKey", "secretKey", "whiteRemoteAddress", "admin", *_PERM_KEYS)
_BOOLEANS = {"true": True, "false": False}
_Node = Any  # a PyYAML node: tag, value, position
_Value = TypeVar("_Value")

WATCH_INTERVAL_MS = 5_000


class PlainAclError(ValueError):
    """An invalid file. The message contains the line, the expected and the found value."""

    def __init__(self, line: int, name: str, expected: str, found: str) -> None:
        super().__init__(f"line {line}: {name}: expected {expected}, found {found}")
        self.line = line


def read_plain_acl(text: str) -> AccessRules:
    """Raises PlainAclError, or ModuleNotFoundError without PyYAML."""
    root = _compose_yaml(text)
    if root is None:
        return AccessRules({})
    members = _mapping_members(root, "the file", _KEYS)
    accounts: dict[str, Account] = {}
    for node in _sequence_items(members.get("accounts"), "accounts"):
        account = _parse_account(node)
        if account.access_key in accounts:
            raise PlainAclError(_line_number(node), "accessKey", "a unique access key", repr(account.access_key))
        accounts[account.access_key] = account
    white = _sequence_items(members.get("globalWhiteRemoteAddresses"), "globalWhiteRemoteAddresses")
    return AccessRules(accounts, tuple(_parse_pattern_of_node(node, "globalWhiteRemoteAddresses") for node in white))


def _compose_yaml(text: str) -> _Node:
    try:
        import yaml
    except ModuleNotFoundError as error:
        missing = f"a plain_acl.yml needs PyYAML, which is not installed: {install_command('acl')} installs it"
        raise ModuleNotFoundError(missing, name=error.name) from error
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise PlainAclError(line, "file", "YAML", f"{error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise PlainAclError(1, "file", "YAML", str(error)) from error


def _parse_account(node: _Node) -> Account:
    members = _mapping_members(node, "an account", _ACCOUNT_KEYS)
    perms: dict[str, Permission] = {}
    for list_name, resource_of in (("topicPerms", str), ("groupPerms", group_resource)):
        for item in _sequence_items(members.get(list_name), list_name):
            name, permission = _parse_permission(item, list_name)
            resource = resource_of(name)
            if resource in perms:
                raise PlainAclError(_line_number(item), list_name, "unique names", repr(resource))
            perms[resource] = permission
    white = members.get("whiteRemoteAddress")
    return Account(
        _parse_key(node, members, "accessKey"),
        _parse_key(node, members, "secretKey"),
        NOBODY if white is None else _parse_pattern_of_node(white, "whiteRemoteAddress"),
        _parse_choice(members.get("admin"), "admin", _BOOLEANS, False),
        _parse_choice(members.get("defaultTopicPerm"), "defaultTopicPerm", PERMISSIONS, Permission.DENY),
        _parse_choice(members.get("defaultGroupPerm"), "defaultGroupPerm", PERMISSIONS, Permission.DENY),
        perms,
    )


def _parse_key(account: _Node, members: Mapping[str, _Node], name: str) -> str:
    node = members.get(name)
    text = "" if node is None else _scalar_text(node, name)
    if len(text) < KEY_CHARACTERS_MIN:
        line = _line_number(account if node is None else node)
        raise PlainAclError(line, name, f"{KEY_CHARACTERS_MIN} characters or more", f"{len(text)}")
    return text


def _parse_permission(item: _Node, list_name: str) -> tuple[str, Permission]:
    text = _scalar_text(item, list_name)
    name, equals, permission = map(java_trim, text.partition("="))
    if not equals or not name or permission not in PERMISSIONS:
        expected = f"NAME=PERMISSION with one of {', '.join(PERMISSIONS)}"
        raise PlainAclError(_line_number(item), list_name, expected, repr(text))
    return name, PERMISSIONS[permission]


def _line_number(node: _Node) -> int:
    return int(node.start_mark.line) + 1


def _mapping_members(node: _Node, where: str, known: tuple[str, ...]) -> dict[str, _Node]:
    if node.id != "mapping":
        raise PlainAclError(_line_number(node), where, "a mapping", f"a {node.id}")
    members: dict[str, _Node] = {}
    for key, value in node.value:
        name = _scalar_text(key, where)
        if name not in known:
            raise PlainAclError(_line_number(key), where, f"one of {', '.join(known)}", repr(name))
        if name in members:
            raise PlainAclError(_line_number(key), where, "unique names", repr(name))
        members[name] = value
    return members


def _sequence_items(node: _Node, name: str) -> list[_Node]:
    if node is None or (node.id == "scalar" and not node.value):
        return []
    if node.id != "sequence":
        raise PlainAclError(_line_number(node), name, "a list", f"a {node.id}")
    return list(node.value)


def _scalar_text(node: _Node, name: str) -> str:
    """Return the text of a scalar, so that a key of digits stays a string."""
    if node.id != "scalar":
        raise PlainAclError(_line_number(node), name, "a string", f"a {node.id}")
    return str(node.value)


def _parse_pattern_of_node(node: _Node, name: str) -> AddressPattern:
    try:
        return parse_address_pattern(_scalar_text(node, name))
    except AddressPatternError as error:
        raise PlainAclError(_line_number(node), name, "an address pattern", str(error)) from error


def _parse_choice(node: _Node, name: str, values: Mapping[str, _Value], default: _Value) -> _Value:
    text = "" if node is None else java_trim(_scalar_text(node, name))
    if not text:
        return default
    if text not in values:
        raise PlainAclError(_line_number(node), name, f"one of {', '.join(values)}", repr(text))
    return values[text]


class AccessControl(Service):
    """Applies the rules of a plain_acl.yml. While the file is unreadable or invalid, the last valid rules apply.

    Source: RocketMQ AclFileWatchService.
    """

    name = "access control"

    def __init__(self, world: World, path: str, emit: Emit, interval_ms: int = WATCH_INTERVAL_MS) -> None:
        """Read the file. Raises PlainAclError, or OSError if reading fails."""
        super().__init__(world)
        self.path = path
        self._file = SideFile(world.files, path)
        self._lock = world.tasks.lock("plain acl")
        self._emit = emit
        self._interval_ms = interval_ms
        self._disk_fault = ""
        """The read error of the last poll, or empty. The same error is logged only once."""
        self._restore_interrupted_edit()
        self._seen = self._file_state()
        self.rules = self._read_rules()

    def _restore_interrupted_edit(self) -> None:
        """Restore the file from its backup if a crash during an edit has left only the backup."""
        files, backup = self.world.files, self._file.backup_path
        if files.status(self.path) is None and files.status(backup) is not None:
            self._file.store(files.read(backup))

    def check_access(self, command: RemotingCommand, channel: Channel) -> None:
        """Raises AccessDeniedError."""
        self.rules.check_access(command, channel.remote_address.rpartition(":")[0])

    def read_text(self) -> str:
        """Raises PlainAclError for invalid UTF-8, OSError if reading fails."""
        try:
            return self.world.files.read(self.path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise PlainAclError(1, "file", "UTF-8", str(error)) from error

    def edit_file(self, edit: Callable[[str], str]) -> None:
        """Edit the file durably, then apply the new rules.

        If the text is invalid before or after the edit, raises PlainAclError and leaves the file unchanged. Errors of
        `edit` and of the disk propagate.
        """
        with self._lock:
            before = self.read_text()
            read_plain_acl(before)
            changed = edit(before)
            rules = read_plain_acl(changed)
            count_mark("accounts edited")
            self._file.load(lambda raw, _: raw)  # after a load, `store` keeps the old text as `.bak`
            self._file.store(changed.encode())
            self.rules, self._seen = rules, self._file_state()
        self._emit(f"{self.path}: changed by an administrator, {len(rules.accounts)} accounts")

    def run_once(self) -> None:
        self.signal.wait(self._interval_ms)
        with self._lock:  # otherwise older rules could replace those of a concurrent edit
            self._reload_if_changed()

    def _reload_if_changed(self) -> None:
        fault, seen = "", self._seen
        try:
            seen = self._file_state()
            if seen != self._seen:
                self.rules = self._read_rules()
                self._emit(f"{self.path}: reloaded, {len(self.rules.accounts)} accounts")
        except PlainAclError as error:
            self._emit(warning_line(f"{self.path}: {error}; the previous rules stay in force"))
        except OSError as error:  # the next poll retries
            fault, seen = str(error), None
            if fault != self._disk_fault:
                self._emit(warning_line(f"{self.path}: {error}; the previous rules stay in force"))
        self._disk_fault, self._seen = fault, seen

    def _file_state(self) -> tuple[int, int] | None:
        status = self.world.files.status(self.path)
        return None if status is None else (status.size_bytes, status.mtime_ms)

    def _read_rules(self) -> AccessRules:
        return read_plain_acl(self.read_text())
