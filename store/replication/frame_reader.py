"""Takes a master's stream apart, however the network cut it."""

from collections.abc import Iterator
from typing import NamedTuple

from ..formats.replication import FRAME_HEADER_BYTES, FrameHeader, decode_frame_header


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
        self._frame = decode_frame_header(
            self._head, self._segment_bytes, stream=self._stream, position=max(begin, 0)
        )
        self._head.clear()
        return self._frame
