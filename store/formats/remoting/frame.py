"""Remoting frame: the bytes of one command in a connection's stream. Big-endian.

    offset  bytes  field
    0       4      length        i32  of the rest: 4 + H + B
    4       1      headerForm         0 JSON, 1 binary
    5       3      headerLength  u24  H
    8       H      header             see command
    8+H     B      body

A frame has at most FRAME_BYTES_MAX bytes, including its length field, and a header of at most HEADER_BYTES_MAX bytes;
RocketMQ accepts headers of 16 MiB. The reader refuses a longer frame before it buffers the frame. A frame has no
checksum. Binary headers have only one encoding; in JSON headers, member order and layout can vary.
Source: RocketMQ RemotingCommand.encode and decode, NettyDecoder.
"""

from collections.abc import Iterator
from struct import Struct

from ...errors import CorruptFileError
from .command import (
    HeaderForm,
    RemotingCommand,
    decode_binary_header,
    decode_json_header,
    encode_binary_header,
    encode_json_header,
)

FRAME_BYTES_MAX = 16_777_216  # RocketMQ NettyDecoder.FRAME_MAX_LENGTH
HEADER_BYTES_MAX = 256 * 1024
"""Maximum size of a header. Properties have at most 32,767 bytes, and each character at most 6 bytes in JSON."""
LENGTH_BYTES = 4
_HEADER_WORD_AT = 4
_HEADER_AT = 8
_HEADER_BYTES_MASK = 0xFF_FFFF
_HEAD = Struct(">iI")
_LENGTH = Struct(">i")
_FORMS = {form.value: form for form in HeaderForm}
_BINARY = HeaderForm.ROCKETMQ  # an attribute of an Enum takes ten times as long as a name

LENGTH_FIELD = "length"


def frame_bytes(view: bytes | memoryview, at: int, *, file: str, offset: int = 0) -> int:
    """Return the size of the frame at `at`. The first LENGTH_BYTES bytes must exist.

    The view begins at `offset` of the file. Raises CorruptFileError for an impossible length of the frame, or of its
    header if the view contains that length.
    """
    (length,) = _LENGTH.unpack_from(view, at)
    least, most = _HEADER_AT - LENGTH_BYTES, FRAME_BYTES_MAX - LENGTH_BYTES
    if not least <= length <= most:
        raise CorruptFileError(file, offset + at, "length", f"{least} to {most}", length)
    if len(view) - at >= _HEADER_AT:
        header_bytes = _HEAD.unpack_from(view, at)[1] & _HEADER_BYTES_MASK
        most = min(LENGTH_BYTES + length - _HEADER_AT, HEADER_BYTES_MAX)
        if header_bytes > most:
            raise CorruptFileError(
                file, offset + at + _HEADER_WORD_AT + 1, "headerLength", f"0 to {most}", header_bytes
            )
    return LENGTH_BYTES + int(length)


def decode_frame(
    view: bytes | memoryview, at: int, end: int, *, file: str, offset: int = 0
) -> tuple[RemotingCommand, int]:
    """Decode the frame at `at`, which must end by `end`. Returns the command and the position of the frame's end.

    The view begins at `offset` of the file. Raises CorruptFileError.
    """
    if end - at < _HEADER_AT:
        raise CorruptFileError(
            file, offset + at, "length", f"a frame of {_HEADER_AT} bytes or more", f"{end - at} bytes"
        )
    frame_end = at + frame_bytes(view, at, file=file, offset=offset)
    if frame_end > end:
        raise CorruptFileError(
            file, offset + at, "length", f"at most {end - at - LENGTH_BYTES}", frame_end - at - LENGTH_BYTES
        )
    return _decode_whole_frame(view, at, frame_end, file, offset), frame_end


def _decode_whole_frame(view: bytes | memoryview, at: int, frame_end: int, file: str, offset: int) -> RemotingCommand:
    """Decode the frame at `at`. The caller has checked its lengths."""
    _, word = _HEAD.unpack_from(view, at)
    form, header_at = _FORMS.get(word >> 24), at + _HEADER_AT
    if form is None:
        raise CorruptFileError(file, offset + at + _HEADER_WORD_AT, "headerForm", "0 or 1", word >> 24)
    header_end = header_at + (word & _HEADER_BYTES_MASK)
    header, body = bytes(view[header_at:header_end]), bytes(view[header_end:frame_end])
    decode = decode_binary_header if form is _BINARY else decode_json_header
    return decode(header, body, file=file, offset=offset + header_at)


def encode_frame(command: RemotingCommand) -> bytes:
    """Encode a frame. Raises ValueError if header or frame are too long."""
    is_binary = command.form is _BINARY
    header = encode_binary_header(command) if is_binary else encode_json_header(command)
    size_bytes = _HEADER_AT + len(header) + len(command.body)
    if len(header) > HEADER_BYTES_MAX:
        raise ValueError(f"header: expected at most {HEADER_BYTES_MAX} bytes, found {len(header)}")
    if size_bytes > FRAME_BYTES_MAX:
        raise ValueError(f"frame: expected at most {FRAME_BYTES_MAX} bytes, found {size_bytes}")
    head = _HEAD.pack(size_bytes - LENGTH_BYTES, command.form << 24 | len(header))
    return b"".join((head, header, command.body))


class CommandReader:
    """Splits a stream into commands. `name` is the name of the stream in errors.

    Invariant: `_data` or `_part` is empty. `_data` contains unread frames from `_at` on. `_part` is the start of one
    frame; received bytes are appended to it without a copy.
    """

    __slots__ = ("_at", "_data", "_offset", "_part", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._data = b""
        self._at = 0
        self._part: bytearray | None = None
        self._offset = 0

    @property
    def held_bytes(self) -> int:
        return len(self._data) - self._at if self._part is None else len(self._part)

    @property
    def has_more(self) -> bool:
        return self._at < len(self._data)

    def add(self, data: bytes) -> None:
        assert self._part is None or not self._data, "`_data` or `_part` must be empty"
        if self._part is not None:
            self._part += data
            if self._is_whole_frame(self._part):
                self._data, self._at, self._part = bytes(self._part), 0, None
        else:
            self._data = data if self._at == len(self._data) else self._data[self._at :] + data
            self._at = 0

    def take(self) -> tuple[RemotingCommand, int] | None:
        """Return the next command and the size of its frame, or None if no frame is complete.

        Raises CorruptFileError with the offset in the stream. After an error the stream cannot be used.
        """
        data, at, end = self._data, self._at, len(self._data)
        assert at <= end, (at, end)
        if end - at >= LENGTH_BYTES:
            size_bytes = frame_bytes(data, at, file=self.name, offset=self._offset - at)
            if at + size_bytes <= end:
                command = _decode_whole_frame(data, at, at + size_bytes, self.name, self._offset - at)
                self._at += size_bytes
                self._offset += size_bytes
                if self._at == end:
                    self._data, self._at = b"", 0
                return command, size_bytes
        if at < end:
            assert self._part is None, "an incomplete frame is already in `_part`"
            self._part = bytearray(data[at:])
            self._data, self._at = b"", 0
        return None

    def commands(self, data: bytes) -> Iterator[tuple[RemotingCommand, int]]:
        """Buffer received bytes and yield all complete commands."""
        self.add(data)
        while (taken := self.take()) is not None:
            yield taken

    def _is_whole_frame(self, part: bytearray) -> bool:
        """Return whether a frame is complete, or its length is impossible."""
        if len(part) < LENGTH_BYTES:
            return False
        try:
            return len(part) >= frame_bytes(memoryview(part), 0, file=self.name)
        except CorruptFileError:
            return True
