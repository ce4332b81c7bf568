"""Hostile clients in one process with one task. It replaces each closed connection."""

import random
import socket
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from select import EPOLLIN, epoll
from time import monotonic, sleep

from tornlog.store.real.sockets import split_address

from .hostile_kinds import (
    Churn,
    Crowd,
    Garbage,
    HalfFrames,
    HugeSettings,
    Idle,
    JsonBombs,
    Kind,
    Limits,
    NeverReads,
    OversizedLengths,
    Pipelines,
    SlowLoris,
    Tally,
)

_GRACE_SECONDS = 10.0
"""Extra time for each deadline, in case the machine is busy."""
_TURN_SECONDS = 0.01
_RECEIVE_BYTES = 1 << 20
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of 0 s, so that closing sends a reset and no port stays in TIME_WAIT."""
_MIXED = (OversizedLengths, Garbage, HalfFrames, SlowLoris, NeverReads, Pipelines, Churn, HugeSettings, JsonBombs)
_ALONE = (Crowd,)
"""Kinds that run only if named, because a crowd uses the connections that idle clients need."""
KIND_NAMES = tuple(kind.name for kind in (*_MIXED, *_ALONE, Idle))


@dataclass(eq=False)
class _Link:
    socket: socket.socket
    due: float
    """Time by which the broker must close the connection."""
    reads: bool
    unsent: memoryview
    """Unsent rest of the current data."""
    pieces: Iterator[bytes]
    """Data to send later, one piece per second."""
    flood: memoryview
    """Data to send repeatedly, without a pause."""


class Hostility:
    """Several kinds of hostile clients. `only` names the kinds; empty means all that can run together."""

    def __init__(self, address: str, limits: Limits, idle: int, seed: int, only: Collection[str] = ()) -> None:
        draw = random.Random(f"{seed}/hostile")
        kinds: list[Kind] = [kind(limits, draw) for kind in (*_MIXED, *(_ALONE if only else ()))]
        kinds.append(Idle(limits, draw, idle))
        self.kinds = [kind for kind in kinds if not only or kind.name in only]
        self._address = split_address(address)
        self._links: dict[Kind, dict[int, _Link]] = {kind: {} for kind in self.kinds}
        self._kind_of: dict[int, Kind] = {}
        self._poll = epoll()
        self._resets = False
        self._is_local = self._address[0] == "127.0.0.1"

    def run(self, seconds: float) -> dict[str, Tally]:
        """Run for `seconds`, then close all connections. Return the tally of each kind."""
        begin = before = monotonic()
        next_second = begin + 1.0
        while (now := monotonic()) < begin + seconds:
            for kind in self.kinds:
                for _ in range(kind.owes(now - before, seconds, len(self._links[kind]))):
                    kind.owed -= 1
                    self._connect(kind, now)
            before = now
            if now >= next_second:
                next_second += 1.0
                self._begin_pieces()
                self._find_stuck(now)
            self._take_in()
            self._send_on()
            sleep(_TURN_SECONDS)
        for links in self._links.values():
            for link in list(links.values()):
                link.socket.close()
        return {kind.name: kind.tally for kind in self.kinds}

    def _connect(self, kind: Kind, now: float) -> None:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.settimeout(2.0)
        if not kind.reads:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        source = kind.sources[kind.tally.made % len(kind.sources)]
        try:
            if source and self._is_local:
                made.bind((source, 0))
            made.connect(self._address)
            made.setblocking(False)
            first = memoryview(kind.first())
            if first:
                first = first[made.send(first) :]
        except OSError:
            made.close()
            kind.tally.refused += 1
            return
        kind.tally.made += 1
        if isinstance(kind, Churn):
            self._resets = not self._resets
            if self._resets:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            made.close()
            kind.tally.left += 1
            return
        link = _Link(
            made, now + kind.allowed + _GRACE_SECONDS, kind.reads, first, kind.pieces(), memoryview(kind.flood())
        )
        self._links[kind][made.fileno()] = link
        self._kind_of[made.fileno()] = kind
        self._poll.register(made, EPOLLIN if kind.reads else 0)  # epoll reports a reset even with mask 0
        if kind.wave and kind.tally.made % kind.wave == 0:
            self._leave_together(kind)

    def _take_in(self) -> None:
        for descriptor, _ in self._poll.poll(0):
            kind = self._kind_of[descriptor]
            link = self._links[kind][descriptor]
            try:
                has_ended = not link.reads or not link.socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                has_ended = True
            if has_ended:
                kind.tally.closed_by_broker += 1
                self._drop(kind, descriptor)

    def _begin_pieces(self) -> None:
        for links in self._links.values():
            for link in links.values():
                if not link.unsent:
                    link.unsent = memoryview(next(link.pieces, b""))

    def _send_on(self) -> None:
        for kind, links in self._links.items():
            for descriptor, link in list(links.items()):
                link.unsent = link.unsent or link.flood
                if not link.unsent:
                    continue
                try:
                    link.unsent = link.unsent[link.socket.send(link.unsent) :]
                except BlockingIOError:
                    continue
                except OSError:
                    kind.tally.closed_by_broker += 1
                    self._drop(kind, descriptor)

    def _leave_together(self, kind: Kind) -> None:
        for descriptor, link in list(self._links[kind].items()):
            link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            kind.tally.left += 1
            self._drop(kind, descriptor)

    def _find_stuck(self, now: float) -> None:
        for kind, links in self._links.items():
            for descriptor, link in links.items():
                if not link.reads and link.due - _GRACE_SECONDS <= now:
                    link.reads = True  # the end of the connection is reported only after all data is read
                    self._poll.modify(descriptor, EPOLLIN)
            for descriptor in [number for number, link in links.items() if link.due <= now]:
                kind.tally.stuck += 1
                self._drop(kind, descriptor)

    def _drop(self, kind: Kind, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        del self._kind_of[descriptor]
        self._links[kind].pop(descriptor).socket.close()
