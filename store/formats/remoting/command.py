"""Remoting command: a request, or the response to one, and the two forms of its header. Big-endian, signed.

    offset  bytes  field of a binary header
    0       2      code
    2       1      language         see LANGUAGES
    3       2      version
    5       4      opaque
    9       4      flag
    13      4      remarkLength R   0 for none
    17      R      remark           UTF-8
    17+R    4      extFieldsLength  E, of all fields together
    21+R    E      extFields        one after the other:

    0       2      keyLength K
    2       K      key              UTF-8
    2+K     4      valueLength V
    6+K     V      value            UTF-8

No checksum. A header has one encoding: a name that is there twice and bytes behind the last field, which RocketMQ
passes over, are errors. An empty remark is none.

    a JSON header
    {"code":310,"extFields":{"a":"group","e":"3"},"flag":0,"language":"JAVA","opaque":7,"remark":"text",
     "serializeTypeCurrentRPC":"JSON","version":409}

Members are written in order of their names, without blanks, those without a value not at all, as RocketMQ does. Read
is whatever `fastjson` reads: any order and layout, numbers and booleans where texts belong, as clients in C++ write
them. Unknown members are passed over, missing numbers are 0, and a missing language is JAVA, but code and opaque must
be there. A field of extFields that is null is none. So bytes that are read need not be those that would be written.
Source: RocketMQ RemotingCommand, LanguageCode, SerializeType; RocketMQSerializable; RemotingCommand.headerEncode,
RemotingSerializable, fastjson's order of members.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import Any

import msgspec

from ...errors import CorruptFileError
from .fastjson import decode_fastjson
from .json_body import Members

RESPONSE_FLAG = 0x1
ONE_WAY_FLAG = 0x2
LANGUAGES = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
)
"""What a client is written in, by its code."""
OTHER_LANGUAGE = LANGUAGES.index("OTHER")
_LANGUAGE_CODES = {name: code for code, name in enumerate(LANGUAGES)}

HEADER_BYTES_MIN = 21
_FIXED = Struct(">hbhiii")  # up to remarkLength
_LENGTH = Struct(">i")
_KEY_LENGTH = Struct(">h")
_REMARK_LENGTH_AT = 13
_KEY_BYTES_MAX = 0x7FFF
assert _FIXED.size + _LENGTH.size == HEADER_BYTES_MIN

_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_CAREFUL_BYTES_MAX = 32 << 10
"""The careful reader takes up to 8 ms for so much, in the task that reads for all clients. Headers of up to this size
may be odd; those of clients that write plain JSON may be as large as any."""
_HALF_CHARACTER = re.compile(rb"\\u[dD]")
"""An escape of half a character, which may stand alone; or of one of some others, or what looks like one."""


class _JsonHeader(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A header as clients write it, in fastjson's order: by name. None: it is not there."""

    code: int
    extFields: dict[str, str | int | bool | None] | None = None  # noqa: N815
    flag: int | None = None
    language: str | None = None
    opaque: int
    remark: str | None = None
    serializeTypeCurrentRPC: str | None = None  # noqa: N815
    version: int | None = None


_TEXTS = frozenset((str,))
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_JsonHeader).decode


class HeaderForm(IntEnum):
    """How a header is written, by its code in the frame."""

    JSON = 0
    ROCKETMQ = 1


@dataclass(frozen=True, slots=True)
class RemotingCommand:
    """One command. Numbers are signed: code and version of 16 bits in the binary form, the others of 32."""

    code: int
    """Of a request what is asked for, of a response how it went."""
    opaque: int
    """Of the request, and repeated by its response."""
    flag: int = 0
    language: int = 0
    """A number in LANGUAGES; the binary form keeps others too, the JSON form calls them OTHER."""
    version: int = 0
    remark: str | None = None
    ext_fields: Mapping[str, str] = field(default_factory=dict)
    """The fields of the request or response by name, all of them texts; in order."""
    body: bytes = b""
    form: HeaderForm = HeaderForm.JSON

    @property
    def is_response(self) -> bool:
        """Return whether this answers a request."""
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_one_way(self) -> bool:
        """Return whether nobody waits for a response."""
        return bool(self.flag & ONE_WAY_FLAG)


def check_numbers(command: RemotingCommand, **bits: int) -> None:
    """Raise a ValueError that names the first of some fields that does not fit so many bits."""
    for name, width in bits.items():
        value = getattr(command, name)
        if not -(1 << width - 1) <= value < 1 << width - 1:
            raise ValueError(f"{name}: expected {width} bits, found {value}")


def decoded_text(raw: bytes, field_name: str, *, file: str, offset: int) -> str:
    """Return a text of a header, which begins at offset. CorruptFileError, placed at its first bad byte."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        found = raw[error.start : error.end].hex()
        raise CorruptFileError(file, offset + error.start, field_name, "UTF-8", found) from None


def encode_binary_header(command: RemotingCommand) -> bytes:
    """Encode a header. ValueError names a field that does not fit its place."""
    remark = (command.remark or "").encode()
    fields = _encode_fields(command.ext_fields)
    check_numbers(command, code=16, language=8, version=16, opaque=32, flag=32)
    fixed = _FIXED.pack(command.code, command.language, command.version, command.opaque, command.flag, len(remark))
    return b"".join((fixed, remark, _LENGTH.pack(len(fields)), fields))


def _encode_fields(fields: Mapping[str, str]) -> bytes:
    parts: list[bytes] = []
    for name, text in fields.items():
        key, value = name.encode(), text.encode()
        if len(key) > _KEY_BYTES_MAX:
            raise ValueError(f"extFields: expected names of at most {_KEY_BYTES_MAX} bytes, found {len(key)}")
        parts += (_KEY_LENGTH.pack(len(key)), key, _LENGTH.pack(len(value)), value)
    return b"".join(parts)


def decode_binary_header(raw: bytes, body: bytes, *, file: str, offset: int) -> RemotingCommand:
    """Decode a header that begins at offset of file. Raises CorruptFileError, placed at the field that is wrong."""
    if len(raw) < HEADER_BYTES_MIN:
        raise CorruptFileError(file, offset, "headerLength", f"at least {HEADER_BYTES_MIN} bytes", f"{len(raw)} bytes")
    code, language, version, opaque, flag, remark_bytes = _FIXED.unpack_from(raw)
    remark_end = _end_of(raw, _REMARK_LENGTH_AT, _LENGTH.size, remark_bytes, "remarkLength", file, offset)
    remark = raw[_FIXED.size : remark_end]
    (fields_bytes,) = _LENGTH.unpack_from(raw, remark_end)
    fields_at = remark_end + _LENGTH.size
    if fields_bytes != len(raw) - fields_at:
        expected = f"{len(raw) - fields_at}, the rest of the header"
        raise CorruptFileError(file, offset + remark_end, "extFieldsLength", expected, fields_bytes)
    return RemotingCommand(
        code,
        opaque,
        flag,
        language,
        version,
        decoded_text(remark, "remark", file=file, offset=offset + _FIXED.size) or None,
        _decode_fields(raw, fields_at, file, offset),
        body,
        HeaderForm.ROCKETMQ,
    )


def _decode_fields(raw: bytes, at: int, file: str, offset: int) -> dict[str, str]:
    """Decode the fields from position at to the end of the header."""
    fields: dict[str, str] = {}
    while at < len(raw):
        key_at = at + _KEY_LENGTH.size
        if key_at + _LENGTH.size > len(raw):
            raise CorruptFileError(
                file,
                offset + at,
                "keyLength",
                f"a field, {_KEY_LENGTH.size + _LENGTH.size} bytes or more",
                f"{len(raw) - at} bytes",
            )
        (key_bytes,) = _KEY_LENGTH.unpack_from(raw, at)
        key_end = _end_of(raw, at, _LENGTH.size, key_bytes, "keyLength", file, offset, _KEY_LENGTH.size)
        (value_bytes,) = _LENGTH.unpack_from(raw, key_end)
        value_end = _end_of(raw, key_end, 0, value_bytes, "valueLength", file, offset)
        key = decoded_text(raw[key_at:key_end], "key", file=file, offset=offset + key_at)
        if key in fields:
            raise CorruptFileError(file, offset + key_at, "key", "a name that is there once", repr(key[:80]))
        value_at = key_end + _LENGTH.size
        fields[key] = decoded_text(raw[value_at:value_end], "value", file=file, offset=offset + value_at)
        at = value_end
    return fields


def _end_of(
    raw: bytes, at: int, after: int, length: int, name: str, file: str, offset: int, length_bytes: int = 4
) -> int:
    """Return where the bytes end whose length, as read, is at position at, with at least so many after them."""
    begin = at + length_bytes
    most = len(raw) - begin - after
    if not 0 <= length <= most:
        raise CorruptFileError(file, offset + at, name, f"0 to {most}", length)
    return begin + length


def encode_json_header(command: RemotingCommand) -> bytes:
    """Encode a header. ValueError names a number that does not fit its place."""
    check_numbers(command, code=32, version=32, opaque=32, flag=32)
    known = 0 <= command.language < len(LANGUAGES)
    header = _JsonHeader(
        code=command.code,
        extFields=dict(command.ext_fields) or None,
        flag=command.flag,
        language=LANGUAGES[command.language if known else OTHER_LANGUAGE],
        opaque=command.opaque,
        remark=command.remark,
        serializeTypeCurrentRPC=HeaderForm.JSON.name,
        version=command.version,
    )
    return _encode(header)


def decode_json_header(raw: bytes, body: bytes, *, file: str, offset: int) -> RemotingCommand:
    """Decode a header that begins at offset of file. CorruptFileError names the byte or the member that is wrong."""
    plain = _plain_command(raw, body)
    if plain is not None:
        return plain
    if len(raw) > _CAREFUL_BYTES_MAX:
        expected = f"plain JSON, or {_CAREFUL_BYTES_MAX} bytes or fewer"
        raise CorruptFileError(file, offset, "header", expected, f"{len(raw)} bytes")
    return _careful_command(raw, body, file, offset)


def _plain_command(raw: bytes, body: bytes) -> RemotingCommand | None:
    """Return the command of a header that there is nothing odd about, in a third of the time; None for all others."""
    if _HALF_CHARACTER.search(raw) is not None:
        return None
    try:
        header = _decode(raw)
        fields: Mapping[str, Any] = header.extFields or {}
        if not _TEXTS.issuperset(map(type, fields.values())):
            fields = Members(fields, "").texts()
    except (msgspec.DecodeError, ValueError):  # not UTF-8, or an integer of more digits than Python writes
        return None
    language = LANGUAGES[0] if header.language is None else header.language
    if language not in _LANGUAGE_CODES:
        return None
    numbers = header.code, header.opaque, header.flag or 0, header.version or 0
    if min(numbers) < _INT_MIN or max(numbers) > _INT_MAX:
        return None
    return RemotingCommand(
        header.code,
        header.opaque,
        header.flag or 0,
        _LANGUAGE_CODES[language],
        header.version or 0,
        header.remark,
        fields,
        body,
        HeaderForm.JSON,
    )


def _careful_command(raw: bytes, body: bytes, file: str, offset: int) -> RemotingCommand:
    members = Members(decode_fastjson(raw, file=file, offset=offset), "", file, offset)
    return RemotingCommand(
        members.integer("code", bits=32),
        members.integer("opaque", bits=32),
        members.integer("flag", 0, bits=32),
        _LANGUAGE_CODES[members.choice("language", LANGUAGES, LANGUAGES[0], LANGUAGES[OTHER_LANGUAGE])],
        members.integer("version", 0, bits=32),
        members.optional_text("remark"),
        members.inner("extFields").texts(),
        body,
        HeaderForm.JSON,
    )
