"""What one connection of a load client does again and again: a request, and what its response has to be."""

from typing import Protocol

from ....store.broker.requests import ResponseCode
from .frames import SendFrames, pull_frame
from .responses import ResponseError, decoded, is_success, message_count


class Exchange(Protocol):
    """One kind of request, repeated."""

    def request(self) -> bytes | bytearray:
        """Return the next request's frame, valid until the next call."""

    def response(self, frame: bytes) -> int | None:
        """Take in the response; return how many messages it was about, None if the broker was too busy.

        ResponseError if it is none to hope for.
        """


class Sends:
    """Sends to one queue."""

    def __init__(self, frames: SendFrames) -> None:
        self._frames = frames

    def request(self) -> bytearray:
        """Return the next send."""
        return self._frames.next()

    def response(self, frame: bytes) -> int | None:
        """Take in whether it was stored."""
        return 1 if is_success(frame) else None


class Pulls:
    """Pulls of a queue from its beginning to its end, over and over."""

    def __init__(self, queue_id: int) -> None:
        self._queue_id = queue_id
        self._offset = 0

    def request(self) -> bytes:
        """Return the pull of what comes next."""
        return pull_frame(self._queue_id, self._offset)

    def response(self, frame: bytes) -> int | None:
        """Take in the messages; an end of the queue leads back to its beginning."""
        response = decoded(frame)
        if response.code == ResponseCode.PULL_NOT_FOUND and self._offset > 0:
            self._offset = 0
            return 0
        if response.code == ResponseCode.SYSTEM_BUSY:
            return None
        if response.code != 0:
            raise ResponseError(f"a pull at {self._offset} was answered {response.code}: {response.remark}")
        found, next_offset = message_count(response.body), int(response.ext_fields["nextBeginOffset"])
        if next_offset != self._offset + found or not found:
            raise ResponseError(f"{found} messages from {self._offset} lead to {next_offset}")
        self._offset = next_offset
        return found
