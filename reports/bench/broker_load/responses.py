"""What load clients make of responses: whether they are what was hoped for, at as little cost as that can be had."""

from struct import Struct

from ....store.broker.requests import ResponseCode
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.frame import decode_frame

_LENGTH = Struct(">i")
_SUCCESS = b'{"code":0,'
_HEADER_AT = 8


class ResponseError(Exception):
    """A broker answered something else than a load client expects."""


class ResponseReader:
    """The one response that is under way on a connection."""

    def __init__(self) -> None:
        self._part = b""

    def add(self, data: bytes) -> bytes | None:
        """Add what came; return the response's frame once it is whole. Nothing may follow it: one request at a time."""
        part = self._part + data if self._part else data
        if len(part) >= _LENGTH.size and len(part) == _LENGTH.unpack_from(part)[0] + _LENGTH.size:
            self._part = b""
            return part
        if len(part) > _LENGTH.size and len(part) > _LENGTH.unpack_from(part)[0] + _LENGTH.size:
            raise ResponseError("more than one response to one request")
        self._part = part
        return None


def is_success(frame: bytes) -> bool:
    """Return whether a request was carried out, False if the broker was too busy. ResponseError: anything else."""
    if frame.startswith(_SUCCESS, _HEADER_AT):
        return True
    response = decoded(frame)
    if response.code not in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY):
        raise ResponseError(f"answered {response.code}: {response.remark}")
    return response.code == 0


def decoded(frame: bytes) -> RemotingCommand:
    """Return a response."""
    return decode_frame(frame, 0, len(frame), file="response")[0]


def message_count(records: bytes) -> int:
    """Return how many records a pull's body holds. ResponseError if they do not fill it."""
    at = count = 0
    while at < len(records):
        size_bytes = _LENGTH.unpack_from(records, at)[0] if at + _LENGTH.size <= len(records) else 0
        if size_bytes <= 0 or at + size_bytes > len(records):
            raise ResponseError(f"a record of {size_bytes} bytes at {at} of {len(records)}")
        at += size_bytes
        count += 1
    return count
