"""Frame forms: the encodings in which clients of all languages send a request.

    C++       numbers and booleans are JSON values, not strings as in the Java client; a line break ends the header
    binary    the binary header, RocketMQ's serialization
    dialect   what fastjson accepts beyond JSON, in the header and in the bodies of DIALECT_CODES

Source: RocketMQ C++ RemotingCommand.Encode; RocketMQSerializable; fastjson JSONScanner, TypeUtils.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from struct import Struct

from ....store.broker.requests import RequestCode
from ....store.formats.remoting.command import HeaderForm, RemotingCommand
from ....store.formats.remoting.frame import encode_frame

DIALECT_CODES = (
    *(RequestCode.HEART_BEAT, RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ),
    *(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, RequestCode.QUERY_DATA_VERSION),
)
_HEAD = Struct(">ii")
_HEADER_AT = 4
CPP_VERSION = 63
_DIALECT_BYTES_MAX = 16_000
_INTEGER = re.compile("0|-?[1-9][0-9]*")
_BOOLEANS = {"true": True, "false": False}


def cpp_frame(command: RemotingCommand) -> bytes:
    """Encode a command as RocketMQ's C++ client does."""
    header = {
        "code": command.code,
        "extFields": {name: _json_value(text) for name, text in command.ext_fields.items()},
        "flag": command.flag,
        "language": "CPP",
        "opaque": command.opaque,
        "remark": command.remark or "",
        "version": CPP_VERSION,
    }
    return _frame(json.dumps(header, separators=(",", ":")) + "\n", command.body)


def binary_frame(command: RemotingCommand) -> bytes:
    return encode_frame(replace(command, form=HeaderForm.ROCKETMQ))


def dialect_frame(command: RemotingCommand) -> bytes:
    """Encode a command in fastjson's dialect, with unknown members. A long header stays plain."""
    fields = dialect_of({**command.ext_fields, "added": None})
    header = f"\ufeff{{CODE:'{command.code}',/* {command.code} */'opaque':+{command.opaque},,language:"
    remark = "NaN" if command.remark is None else dialect_of(command.remark)
    header += f"{command.language},flag:{command.flag}.0,added:[-1.5e2 {{}}],remark:{remark},\n"
    header += f"version:{command.version}L,ext_fields:{fields},}}"
    if len(header) > _DIALECT_BYTES_MAX:
        return encode_frame(command)
    is_known = command.code in DIALECT_CODES and command.body
    return _frame(header, dialect_of(json.loads(command.body)).encode() if is_known else command.body)


def dialect_of(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + "".join(f"{dialect_of(name)} :{dialect_of(each)},," for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + " ".join(map(dialect_of, value)) + "]"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\x27") + "'"
    return {True: "'Y'", False: "0", None: "null"}[value] if isinstance(value, bool | None) else f"'{value}'"


def _frame(header: str, body: bytes) -> bytes:
    raw = header.encode()
    return _HEAD.pack(_HEADER_AT + len(raw) + len(body), len(raw)) + raw + body


def _json_value(text: str) -> str | int | bool:
    """Return the JSON value that a reader converts back to `text`."""
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    return int(text) if _INTEGER.fullmatch(text) else text


FRAME_FORMS = (cpp_frame, binary_frame, dialect_frame, encode_frame, encode_frame, encode_frame)
