"""Remoting command: a request or response, and its two header forms.

Big-endian, signed.

    offset  bytes  field of a binary header
    0       2      code
    2       1      language         see LANGUAGES
    3       2      version
    5       4      opaque
    9       4      flag
    13      4      remarkLength R   0 for none
    17      R      remark           UTF-8
    17+R    4      extFieldsLength  E, of all fields
    21+R    E      extFields        each as follows:

    0       2      keyLength K
    2       K      key              UTF-8
    2+K     4      valueLength V
    6+K     V      value            UTF-8

A header has no checksum. RocketMQ ignores duplicate names and bytes after the last field; this decoder refuses both, so
that a header has only one encoding. An empty remark counts as no remark.

    a JSON header
    {"code":310,"extFields":{"a":"group","e":"3"},"flag":0,"language":"JAVA","opaque":7,"remark":"text",
     "serializeTypeCurrentRPC":"JSON","version":409}

Like RocketMQ, the JSON encoder sorts members by name, adds no blanks and omits members without a value. The decoder
accepts any order and layout, and numbers and booleans instead of strings, which C++ clients write. The decoder ignores
unknown members and null fields of extFields. Missing numbers are 0 and a missing language is JAVA, but code and opaque
are required. Source: RocketMQ RemotingCommand, LanguageCode, SerializeType; RocketMQSerializable;
RemotingCommand.headerEncode, RemotingSerializable, fastjson's order of members.
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
from .json_body import JsonMembers

RESPONSE_FLAG = 0x1
ONE_WAY_FLAG = 0x2
LANGUAGES = ("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST")
"""Names of languages. The index of a name is the code of the language."""
OTHER_LANGUAGE = LANGUAGES.index("OTHER")
_LANGUAGE_CODES = {name: code for code, name in enumerate(LANGUAGES)}

HEADER_BYTES_MIN = 21
_FIXED = Struct(">hbhiii")  # layout of the fields up to remarkLength
_LENGTH = Struct(">i")
_KEY_LENGTH = Struct(">h")
_REMARK_LENGTH_AT = 13
_KEY_BYTES_MAX = 0x7FFF
assert _FIXED.size + _LENGTH.size == HEADER_BYTES_MIN

_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_CAREFUL_BYTES_MAX = 32 << 10
"""Size limit of a header that is not plain JSON. Decoding takes up to 8 ms, during which all clients wait."""
_HALF_CHARACTER = re.compile(rb"\\u[dD]")
"""Pattern of a possible unpaired surrogate. A wrong match only makes decoding slower."""


class _JsonHeader(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A JSON header. Members have fastjson's order. A member that is None is omitted."""

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
    """Encoding of a header. The value is the code in the frame."""

    JSON = 0
    ROCKETMQ = 1


_JSON = HeaderForm.JSON  # an attribute of an Enum takes ten times as long as a name
_JSON_NAME = _JSON.name


@dataclass(slots=True)
class RemotingCommand:
    """A request or response. In the binary form code and version have 16 bits, other numbers 32.

    No code changes a command. `frozen` would make its creation three times as slow.
    """

    code: int
    """The type of a request, or the result in a response."""
    opaque: int
    """Id of a request. The response has the same id."""
    flag: int = 0
    language: int = 0
    """An index in LANGUAGES. In the JSON form, numbers outside LANGUAGES become OTHER."""
    version: int = 0
    remark: str | None = None
    ext_fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    form: HeaderForm = HeaderForm.JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_one_way(self) -> bool:
        """Whether the request has no response."""
        return bool(self.flag & ONE_WAY_FLAG)


def check_numbers(command: RemotingCommand, **bits: int) -> None:
    """Raise ValueError with the name of the first field that needs too many bits."""
    for name, width in bits.items():
        value = getattr(command, name)
        if not -(1 << width - 1) <= value < 1 << width - 1:
            raise ValueError(f"{name}: expected {width} bits, found {value}")


def decode_text_field(raw: bytes, field_name: str, *, file: str, offset: int) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        found = raw[error.start : error.end].hex()
        raise CorruptFileError(file, offset + error.start, field_name, "UTF-8", found) from None


def encode_binary_header(command: RemotingCommand) -> bytes:
    """Encode a binary header. Raises ValueError with the name of a field that does not fit."""
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
    """Decode the binary header at `offset`. Raises CorruptFileError."""
    if len(raw) < HEADER_BYTES_MIN:
        raise CorruptFileError(file, offset, "headerLength", f"at least {HEADER_BYTES_MIN} bytes", f"{len(raw)} bytes")
    code, language, version, opaque, flag, remark_bytes = _FIXED.unpack_from(raw)
    remark_end = _length_prefixed_end(raw, _REMARK_LENGTH_AT, _LENGTH.size, remark_bytes, "remarkLength", file, offset)
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
        decode_text_field(remark, "remark", file=file, offset=offset + _FIXED.size) or None,
        _decode_fields(raw, fields_at, file, offset),
        body,
        HeaderForm.ROCKETMQ,
    )


def _decode_fields(raw: bytes, at: int, file: str, offset: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    while at < len(raw):
        key_at = at + _KEY_LENGTH.size
        if key_at + _LENGTH.size > len(raw):
            least, found = _KEY_LENGTH.size + _LENGTH.size, f"{len(raw) - at} bytes"
            raise CorruptFileError(file, offset + at, "keyLength", f"a field, {least} bytes or more", found)
        (key_bytes,) = _KEY_LENGTH.unpack_from(raw, at)
        key_end = _length_prefixed_end(raw, at, _LENGTH.size, key_bytes, "keyLength", file, offset, _KEY_LENGTH.size)
        (value_bytes,) = _LENGTH.unpack_from(raw, key_end)
        value_end = _length_prefixed_end(raw, key_end, 0, value_bytes, "valueLength", file, offset)
        key = decode_text_field(raw[key_at:key_end], "key", file=file, offset=offset + key_at)
        if key in fields:
            raise CorruptFileError(file, offset + key_at, "key", "a unique name", repr(key[:80]))
        value_at = key_end + _LENGTH.size
        fields[key] = decode_text_field(raw[value_at:value_end], "value", file=file, offset=offset + value_at)
        at = value_end
    return fields


def _length_prefixed_end(
    raw: bytes, at: int, after: int, length: int, name: str, file: str, offset: int, length_bytes: int = 4
) -> int:
    """Return the end of a value, after which at least `after` bytes must follow."""
    begin = at + length_bytes
    most = len(raw) - begin - after
    if not 0 <= length <= most:
        raise CorruptFileError(file, offset + at, name, f"0 to {most}", length)
    return begin + length


def encode_json_header(command: RemotingCommand) -> bytes:
    """Encode a JSON header. Raises ValueError with the name of a number that does not fit."""
    numbers = code, version, opaque, flag = command.code, command.version, command.opaque, command.flag
    if min(numbers) < _INT_MIN or max(numbers) > _INT_MAX:
        check_numbers(command, code=32, version=32, opaque=32, flag=32)
    known = 0 <= command.language < len(LANGUAGES)
    header = _JsonHeader(
        code=code,
        extFields=dict(command.ext_fields) or None,
        flag=flag,
        language=LANGUAGES[command.language if known else OTHER_LANGUAGE],
        opaque=opaque,
        remark=command.remark,
        serializeTypeCurrentRPC=_JSON_NAME,
        version=version,
    )
    return _encode(header)


def decode_json_header(raw: bytes, body: bytes, *, file: str, offset: int) -> RemotingCommand:
    """Decode the JSON header at `offset`. Raises CorruptFileError with the wrong byte or member."""
    plain = _decode_plain_json(raw, body)
    if plain is not None:
        return plain
    if len(raw) > _CAREFUL_BYTES_MAX:
        expected = f"plain JSON, or {_CAREFUL_BYTES_MAX} bytes or fewer"
        raise CorruptFileError(file, offset, "header", expected, f"{len(raw)} bytes")
    return _decode_any_json(raw, body, file, offset)


def _decode_plain_json(raw: bytes, body: bytes) -> RemotingCommand | None:
    """Decode a plain JSON header, three times as fast as `_decode_any_json`. Returns None for other headers."""
    if _HALF_CHARACTER.search(raw) is not None:
        return None
    try:
        header = _decode(raw)
        fields: Mapping[str, Any] = header.extFields or {}
        if not _TEXTS.issuperset(map(type, fields.values())):
            fields = JsonMembers(fields, "").texts()
    except (msgspec.DecodeError, ValueError):  # not UTF-8, or an integer with more digits than Python converts
        return None
    language = LANGUAGES[0] if header.language is None else header.language
    if language not in _LANGUAGE_CODES:
        return None
    numbers = header.code, header.opaque, header.flag or 0, header.version or 0
    if min(numbers) < _INT_MIN or max(numbers) > _INT_MAX:
        return None
    code, opaque, flag, version = numbers
    return RemotingCommand(code, opaque, flag, _LANGUAGE_CODES[language], version, header.remark, fields, body, _JSON)


def _decode_any_json(raw: bytes, body: bytes, file: str, offset: int) -> RemotingCommand:
    members = JsonMembers(decode_fastjson(raw, file=file, offset=offset), "", file, offset)
    return RemotingCommand(
        members.integer("code", bits=32),
        members.integer("opaque", bits=32),
        members.integer("flag", 0, bits=32),
        _LANGUAGE_CODES[members.choice("language", LANGUAGES, LANGUAGES[0], LANGUAGES[OTHER_LANGUAGE])],
        members.integer("version", 0, bits=32),
        members.optional_text("remark"),
        members.inner_object("extFields").texts(),
        body,
        HeaderForm.JSON,
    )
