"""Clients that break every rule, all in one process and one task. A connection the broker closed is made anew."""

import random
import socket
import struct
from collections import deque
from dataclasses import dataclass, field
from select import EPOLLIN, epoll
from time import monotonic, sleep

from tornlog.store.real.sockets import split_address

from .hostile_kinds import (
    Churn,
    Garbage,
    HalfFrames,
    Idle,
    Kind,
    Limits,
    NeverReads,
    OversizedLengths,
    Pipelines,
    SlowLoris,
    Tally,
)

_GRACE_SECONDS = 10.0
"""Above the broker's own limit, for a busy machine."""
_TURN_SECONDS = 0.01


@dataclass(eq=False)
class _Link:
    socket: socket.socket
    due: float
    """By when the broker has to have closed it."""
    reads: bool = True
    pending: deque[bytes] = field(default_factory=deque)
    """What is still to be sent, a piece a second."""
    flood: memoryview = field(default_factory=lambda: memoryview(b""))
    """What is sent again and again."""
    at: int = 0
    """How much of it has been sent this time."""


class Hostility:
    """All kinds at once."""

    def __init__(self, address: str, limits: Limits, idle: int, seed: int) -> None:
        draw = random.Random(f"{seed}/hostile")
        plain = (OversizedLengths, Garbage, HalfFrames, SlowLoris, NeverReads, Pipelines, Churn)
        self.kinds: list[Kind] = [*(kind(limits, draw) for kind in plain), Idle(limits, draw, idle)]
        self._address = split_address(address)
        self._links: dict[Kind, dict[int, _Link]] = {kind: {} for kind in self.kinds}
        self._kind_of: dict[int, Kind] = {}
        self._poll = epoll()
        self._resets = False
        self._is_local = self._address[0] == "127.0.0.1"

    def run(self, seconds: float) -> dict[str, Tally]:
        """Misbehave for a while, then leave; return what became of each kind's connections."""
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
                self._go_on()
                self._find_stuck(now)
            self._take_in()
            self._flood()
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
            first = kind.first()
            if first:
                made.send(first)
        except OSError:
            made.close()
            kind.tally.refused += 1
            return
        kind.tally.made += 1
        if isinstance(kind, Churn):
            self._resets = not self._resets
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", self._resets, 0))
            made.close()
            kind.tally.left += 1
            return
        link = _Link(
            made,
            now + kind.allowed + _GRACE_SECONDS,
            kind.reads,
            deque(kind.pieces()),
            memoryview(kind.flood()),
        )
        self._links[kind][made.fileno()] = link
        self._kind_of[made.fileno()] = kind
        self._poll.register(made, EPOLLIN if kind.reads else 0)  # a reset is told in any case

    def _take_in(self) -> None:
        """Find the connections that the broker has closed."""
        for descriptor, _ in self._poll.poll(0):
            kind = self._kind_of[descriptor]
            link = self._links[kind][descriptor]
            try:
                has_ended = not link.reads or not link.socket.recv(1 << 16)
            except BlockingIOError:
                continue
            except OSError:
                has_ended = True
            if has_ended:
                kind.tally.closed_by_broker += 1
                self._drop(kind, descriptor)

    def _go_on(self) -> None:
        for kind, links in self._links.items():
            for descriptor, link in list(links.items()):
                if not link.pending:
                    continue
                try:
                    link.socket.send(link.pending.popleft())
                except BlockingIOError:
                    continue
                except OSError:
                    kind.tally.closed_by_broker += 1
                    self._drop(kind, descriptor)

    def _flood(self) -> None:
        for kind, links in self._links.items():
            for descriptor, link in list(links.items()):
                if not link.flood:
                    continue
                try:
                    link.at = (link.at + link.socket.send(link.flood[link.at :])) % len(link.flood)
                except BlockingIOError:
                    continue
                except OSError:
                    kind.tally.closed_by_broker += 1
                    self._drop(kind, descriptor)

    def _find_stuck(self, now: float) -> None:
        for kind, links in self._links.items():
            for descriptor, link in links.items():
                if not link.reads and link.due - _GRACE_SECONDS <= now:
                    link.reads = True  # an end is told behind all that was sent before it
                    self._poll.modify(descriptor, EPOLLIN)
            for descriptor in [number for number, link in links.items() if link.due <= now]:
                kind.tally.stuck += 1
                self._drop(kind, descriptor)

    def _drop(self, kind: Kind, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        del self._kind_of[descriptor]
        self._links[kind].pop(descriptor).socket.close()
