"""JSON header of a remoting command.

    {"code":310,"extFields":{"a":"group","e":"3"},"flag":0,"language":"JAVA","opaque":7,"remark":"text",
     "serializeTypeCurrentRPC":"JSON","version":409}

Members are written in order of their names, without blanks, those without a value not at all, as RocketMQ does. Read
are any order and layout; members nobody knows are passed over, missing numbers are 0, and a missing language is JAVA,
but code and opaque must be there. extFields holds texts only; one that is null is none. So bytes that are read need
not be those that would be written: what a header says is kept, not how.
Source: RocketMQ RemotingCommand.headerEncode, RemotingSerializable, fastjson's order of members.
"""

import json
from collections.abc import Mapping
from typing import Any

from ...errors import CorruptFileError
from ..side_json import decode_side_json
from .command import LANGUAGES, OTHER_LANGUAGE, HeaderForm, RemotingCommand, check_numbers

_FORM = "serializeTypeCurrentRPC"
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode  # dumps would make one each time


def encode_json_header(command: RemotingCommand) -> bytes:
    """Encode a header. ValueError names a number that does not fit its place."""
    check_numbers(command, code=32, version=32, opaque=32, flag=32)
    known = 0 <= command.language < len(LANGUAGES)
    members: dict[str, Any] = {
        "code": command.code,
        "extFields": dict(command.ext_fields) or None,
        "flag": command.flag,
        "language": LANGUAGES[command.language if known else OTHER_LANGUAGE],
        "opaque": command.opaque,
        "remark": command.remark,
        _FORM: HeaderForm.JSON.name,
        "version": command.version,
    }
    present = {name: value for name, value in members.items() if value is not None}
    return _encode(present).encode()


def decode_json_header(raw: bytes, body: bytes, *, file: str, offset: int) -> RemotingCommand:
    """Decode a header that begins at offset of file. CorruptFileError names the byte or the member that is wrong."""
    members = decode_side_json(raw, file=file, file_offset=offset)
    language = _member(members, "language", (str,), LANGUAGES[0], file, offset)
    return RemotingCommand(
        _number(members, "code", None, file, offset),
        _number(members, "opaque", None, file, offset),
        _number(members, "flag", 0, file, offset),
        LANGUAGES.index(language) if language in LANGUAGES else OTHER_LANGUAGE,
        _number(members, "version", 0, file, offset),
        _member(members, "remark", (str,), None, file, offset),
        _ext_fields(members, file, offset),
        body,
        HeaderForm.JSON,
    )


def _member(
    members: Mapping[str, Any], name: str, kinds: tuple[type, ...], default: Any, file: str, offset: int
) -> Any:
    """Return a member of one of these kinds, default where it is missing or null."""
    value = members.get(name)
    if value is None:
        return default
    if type(value) not in kinds:
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise CorruptFileError(file, offset, name, expected, type(value).__name__)
    return value


def _number(members: Mapping[str, Any], name: str, default: int | None, file: str, offset: int) -> int:
    value = _member(members, name, (int,), default, file, offset)
    if value is None or not _INT_MIN <= value <= _INT_MAX:
        raise CorruptFileError(file, offset, name, "an integer of 32 bits", value)
    return int(value)


def _ext_fields(members: Mapping[str, Any], file: str, offset: int) -> dict[str, str]:
    fields = {}
    for name, value in _member(members, "extFields", (dict,), {}, file, offset).items():
        if value is None:
            continue
        if type(value) is not str:
            raise CorruptFileError(file, offset, f"extFields.{name[:80]}", "a text", type(value).__name__)
        fields[name] = value
    return fields
