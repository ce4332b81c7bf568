"""The ways to break a broker's rules: what is sent, how many connections there are, and what has to become of them.

Most are to be closed by the broker within a time, and one that is not is stuck.
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
"""Of the whole time: by then what a kind holds is there. Crowds that come at once are what churn is for."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the broker was told to allow, in seconds."""

    frame: float
    output: float
    idle: float


@dataclass
class Tally:
    """What became of one kind's connections."""

    made: int = 0
    closed_by_broker: int = 0
    stuck: int = 0
    """Were to be closed by the broker, and were not in time."""
    refused: int = 0
    """Could not be made."""
    left: int = 0
    """Were closed from this side, as is the way of their kind."""

    @property
    def ended(self) -> int:
        """Return of how many it is known how they ended; of the others none fell due."""
        return self.closed_by_broker + self.stuck + self.left


class Kind:
    """One way to misbehave. A subclass says what it sends, how much of it there is, and what the broker has to do."""

    name = ""
    held = 0
    """How many connections it keeps."""
    per_second = 0.0
    """How many it makes beside."""
    reads = True
    wave = 0
    """After so many connections all of them leave together, with resets; 0: never."""
    sources: tuple[str, ...] = ("",)
    """From which addresses its connections come, in turn; empty: from the same host as honest clients, if that is this
    machine."""

    def __init__(self, limits: Limits, draw: random.Random) -> None:
        self.limits = limits
        self.draw = draw
        self.tally = Tally()
        self.owed = 0.0

    def owes(self, passed: float, seconds: float, held: int) -> int:
        """Return how many connections to make, after a time has passed of so many seconds, while so many are held."""
        if not self.held:
            self.owed += self.per_second * passed
            return int(self.owed)
        rate = max(self.held / (seconds * _RAMP_SHARE), _CONNECTS_A_SECOND_MIN)
        self.owed = min(self.owed + rate * passed, rate)
        return min(int(self.owed), self.held - held)

    def first(self) -> bytes:
        """Return what is sent at once."""
        return b""

    def pieces(self) -> Iterator[bytes]:
        """Yield the data to send after that, one piece a second."""
        return iter(())

    def flood(self) -> bytes:
        """Return what is sent after that again and again, as fast as it is taken."""
        return b""

    @property
    def allowed(self) -> float:
        """Return how long the broker may leave such a connection open."""
        return 0.0


class OversizedLengths(Kind):
    """Announce more than any frame can have."""

    name = "oversized lengths"
    per_second = 20.0

    def first(self) -> bytes:
        """Return a length between the most and what 32 bits hold, of either sign."""
        return struct.pack(">I", self.draw.randrange(1 << 24, 1 << 32)) + b"x" * 64


class Garbage(Kind):
    """Send what is no command."""

    name = "garbage"
    per_second = 20.0

    def first(self) -> bytes:
        """Return a frame of random bytes, with a length that is right."""
        size_bytes = self.draw.randrange(8, 400)
        return struct.pack(">i", size_bytes) + bytes([7]) + self.draw.randbytes(size_bytes - 1)


class HalfFrames(Kind):
    """Send the first half of a big frame and no more."""

    name = "half frames"
    held = 50

    def first(self) -> bytes:
        """Return half of it."""
        whole = encode_frame(RemotingCommand(RequestCode.SEND_MESSAGE_V2, 1, body=bytes(1 << 18)))
        return whole[: len(whole) // 2]

    @property
    def allowed(self) -> float:
        """Return the broker's time for a frame."""
        return self.limits.frame


class SlowLoris(HalfFrames):
    """Send a frame a byte a second."""

    name = "a byte a second"
    held = 100

    def first(self) -> bytes:
        """Return the first byte of a frame's length."""
        return b"\0"

    def pieces(self) -> Iterator[bytes]:
        """Yield its other bytes."""
        frame = encode_frame(RemotingCommand(RequestCode.SEND_MESSAGE_V2, 1, body=bytes(4096)))[1:]
        return (frame[at : at + 1] for at in range(len(frame)))


class NeverReads(Kind):
    """Ask for much and take nothing."""

    name = "a reader that never reads"
    held = 8
    reads = False

    def first(self) -> bytes:
        """Return more pulls than any buffer has room for answers to."""
        return pull_frame(0, 0) * 400

    @property
    def allowed(self) -> float:
        """Return the broker's time to take an answer; it looks at it eight times in that time."""
        return self.limits.output * 1.25 + 5


class Pipelines(Kind):
    """Send messages without end, and take no answer."""

    name = "pipelines without a reader"
    held = 120
    reads = False
    sources = ("", "127.0.0.2")
    """Half of them are of the honest clients' host, and half of another."""

    def flood(self) -> bytes:
        """Return as many small sends as are worth a call."""
        return bytes(Sends(_FLOOD_BODY_BYTES, 0, 1).request()) * 100

    @property
    def allowed(self) -> float:
        """Return no time: as long as its answers fit into the system's buffers, it may go on."""
        return inf


class Churn(Kind):
    """Connect and leave at once, every other time with a reset."""

    name = "connection churn"
    per_second = 50.0


class Idle(Kind):
    """Connect and say nothing."""

    name = "idle connections"

    def __init__(self, limits: Limits, draw: random.Random, held: int) -> None:
        super().__init__(limits, draw)
        self.held = held

    @property
    def allowed(self) -> float:
        """Return the broker's time for idleness; it looks at it eight times in that time."""
        return self.limits.idle * 1.25


class HugeSettings(Kind):
    """Ask twice a second for a change of a setting with a name of 3 MB."""

    name = "huge settings"
    held = 1

    def pieces(self) -> Iterator[bytes]:
        """Yield two requests a second."""
        body = b"k" * _SETTINGS_BYTES + b"=1\n"
        return cycle((encode_frame(RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, 1, body=body)) * 2,))

    @property
    def allowed(self) -> float:
        """Return no time: each request is refused, and the connection may stay."""
        return inf


class JsonBombs(Kind):
    """Send headers and bodies of JSON that are huge, deeply nested, or both."""

    name = "JSON bombs"
    held = 3

    def pieces(self) -> Iterator[bytes]:
        """Yield bombs of all forms, beginning with another one on each connection."""
        bombs = [*map(_frame_of_header, _json_bombs()), *map(_frame_of_body, _json_bombs())]
        begin = self.tally.made % len(bombs)
        return cycle(bombs[begin:] + bombs[:begin])

    @property
    def allowed(self) -> float:
        """Return no time: a body may be refused, and the connection may stay."""
        return inf


def _json_bombs() -> list[bytes]:
    """Return texts of members of an object: many empty lists, many objects of one member, and one deep list."""
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
    """Connect from one host as often as it may, as fast as it can, leave together, and begin again."""

    name = "a crowd of one host"
    sources = ("127.0.0.3",)
    wave = 14_000
    """More than one host may have."""

    def owes(self, passed: float, seconds: float, held: int) -> int:
        """Return how many connections to make in this turn, whatever the time."""
        return _CROWD_TURN

    @property
    def allowed(self) -> float:
        """Return no time: the crowd leaves before the broker may find it idle."""
        return inf
