"""Kinds of hostile clients: their traffic, their number, and the required reaction.

The broker must close most of them within a time; one that stays open is stuck.
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
"""Share of the run in which connections are made. Churn covers sudden crowds."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The broker's timeouts in seconds."""

    frame: float
    output: float
    idle: float


@dataclass
class Tally:
    """The fate of one kind's connections."""

    made: int = 0
    closed_by_broker: int = 0
    stuck: int = 0
    """Not closed by the broker in time."""
    refused: int = 0
    """Failed to connect."""
    left: int = 0
    """Closed from this side, as planned."""

    @property
    def ended(self) -> int:
        """Return the number of connections with a known end. The others were not due yet."""
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
    """All connections leave together, with resets, at this number; 0: never."""
    sources: tuple[str, ...] = ("",)
    """Source addresses, used in turn. Empty: the host of the honest clients, if that is this machine."""
    allowed = 0.0
    """Seconds after which the broker must have closed a connection."""

    def __init__(self, limits: Limits, draw: random.Random) -> None:
        self.limits = limits
        self.draw = draw
        self.tally = Tally()
        self.owed = 0.0

    def owes(self, passed: float, seconds: float, held: int) -> int:
        """Return the number of connections to make at `passed` of `seconds`, while `held` are open."""
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
    """Announces frames beyond any limit."""

    name = "oversized lengths"
    per_second = 20.0

    def first(self) -> bytes:
        """Return a length above the limit, or a negative one."""
        return struct.pack(">I", self.draw.randrange(1 << 24, 1 << 32)) + b"x" * 64


class Garbage(Kind):
    """Sends frames without a command."""

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
    """Requests much and reads no answer."""

    name = "a reader that never reads"
    held = 8
    reads = False

    def first(self) -> bytes:
        """Return more pulls than any buffer can hold answers for."""
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
    """Half of them share the host of the honest clients."""

    allowed = inf  # it may stay as long as its answers fit the system's buffers

    def flood(self) -> bytes:
        """Return as many small sends as are worth a call."""
        return bytes(Sends(_FLOOD_BODY_BYTES, 0, 1).request()) * 100


class Churn(Kind):
    """Connects and leaves at once, every other time with a reset."""

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
    """Requests a setting with a name of 3 MB twice per second."""

    name = "huge settings"
    held = 1
    allowed = inf  # requests are refused, and the connection may stay

    def pieces(self) -> Iterator[bytes]:
        body = b"k" * _SETTINGS_BYTES + b"=1\n"
        return cycle((encode_frame(RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, 1, body=body)) * 2,))


class JsonBombs(Kind):
    """Sends JSON headers and bodies that are huge, deeply nested, or both."""

    name = "JSON bombs"
    held = 3
    allowed = inf  # bodies may be refused, and the connection may stay

    def pieces(self) -> Iterator[bytes]:
        """Yield all forms of bombs, starting with another one on each connection."""
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
    """Connects from one host as often and as fast as possible, leaves together, and starts again."""

    name = "a crowd of one host"
    sources = ("127.0.0.3",)
    wave = 14_000
    """More than one host may have."""
    allowed = inf  # the crowd leaves before the idle timeout

    def owes(self, passed: float, seconds: float, held: int) -> int:
        """Return the number of connections for this turn, independent of time."""
        return _CROWD_TURN
