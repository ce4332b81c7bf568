"""Kinds of hostile clients: their traffic, their number, and the required reaction.

The broker must close a connection of most kinds before a deadline. A connection that stays open longer is stuck.
"""

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from math import inf

from tests.bench.exchanges import Sends, pull_frame
from tornlog.store.broker.requests import RequestCode
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.formats.remoting.frame import FRAME_BYTES_MAX, encode_frame

_CONNECTS_A_SECOND_MIN = 200.0
_FLOOD_BODY_BYTES = 100
_SETTINGS_BYTES = 3_000_000
_BOMB_BYTES = 4_000_000
_CROWD_TURN = 500
_RAMP_SHARE = 0.25
"""Share of the run during which connections are opened. Churn opens connections in sudden crowds."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The broker's timeouts in seconds."""

    frame: float
    output: float
    idle: float


@dataclass
class Tally:
    """Number of connections of one kind by outcome."""

    made: int = 0
    closed_by_broker: int = 0
    stuck: int = 0
    """Connections that the broker did not close in time."""
    refused: int = 0
    """Attempts to connect that failed."""
    left: int = 0
    """Connections that the client closed, as planned."""

    @property
    def ended(self) -> int:
        """Return the number of connections with an outcome. The deadline of all others is in the future."""
        return self.closed_by_broker + self.stuck + self.left


class Kind:
    """One kind of hostile client. A subclass defines its traffic, its number, and its deadline."""

    name = ""
    held = 0
    """Connections to keep open."""
    per_second = 0.0
    """Additional connections per second."""
    reads = True
    wave = 0
    """At this number of open connections all are reset together. 0 means never."""
    sources: tuple[str, ...] = ("",)
    """Source addresses, used in turn. Empty means the address that honest clients on this machine use."""
    allowed = 0.0
    """Seconds after which the broker must have closed a connection."""

    def __init__(self, limits: Limits, draw: random.Random) -> None:
        self.limits = limits
        self.draw = draw
        self.tally = Tally()
        self.owed = 0.0

    def owes(self, passed: float, seconds: float, held: int) -> int:
        """Return the number of connections to open now, `passed` seconds after the start, while `held` are open."""
        if not self.held:
            self.owed += self.per_second * passed
            return int(self.owed)
        rate = max(self.held / (seconds * _RAMP_SHARE), _CONNECTS_A_SECOND_MIN)
        self.owed = min(self.owed + rate * passed, rate)
        return min(int(self.owed), self.held - held)

    def first(self) -> bytes:
        """Return the data to send at once."""
        return b""

    def pieces(self) -> Iterator[bytes]:
        """Yield further data, one piece per second."""
        return iter(())

    def flood(self) -> bytes:
        """Return data to repeat without a pause."""
        return b""


class OversizedLengths(Kind):
    """Announces frames that are longer than any limit."""

    name = "oversized lengths"
    per_second = 20.0

    def first(self) -> bytes:
        """Return a length above the limit, or a negative one."""
        return struct.pack(">I", self.draw.randrange(1 << 24, 1 << 32)) + b"x" * 64


class Garbage(Kind):
    """Sends frames that contain no command."""

    name = "garbage"
    per_second = 20.0

    def first(self) -> bytes:
        """Return a frame of random bytes with a correct length."""
        size_bytes = self.draw.randrange(8, 400)
        return struct.pack(">i", size_bytes) + bytes([7]) + self.draw.randbytes(size_bytes - 1)


class HalfFrames(Kind):
    """Sends the first half of a big frame."""

    name = "half frames"
    held = 50

    def first(self) -> bytes:
        whole = encode_frame(RemotingCommand(RequestCode.SEND_MESSAGE_V2, 1, body=bytes(1 << 18)))
        return whole[: len(whole) // 2]

    def __init__(self, limits: Limits, draw: random.Random) -> None:
        super().__init__(limits, draw)
        self.allowed = limits.frame


class SlowLoris(HalfFrames):
    """Sends a frame one byte per second."""

    name = "a byte a second"
    held = 100

    def first(self) -> bytes:
        return b"\0"

    def pieces(self) -> Iterator[bytes]:
        frame = encode_frame(RemotingCommand(RequestCode.SEND_MESSAGE_V2, 1, body=bytes(4096)))[1:]
        return (frame[at : at + 1] for at in range(len(frame)))


class NeverReads(Kind):
    """Sends many requests and reads no answer."""

    name = "a reader that never reads"
    held = 8
    reads = False

    def first(self) -> bytes:
        """Return so many pulls that their answers fit no buffer."""
        return pull_frame(0, 0) * 400

    def __init__(self, limits: Limits, draw: random.Random) -> None:
        super().__init__(limits, draw)
        self.allowed = limits.output * 1.25 + 5  # the broker checks eight times per timeout


class Pipelines(Kind):
    """Sends messages without a pause, and reads no answer."""

    name = "pipelines without a reader"
    held = 120
    reads = False
    sources = ("", "127.0.0.2")
    """Source addresses. Half of these connections use the address of the honest clients."""

    allowed = inf  # the connection may stay while its answers fit the system's buffers

    def flood(self) -> bytes:
        """Return a batch of small sends, large enough for one system call."""
        return bytes(Sends(_FLOOD_BODY_BYTES, 0, 1).request()) * 100


class Churn(Kind):
    """Connects and disconnects at once, every second time with a reset."""

    name = "connection churn"
    per_second = 50.0


class Idle(Kind):
    """Connects and sends no data."""

    name = "idle connections"

    def __init__(self, limits: Limits, draw: random.Random, held: int) -> None:
        super().__init__(limits, draw)
        self.held = held
        self.allowed = limits.idle * 1.25  # the broker checks eight times per timeout


class HugeSettings(Kind):
    """Twice per second requests a setting whose name has 3 MB."""

    name = "huge settings"
    held = 1
    allowed = inf  # the broker refuses the requests, but need not close the connection

    def pieces(self) -> Iterator[bytes]:
        body = b"k" * _SETTINGS_BYTES + b"=1\n"
        return cycle((encode_frame(RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, 1, body=body)) * 2,))


class JsonBombs(Kind):
    """Sends JSON headers and bodies that are huge, deeply nested, or both."""

    name = "JSON bombs"
    held = 3
    allowed = inf  # the broker may refuse the bodies, but need not close the connection

    def pieces(self) -> Iterator[bytes]:
        """Yield all forms of bombs. Each connection starts with a different form."""
        bombs = [*map(_frame_of_header, _json_bombs()), *map(_frame_of_body, _json_bombs())]
        begin = self.tally.made % len(bombs)
        return cycle(bombs[begin:] + bombs[:begin])


def _json_bombs() -> list[bytes]:
    """Return members of JSON objects: many empty lists, many small objects, and one deep list."""
    half = _BOMB_BYTES // 2
    return [
        b'"x":[' + b",".join([b"[]"] * (_BOMB_BYTES // 3)) + b"]",
        b'"x":[' + b",".join([b'{"a":1}'] * (_BOMB_BYTES // 8)) + b"]",
        b'"x":' + b"[" * half + b"]" * half,
    ]


def _frame_of_header(members: bytes) -> bytes:
    header = b'{"code":%d,"opaque":1,%s}' % (RequestCode.HEART_BEAT, members)
    assert len(header) < FRAME_BYTES_MAX, len(header)
    return struct.pack(">iI", 4 + len(header), len(header)) + header


def _frame_of_body(members: bytes) -> bytes:
    return encode_frame(RemotingCommand(RequestCode.HEART_BEAT, 1, body=b'{"clientID":"c",%s}' % members))


class Crowd(Kind):
    """Opens as many connections as possible from one host, closes all at once, and starts again."""

    name = "a crowd of one host"
    sources = ("127.0.0.3",)
    wave = 14_000
    """More connections than the broker allows one host."""
    allowed = inf  # the crowd disconnects before the idle timeout

    def owes(self, passed: float, seconds: float, held: int) -> int:
        """Return the number of connections to open in this turn. It does not depend on time."""
        return _CROWD_TURN
