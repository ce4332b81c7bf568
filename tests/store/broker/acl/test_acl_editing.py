"""Changes of accounts while a broker runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tornlog.store.broker.acl.plain_acl import AccessControl, PlainAclError, read_plain_acl
from tornlog.store.broker.processors.acl_admin import AclAdminProcessor
from tornlog.store.broker.requests import RequestCode, RequestRefusedError, ResponseCode
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.real.world import real_world

FILE = """globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: RocketMQ
  secretKey: 0123456789
  admin: true
"""


class Parts:
    """The parts of a broker that the processor uses."""

    class config:  # noqa: N801
        address = "127.0.0.1:10911"
        broker_name = "broker-a"
        broker_cluster_name = "DefaultCluster"

    def __init__(self, access: AccessControl | None) -> None:
        self.access = access
        self.world = real_world()


@pytest.fixture
def access(tmp_path: Path) -> AccessControl:
    path = tmp_path / "plain_acl.yml"
    path.write_text(FILE)
    return AccessControl(real_world(), str(path), lambda line: None)


def call_acl_admin(access: AccessControl | None, do: str, **fields: str) -> RemotingCommand:
    parts: Any = Parts(access)
    channel: Any = None
    answer: RemotingCommand = getattr(AclAdminProcessor(parts), do)(RemotingCommand(1, 1, ext_fields=fields), channel)
    return answer


def test_a_new_or_changed_account_is_written_to_the_file_and_applies_at_once(access: AccessControl) -> None:
    made = {"accessKey": "order-service", "secretKey": "0987654321", "topicPerms": "Orders=PUB|SUB, Other=DENY"}
    call_acl_admin(
        access, "update_account", **made, groupPerms="billing=SUB", admin="false", whiteRemoteAddress="10.0.0.7"
    )
    account = access.rules.accounts["order-service"]
    assert account.secret_key == "0987654321", "a key of digits stays a text"
    assert sorted(account.perms) == ["%RETRY%billing", "Orders", "Other"]
    call_acl_admin(access, "update_account", accessKey="order-service", defaultTopicPerm="PUB")
    assert access.rules.accounts["order-service"].secret_key == "0987654321"
    written = read_plain_acl(Path(access.path).read_text())
    assert written == access.rules
    assert written.accounts["RocketMQ"].secret_key == "0123456789"
    assert written.accounts["RocketMQ"].admin
    assert "counter: 2" in Path(access.path).read_text()
    assert Path(f"{access.path}.bak").exists()


def test_accounts_can_be_removed_and_the_global_white_list_replaced(access: AccessControl) -> None:
    call_acl_admin(access, "update_white_addresses", globalWhiteAddrs="10.0.0.1,10.0.0.2")
    assert len(access.rules.global_white_remote_addresses) == 2
    call_acl_admin(access, "delete_account", accessKey="RocketMQ")
    assert access.rules.accounts == {}


@pytest.mark.parametrize(
    ("do", "fields", "code"),
    [
        ("update_account", {"accessKey": "short"}, ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED),
        (
            "update_account",
            {"accessKey": "RocketMQ", "topicPerms": "a=SOME"},
            ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED,
        ),
        ("delete_account", {"accessKey": "nobody-1"}, ResponseCode.DELETE_ACL_CONFIG_FAILED),
        (
            "update_white_addresses",
            {"globalWhiteAddrs": "10.0.0.300"},
            ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED,
        ),
    ],
)
def test_an_invalid_account_change_is_refused_and_the_file_does_not_change(
    access: AccessControl, do: str, fields: dict[str, str], code: ResponseCode
) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        call_acl_admin(access, do, **fields)
    assert refused.value.code == code
    assert Path(access.path).read_text() == FILE


def test_an_invalid_acl_file_is_not_overwritten(access: AccessControl) -> None:
    Path(access.path).write_text("accounts: none\n")
    with pytest.raises(PlainAclError):
        access.edit_file(lambda text: text)
    assert Path(access.path).read_text() == "accounts: none\n"


def test_acl_version_and_accounts_can_be_listed(access: AccessControl) -> None:
    call_acl_admin(access, "update_account", accessKey="order-service", secretKey="87654321")
    told = call_acl_admin(access, "acl_version").ext_fields
    assert json.loads(told["version"])["counter"] == 1
    assert json.loads(told["allAclFileVersion"]) == {access.path: json.loads(told["version"])}
    body = json.loads(call_acl_admin(access, "all_accounts").body)
    assert body["globalWhiteAddrs"] == ["10.10.103.*"]
    assert [account["accessKey"] for account in body["plainAccessConfigs"]] == ["RocketMQ", "order-service"]


def test_account_changes_are_refused_without_access_control() -> None:
    with pytest.raises(RequestRefusedError, match="no access control"):
        call_acl_admin(None, "acl_version")


def test_only_administrators_may_see_or_change_accounts_and_settings(access: AccessControl) -> None:
    codes = [RequestCode[name] for name in ("GET_BROKER_CLUSTER_ACL_CONFIG", "UPDATE_BROKER_CONFIG", "PUT_KV_CONFIG")]
    for code in codes:
        with pytest.raises(Exception, match="No accessKey"):
            access.rules.check_access(RemotingCommand(code, 1), "10.0.0.1")


@pytest.mark.parametrize("request_name", ["acl_version", "all_accounts"])
def test_a_look_at_an_invalid_file_is_refused_with_its_error(access: AccessControl, request_name: str) -> None:
    Path(access.path).write_bytes(b"accounts:\n- accessKey: \xff\n")
    with pytest.raises(RequestRefusedError, match="UTF-8"):
        call_acl_admin(access, request_name)
