"""Signatures: what proves that a request comes from whoever holds a secret key.

Signed are the values of all ext fields but the signature, in order of their names, and behind them the body.
Source: RocketMQ AclClientRPCHook, AclSigner, PlainAccessValidator.parse.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import replace

from ...formats.remoting.command import RemotingCommand

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"
SIGNATURE = "Signature"
_UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"


def signature_of(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Return the signature of a request: HmacSHA1 in base 64. Signature among the fields does not count."""
    values = "".join(fields[name] for name in sorted(fields) if name != SIGNATURE)
    digest = hmac.new(secret_key.encode(), values.encode(), hashlib.sha1)
    digest.update(body)
    return base64.b64encode(digest.digest()).decode()


def is_signed(command: RemotingCommand, secret_key: str) -> bool:
    """Return whether a request is signed with this key, in a time that tells nothing of the right signature.

    Clients of RocketMQ sign the mark of a query by unique key or not, depending on their version: either is right.
    """
    found = command.ext_fields.get(SIGNATURE, "").encode()
    signed = hmac.compare_digest(found, signature_of(command.ext_fields, command.body, secret_key).encode())
    if signed or _UNIQUE_KEY_QUERY not in command.ext_fields:
        return signed
    others = {name: value for name, value in command.ext_fields.items() if name != _UNIQUE_KEY_QUERY}
    return hmac.compare_digest(found, signature_of(others, command.body, secret_key).encode())


def signer(
    access_key: str, secret_key: str, security_token: str | None = None
) -> Callable[[RemotingCommand], RemotingCommand]:
    """Return what signs the commands of a client."""
    own = {ACCESS_KEY: access_key} | ({} if security_token is None else {SECURITY_TOKEN: security_token})

    def sign(command: RemotingCommand) -> RemotingCommand:
        fields = {**command.ext_fields, **own}
        fields[SIGNATURE] = signature_of(fields, command.body, secret_key)
        return replace(command, ext_fields=fields)

    return sign
