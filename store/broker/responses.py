"""Responses: what a broker's answer to a request looks like, whatever it says.

Source: RocketMQ RemotingCommand.createResponseCommand, NettyRemotingAbstract.processRequestCommand.
"""

from collections.abc import Mapping

from ..formats.remoting.command import RESPONSE_FLAG, RemotingCommand

BROKER_VERSION = 409
"""What this broker says it is: 4.9.8, as MQVersion counts."""
JAVA_LANGUAGE = 0
"""Clients of RocketMQ know brokers in no other language."""

_NO_FIELDS: Mapping[str, str] = {}


def response_to(
    request: RemotingCommand,
    code: int,
    remark: str | None = None,
    ext_fields: Mapping[str, str] = _NO_FIELDS,
    body: bytes = b"",
) -> RemotingCommand:
    """Return a response to a request: with its opaque, and in the form that its header has."""
    return RemotingCommand(
        code,
        request.opaque,
        RESPONSE_FLAG,
        JAVA_LANGUAGE,
        BROKER_VERSION,
        remark,
        ext_fields,
        body,
        request.form,
    )
