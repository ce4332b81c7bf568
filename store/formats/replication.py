"""Replication stream between slave and master: two endless streams, with no greeting, number or checksum.

    slave to master: a report, again and again
    offset  bytes  field
    0       8      slave_offset   how far the slave's log goes; the first one says where to begin, 0: at the last file

    master to slave: a frame, again and again
    offset  bytes  field
    0       8      log_offset     where in the log what follows belongs
    8       4      size_bytes     of what follows; 0 is a heartbeat, whose log_offset is that of the next frame
    12      n      bytes of the log as they are, never of two files; cut anywhere, also inside a record

Everything is big-endian. TCP's checksum is all there is; a receiver that wants more looks at the records.
Source: RocketMQ HAConnection, DefaultHAService (HAService before 5.0).
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
    """What stands in front of each piece of the log."""

    log_offset: int
    size_bytes: int

    @property
    def is_heartbeat(self) -> bool:
        """Return whether nothing follows."""
        return self.size_bytes == 0


def encode_report(slave_offset: int) -> bytes:
    """Encode how far a slave's log goes."""
    assert slave_offset >= 0, slave_offset
    return _REPORT.pack(slave_offset)


def decode_report(raw: bytes | bytearray | memoryview, *, stream: str, position: int) -> int:
    """Decode one report. Raises CorruptFileError, placed by stream and position in it, if it is below 0."""
    (slave_offset,) = _REPORT.unpack(raw)
    if slave_offset < 0:
        raise CorruptFileError(stream, position, "slave_offset", "0 or more", slave_offset)
    return int(slave_offset)


def encode_frame_header(log_offset: int, size_bytes: int) -> bytes:
    """Encode what goes in front of size_bytes of the log."""
    assert log_offset >= 0, log_offset
    assert size_bytes >= 0, size_bytes
    return _FRAME.pack(log_offset, size_bytes)


def decode_frame_header(
    raw: bytes | bytearray | memoryview, segment_bytes: int, *, stream: str, position: int
) -> FrameHeader:
    """Decode a frame's first 12 bytes; nothing of it may lie in two files of segment_bytes.

    Raises CorruptFileError, placed by stream and position in it, at the field that is wrong.
    """
    header = FrameHeader._make(_FRAME.unpack(raw))
    if header.log_offset < 0:
        raise CorruptFileError(stream, position, "log_offset", "0 or more", header.log_offset)
    room = segment_bytes - header.log_offset % segment_bytes
    if not 0 <= header.size_bytes <= room:
        raise CorruptFileError(stream, position + 8, "size_bytes", f"0 to {room}", header.size_bytes)
    return header


class TransferPiece(NamedTuple):
    """Bytes of the log, or a heartbeat."""

    log_offset: int
    data: memoryview

    @property
    def is_heartbeat(self) -> bool:
        """Return whether there are none."""
        return not self.data


class FrameReader:
    """Keeps of the stream what is not yet a whole header; a frame's bytes are passed on as they come."""

    def __init__(self, segment_bytes: int, stream: str) -> None:
        """Stream is what errors name."""
        self._segment_bytes = segment_bytes
        self._stream = stream
        self._position = 0
        """Of the next byte in the stream."""
        self._head = bytearray()
        self._frame = FrameHeader(0, 0)
        """What is left of the frame whose bytes come."""

    def feed(self, received: bytes) -> Iterator[TransferPiece]:
        """Yield what received brings; pieces live as long as it. Raises CorruptFileError at a header that is none."""
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
