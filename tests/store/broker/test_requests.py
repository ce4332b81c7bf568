"""Request fields are parsed, or refused with an error that names the field."""

import pytest

from tornlog.store.broker.requests import (
    INT_MAX,
    LONG_MAX,
    REMARK_CHARACTERS_MAX,
    ExtFields,
    RequestRefusedError,
    ResponseCode,
    response_to,
)
from tornlog.store.formats.remoting.command import RemotingCommand

FIELDS = ExtFields({"text": "abc", "one": "+1", "least": str(-LONG_MAX - 1), "yes": "TRUE", "no": "false"})


def test_request_fields_are_parsed_as_in_java() -> None:
    assert FIELDS.text("text") == "abc"
    assert FIELDS.int32("one") == 1
    assert FIELDS.int64("least") == -LONG_MAX - 1
    assert (FIELDS.boolean("yes"), FIELDS.boolean("no")) == (True, False)
    assert not any(ExtFields({"unitMode": text}).boolean("unitMode") for text in ("0", "1", "", "maybe"))


def test_a_default_replaces_only_a_missing_request_field() -> None:
    assert (FIELDS.text("none", ""), FIELDS.int32("none", 0), FIELDS.boolean("none", False)) == ("", 0, False)
    with pytest.raises(RequestRefusedError, match="text: expected a 32-bit integer, found 'abc'"):
        FIELDS.int32("text", 0)


@pytest.mark.parametrize("text", ["", " 1", "1.0", "0x1", "1_0", "--1", "\u00b2", str(INT_MAX + 1), "9" * 400])
def test_an_invalid_integer_field_is_refused_and_shown_truncated(text: str) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        ExtFields({"queueId": text}).int32("queueId")
    assert refused.value.code is ResponseCode.SYSTEM_ERROR
    assert refused.value.remark.startswith("queueId: expected a 32-bit integer, found ")
    assert len(refused.value.remark) < 200


@pytest.mark.parametrize("read", ["text", "int32", "int64", "boolean"])
def test_a_missing_required_request_field_is_refused(read: str) -> None:
    with pytest.raises(RequestRefusedError, match=r"queueId: expected .*, found no such field"):
        getattr(ExtFields({}), read)("queueId")


def test_a_long_response_remark_is_truncated() -> None:
    response = response_to(RemotingCommand(25, 1), ResponseCode.SYSTEM_ERROR, "k" * 3_000_000)

    assert response.remark == "k" * REMARK_CHARACTERS_MAX
