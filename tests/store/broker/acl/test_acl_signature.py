"""Signatures of requests."""

import base64
import hashlib
import hmac
from dataclasses import replace

import pytest

from tornlog.store.broker.acl.rules import has_valid_signature, hmac_signature, make_signer
from tornlog.store.formats.remoting.command import RemotingCommand

COMMAND = RemotingCommand(310, 1, ext_fields={"b": "TopicB", "a": "groupA", "e": "0"}, body=b"\xffbody")


def test_the_signature_covers_the_values_by_field_name_and_then_the_body() -> None:
    expected = hmac.new(b"12345678", b"RocketMQ" + b"groupA" + b"TopicB" + b"0" + b"\xffbody", hashlib.sha1)

    signed = make_signer("RocketMQ", "12345678")(COMMAND)

    assert signed.ext_fields["AccessKey"] == "RocketMQ"  # upper case letters are sorted before lower case letters
    assert signed.ext_fields["Signature"] == base64.b64encode(expected.digest()).decode()
    assert has_valid_signature(signed, "12345678")


def test_a_security_token_is_signed_too() -> None:
    signed = make_signer("RocketMQ", "12345678", "token")(COMMAND)

    assert signed.ext_fields["SecurityToken"] == "token"
    assert has_valid_signature(signed, "12345678")
    assert signed.ext_fields["Signature"] != make_signer("RocketMQ", "12345678")(COMMAND).ext_fields["Signature"]


@pytest.mark.parametrize(
    "changed",
    [
        {"ext_fields": {**COMMAND.ext_fields, "b": "TopicC"}},
        {"ext_fields": {**COMMAND.ext_fields, "f": "x"}},
        {"body": b"another"},
    ],
)
def test_any_change_breaks_the_signature(changed: dict[str, object]) -> None:
    signed = make_signer("RocketMQ", "12345678")(COMMAND)
    forged = replace(signed, **changed)  # type: ignore[arg-type]
    own = {name: signed.ext_fields[name] for name in ("AccessKey", "Signature")}

    assert not has_valid_signature(replace(forged, ext_fields={**forged.ext_fields, **own}), "12345678")
    assert not has_valid_signature(signed, "12345679")


@pytest.mark.parametrize("signature", ["", "AAAA", "\u00e9" * 28, "x" * 100_000])
def test_a_wrong_or_malformed_signature_is_invalid(signature: str) -> None:
    fields = {**COMMAND.ext_fields, "Signature": signature}

    assert not has_valid_signature(replace(COMMAND, ext_fields=fields), "12345678")


def test_the_unique_key_query_field_may_be_signed_or_not() -> None:
    fields = {"topic": "T", "key": "k", "AccessKey": "RocketMQ"}
    marked = {**fields, "_UNIQUE_KEY_QUERY": "true"}

    for signed in (fields, marked):
        signature = hmac_signature(signed, b"", "12345678")
        assert has_valid_signature(RemotingCommand(12, 1, ext_fields={**marked, "Signature": signature}), "12345678")
