"""Cuts what comes over a connection into commands."""

from collections.abc import Iterator

from ..errors import CorruptFileError
from ..formats.remoting.command import RemotingCommand
from ..formats.remoting.frame import LENGTH_BYTES, decode_frame, frame_bytes

LENGTH_FIELD = "length"
"""The field that a CorruptFileError names if it is the frame's length that cannot be."""


class CommandReader:
    """The bytes of one stream that are not yet taken as commands. name is what errors call the stream.

    Invariant: at most one of the two holds bytes: `_data` from `_at` on, whose frames have not been looked for yet, or
    `_part`, the beginning of one frame, which grows in place however small the pieces it comes in.
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
        """Return how much has been added and not been taken."""
        return len(self._data) - self._at if self._part is None else len(self._part)

    @property
    def has_more(self) -> bool:
        """Return whether there may be a command that has not been looked for yet."""
        return self._at < len(self._data)

    def add(self, data: bytes) -> None:
        """Add what came."""
        if self._part is not None:
            self._part += data
            if self._is_whole(self._part):
                self._data, self._at, self._part = bytes(self._part), 0, None
        else:
            self._data = data if self._at == len(self._data) else self._data[self._at :] + data
            self._at = 0

    def take(self) -> tuple[RemotingCommand, int] | None:
        """Return the next command and how many bytes its frame has, None if none is whole.

        CorruptFileError, by offset in the stream, if it is none; nothing can be read after it. An impossible length is
        an error as soon as it is there, before anything of its frame is kept.
        """
        data, at, end = self._data, self._at, len(self._data)
        if end - at >= LENGTH_BYTES:
            size_bytes = frame_bytes(data, at, file=self.name, offset=self._offset - at)
            if at + size_bytes <= end:
                command, _ = decode_frame(data, at, end, file=self.name, offset=self._offset - at)
                self._at += size_bytes
                self._offset += size_bytes
                if self._at == end:
                    self._data, self._at = b"", 0
                return command, size_bytes
        if at < end:
            self._part = bytearray(data[at:])
            self._data, self._at = b"", 0
        return None

    def commands(self, data: bytes) -> Iterator[tuple[RemotingCommand, int]]:
        """Add what came and take all that is whole."""
        self.add(data)
        while (taken := self.take()) is not None:
            yield taken

    def _is_whole(self, part: bytearray) -> bool:
        """Return whether a part has become a frame, or shows that it never will."""
        if len(part) < LENGTH_BYTES:
            return False
        try:
            return len(part) >= frame_bytes(memoryview(part), 0, file=self.name)
        except CorruptFileError:
            return True
