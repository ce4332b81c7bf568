"""Editor of plain_acl.yml: changes accounts and white lists.

The editor generates the whole text from the parsed file, so comments are lost, as in RocketMQ. The caller must check
the result before use. The editor reads all YAML values as strings, so that a key of digits stays a string.
Source: RocketMQ PlainPermissionManager.updateAccessConfig, deleteAccessConfig, updateGlobalWhiteAddrsConfig.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..versioned_table import DataVersion

_ACCOUNTS = "accounts"
_WHITE = "globalWhiteRemoteAddresses"
_VERSION = "dataVersion"
_LISTS = ("topicPerms", "groupPerms")


class NoSuchAccountError(LookupError):
    """The access key belongs to no account."""


def put_account_in_text(text: str, account: Mapping[str, str | Sequence[str]], version: DataVersion) -> str:
    """Replace the given fields of an account, or append a new account."""
    root, key = _yaml_root(text), account["accessKey"]
    accounts = root.setdefault(_ACCOUNTS, None) or []
    known = next((each for each in accounts if each.get("accessKey") == key), None)
    if known is None:
        accounts.append(known := {})
    known.update(account)
    root[_ACCOUNTS] = accounts
    return _yaml_text(root, version)


def remove_account_from_text(text: str, access_key: str, version: DataVersion) -> str:
    """Raises NoSuchAccountError."""
    root = _yaml_root(text)
    accounts = root.get(_ACCOUNTS) or []
    root[_ACCOUNTS] = [each for each in accounts if each.get("accessKey") != access_key]
    if len(root[_ACCOUNTS]) == len(accounts):
        raise NoSuchAccountError(access_key)
    return _yaml_text(root, version)


def put_white_addresses_in_text(text: str, addresses: Sequence[str], version: DataVersion) -> str:
    return _yaml_text({**_yaml_root(text), _WHITE: list(addresses)}, version)


def accounts_as_json(text: str) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the white list and all accounts in the form that RocketMQ's tools expect."""
    root = _yaml_root(text)
    accounts = [{**each, "admin": each.get("admin") == "true"} for each in root.get(_ACCOUNTS) or []]
    for account in accounts:
        account |= {name: account.get(name) or [] for name in _LISTS}
    return root.get(_WHITE) or [], accounts


def version_of(text: str) -> DataVersion:
    versions = _yaml_root(text).get(_VERSION) or [{}]
    first = versions[0] if isinstance(versions, list) and isinstance(versions[0], dict) else {}
    numbers = [str(first.get(name, "0")) for name in ("timestamp", "counter")]
    return DataVersion(*(int(number) if number.isdecimal() else 0 for number in numbers))


def _yaml_root(text: str) -> dict[str, Any]:
    import yaml

    return yaml.load(text, Loader=yaml.BaseLoader) or {}


def _yaml_text(root: dict[str, Any], version: DataVersion) -> str:
    import yaml

    accounts = [{**each, "admin": each.get("admin") == "true"} for each in root.get(_ACCOUNTS) or []]
    written = {**root, _ACCOUNTS: accounts, _VERSION: [version.json_members]}
    return str(yaml.safe_dump(written, sort_keys=False, allow_unicode=True))
