"""ACL admin: processor of requests about accounts and white lists.

    UPDATE_AND_CREATE_ACL_CONFIG  DELETE_ACL_CONFIG  UPDATE_GLOBAL_WHITE_ADDRS_CONFIG
    GET_BROKER_CLUSTER_ACL_INFO  GET_BROKER_CLUSTER_ACL_CONFIG

A change is durable and effective before the answer.
Source: RocketMQ AdminBrokerProcessor, CreateAccessConfigRequestHeader, GetBrokerAclConfigResponseHeader,
GetBrokerClusterAclConfigResponseBody.
"""

from collections.abc import Callable

from ...formats.java_text import java_trim
from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import encode_json_body
from ..acl.editing import (
    NoSuchAccountError,
    accounts_as_json,
    put_account_in_text,
    put_white_addresses_in_text,
    remove_account_from_text,
    version_of,
)
from ..acl.plain_acl import AccessControl, PlainAclError, read_plain_acl
from ..parts import BrokerParts
from ..requests import ExtFields, RequestRefusedError, ResponseCode, success_response
from ..router import Channel
from ..versioned_table import DataVersion

_TEXTS = ("secretKey", "whiteRemoteAddress", "defaultTopicPerm", "defaultGroupPerm")
_LISTS = ("topicPerms", "groupPerms")


class AclAdminProcessor:
    """Processor of administrators' requests."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    @property
    def _require_access_control(self) -> AccessControl:
        access = self._parts.access
        if access is None:
            raise RequestRefusedError("this broker has no access control: it was started without a plain_acl.yml")
        return access

    def update_account(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Change the given fields of an account, or create it."""
        fields = ExtFields(request.ext_fields)
        account: dict[str, str | list[str]] = {"accessKey": fields.text("accessKey")}
        account |= {name: text for name in _TEXTS if (text := fields.text(name, ""))}
        account |= {name: _split_lines(text) for name in _LISTS if (text := fields.text(name, ""))}
        if "admin" in request.ext_fields:
            account["admin"] = str(fields.boolean("admin")).lower()
        code = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
        return self._edit_acl_file(request, code, lambda text, version: put_account_in_text(text, account, version))

    def delete_account(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        key, code = ExtFields(request.ext_fields).text("accessKey"), ResponseCode.DELETE_ACL_CONFIG_FAILED
        return self._edit_acl_file(request, code, lambda text, version: remove_account_from_text(text, key, version))

    def update_white_addresses(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        addresses = _split_lines(ExtFields(request.ext_fields).text("globalWhiteAddrs"))
        code = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        return self._edit_acl_file(
            request, code, lambda text, version: put_white_addresses_in_text(text, addresses, version)
        )

    def _edit_acl_file(
        self, request: RemotingCommand, code: ResponseCode, edit: Callable[[str, DataVersion], str]
    ) -> RemotingCommand:
        now_ms = self._parts.world.clock.now_ms()
        try:
            self._require_access_control.edit_file(
                lambda text: edit(text, DataVersion(now_ms, version_of(text).counter + 1))
            )
        except NoSuchAccountError as error:
            raise RequestRefusedError(
                f"accessKey: expected the key of an account, found {str(error)[:255]!r}", code
            ) from error
        except (PlainAclError, OSError) as error:
            raise RequestRefusedError(str(error), code) from error
        return success_response(request)

    def _read_valid_text(self) -> str:
        """Refuse the request while the file is invalid."""
        access = self._require_access_control
        try:
            text = access.read_text()
            read_plain_acl(text)
        except (PlainAclError, OSError) as error:
            raise RequestRefusedError(f"{access.path}: {error}") from error
        return text

    def acl_version(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        config, access = self._parts.config, self._require_access_control
        version = encode_json_body(version_of(self._read_valid_text()).json_members).decode()
        fields = {
            "allAclFileVersion": f"{{{encode_json_body(access.path).decode()}:{version}}}",
            "brokerAddr": config.address,
            "brokerName": config.broker_name,
            "clusterName": config.broker_cluster_name,
            "version": version,
        }
        return success_response(request, **fields)

    def all_accounts(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return all accounts with their secret keys. Only administrators may send this request."""
        white, accounts = accounts_as_json(self._read_valid_text())
        return success_response(request, {"globalWhiteAddrs": white, "plainAccessConfigs": accounts})


def _split_lines(text: str) -> list[str]:
    return [part for part in map(java_trim, text.split(",")) if part]
