"""Cuts what comes over a connection into commands."""

from collections.abc import Iterator

from ..errors import CorruptFileError
from ..formats.remoting.command import RemotingCommand
from ..formats.remoting.frame import LENGTH_BYTES, decode_frame, frame_bytes

LENGTH_FIELD = "length"
"""The field that a CorruptFileError names if it is the frame's length that cannot be."""


class FrameReader:
    """The bytes of one stream that are not yet a whole frame. name is what errors call the stream."""

    __slots__ = ("_offset", "_part", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._part = bytearray()
        self._offset = 0

    @property
    def part_bytes(self) -> int:
        """Return how much is there of a frame that is not yet whole."""
        return len(self._part)

    def commands(self, data: bytes) -> Iterator[tuple[RemotingCommand, int]]:
        """Yield each command that data completes, with how many bytes its frame had.

        CorruptFileError, by offset in the stream, at the first that is wrong; nothing can be read after it. An
        impossible length is an error as soon as it is there, before anything of its frame is kept.
        """
        if self._part:
            self._part += data
            if not self._is_whole():
                return
            data = bytes(self._part)
            self._part = bytearray()
        at, end = 0, len(data)
        try:
            while end - at >= LENGTH_BYTES:
                size_bytes = frame_bytes(data, at, file=self.name, offset=self._offset)
                if at + size_bytes > end:
                    break
                command, _ = decode_frame(data, at, end, file=self.name, offset=self._offset)
                at += size_bytes
                yield command, size_bytes
        finally:
            self._offset += at
        self._part += data[at:]

    def _is_whole(self) -> bool:
        """Return whether the part has become a frame, or shows that it never will."""
        if len(self._part) < LENGTH_BYTES:
            return False
        try:
            return len(self._part) >= frame_bytes(memoryview(self._part), 0, file=self.name)
        except CorruptFileError:
            return True
