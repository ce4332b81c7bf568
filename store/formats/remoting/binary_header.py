"""Binary header of a remoting command. Big-endian, signed.

    offset  bytes  field
    0       2      code
    2       1      language         see command.LANGUAGES
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
Source: RocketMQ RocketMQSerializable.
"""

from collections.abc import Mapping
from struct import Struct

from ...errors import CorruptFileError
from .command import HeaderForm, RemotingCommand, check_numbers, decoded_text

HEADER_BYTES_MIN = 21
_FIXED = Struct(">hbhiii")  # up to remarkLength
_LENGTH = Struct(">i")
_KEY_LENGTH = Struct(">h")
_REMARK_LENGTH_AT = 13
_KEY_BYTES_MAX = 0x7FFF
assert _FIXED.size + _LENGTH.size == HEADER_BYTES_MIN


def encode_binary_header(command: RemotingCommand) -> bytes:
    """Encode a header. ValueError names a field that does not fit its place."""
    remark = (command.remark or "").encode()
    fields = _encode_fields(command.ext_fields)
    check_numbers(command, code=16, language=8, version=16, opaque=32, flag=32)
    fixed = _FIXED.pack(
        command.code, command.language, command.version, command.opaque, command.flag, len(remark)
    )
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
        raise CorruptFileError(
            file, offset, "headerLength", f"at least {HEADER_BYTES_MIN} bytes", f"{len(raw)} bytes"
        )
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
