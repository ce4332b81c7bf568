"""Replication stream: reports from a slave and frames of log from its master.

    slave to master: reports
    offset  bytes  field
    0       8      slave_offset   end of the slave's log; in the first report the start offset, or 0 for the last file

    master to slave: frames
    offset  bytes  field
    0       8      log_offset     log offset of the data; in a heartbeat, that of the next frame
    8       4      size_bytes     of the data; 0 is a heartbeat
    12      n      log bytes of one file; they may begin and end inside a record

Integers are big-endian. The streams have no greeting, sequence number or checksum. Source: RocketMQ HAConnection,
DefaultHAService (HAService before 5.0).
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from ..errors import CorruptFileError

_REPORT = Struct(">q")
_FRAME = Struct(">qi")
REPORT_BYTES = _REPORT.size
FRAME_HEADER_BYTES = _FRAME.size
assert (REPORT_BYTES, FRAME_HEADER_BYTES) == (8, 12)


class FrameHeader(NamedTuple):
    """Header of a frame."""

    log_offset: int
    size_bytes: int

    @property
    def is_heartbeat(self) -> bool:
        return self.size_bytes == 0


def encode_report(slave_offset: int) -> bytes:
    assert slave_offset >= 0, slave_offset
    return _REPORT.pack(slave_offset)


def decode_report(raw: bytes | bytearray | memoryview, *, stream: str, position: int) -> int:
    """Decode a report. Raises CorruptFileError if its offset is negative."""
    (slave_offset,) = _REPORT.unpack(raw)
    if slave_offset < 0:
        raise CorruptFileError(stream, position, "slave_offset", "0 or more", slave_offset)
    return int(slave_offset)


def encode_frame_header(log_offset: int, size_bytes: int) -> bytes:
    assert log_offset >= 0, log_offset
    assert size_bytes >= 0, size_bytes
    return _FRAME.pack(log_offset, size_bytes)


def decode_frame_header(
    raw: bytes | bytearray | memoryview, segment_bytes: int, *, stream: str, position: int
) -> FrameHeader:
    """Decode a header. The data of a frame must be in one file of segment_bytes.

    Raises CorruptFileError with stream and position of the wrong field.
    """
    header = FrameHeader._make(_FRAME.unpack(raw))
    if header.log_offset < 0:
        raise CorruptFileError(stream, position, "log_offset", "0 or more", header.log_offset)
    room = segment_bytes - header.log_offset % segment_bytes
    if not 0 <= header.size_bytes <= room:
        raise CorruptFileError(stream, position + 8, "size_bytes", f"0 to {room}", header.size_bytes)
    return header


class TransferPiece(NamedTuple):
    """Some bytes of the log, or a heartbeat."""

    log_offset: int
    data: memoryview

    @property
    def is_heartbeat(self) -> bool:
        return not self.data


class FrameReader:
    """Splits a stream into pieces. Only incomplete headers are buffered, never data."""

    def __init__(self, segment_bytes: int, stream: str) -> None:
        self._segment_bytes = segment_bytes
        self._stream = stream
        self._position = 0
        self._head = bytearray()
        self._frame = FrameHeader(0, 0)
        """Log offset and size of the frame's remaining data."""

    def feed(self, received: bytes) -> Iterator[TransferPiece]:
        """Yield views of `received`. Raises CorruptFileError at an invalid header."""
        view = memoryview(received)
        while view:
            if self._frame.size_bytes:
                taken = view[: self._frame.size_bytes]
                offset, left = self._frame
                self._frame = FrameHeader(offset + len(taken), left - len(taken))
                yield TransferPiece(offset, taken)
            else:
                taken = view[: FRAME_HEADER_BYTES - len(self._head)]
                self._head += taken
                if len(self._head) == FRAME_HEADER_BYTES and self._begin_frame().is_heartbeat:
                    yield TransferPiece(self._frame.log_offset, view[:0])
            self._position += len(taken)
            view = view[len(taken) :]

    def _begin_frame(self) -> FrameHeader:
        begin = self._position + len(self._head) - FRAME_HEADER_BYTES
        stream, position = self._stream, max(begin, 0)
        self._frame = decode_frame_header(self._head, self._segment_bytes, stream=stream, position=position)
        self._head.clear()
        return self._frame
