"""Frames as RocketMQ's C++ client writes them: numbers and booleans where the Java client writes texts."""

import json
import re
from struct import Struct

from ....store.formats.remoting.command import RemotingCommand

_HEAD = Struct(">ii")
_HEADER_AT = 4
_INTEGER = re.compile("0|-?[1-9][0-9]*")
_BOOLEANS = {"true": True, "false": False}
_VERSION = 63


def cpp_frame(command: RemotingCommand) -> bytes:
    """Encode a command. The header ends with a line break, as that client's JSON writer has it."""
    header = {
        "code": command.code,
        "extFields": {name: _value(text) for name, text in command.ext_fields.items()},
        "flag": command.flag,
        "language": "CPP",
        "opaque": command.opaque,
        "remark": "",
        "version": _VERSION,
    }
    raw = json.dumps(header, separators=(",", ":")).encode() + b"\n"
    return _HEAD.pack(_HEADER_AT + len(raw) + len(command.body), len(raw)) + raw + command.body


def _value(text: str) -> str | int | bool:
    """Return the JSON value that a reader turns into this text again."""
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    return int(text) if _INTEGER.fullmatch(text) else text
