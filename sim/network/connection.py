"""Connections: two ends and one wire per direction; each byte has an arrival time.

No task transports bytes: the receiver waits until the arrival time. So only arrival times order the deliveries of
different connections.
"""

import errno
from collections import deque
from dataclasses import dataclass, field

from ..machine import Machine, WaitGate
from .medium import ConnectionFault, NetworkMedium, earliest_time_ns

_BROKEN, _LOST = ConnectionFault.BROKEN, ConnectionFault.LOST  # an attribute of an Enum takes longer than a name
_RESET_AFTER_NS = 924 * 1_000_000_000
"""TCP resets a connection if data stays unacknowledged for this time (tcp(7), tcp_retries2)."""


@dataclass(slots=True, eq=False)
class WireDirection:
    """One direction of a connection.

    Invariant: pieces arrive in the order of sending, and the end of the stream arrives last.

    size_bytes counts bytes in flight or unread. While it is too large, the sender waits.
    """

    _pieces: deque[tuple[int, bytes]] = field(default_factory=deque)  # (arrives_ns, data)
    _read_bytes: int = 0  # number of received bytes of the first piece
    size_bytes: int = 0
    ended_ns: int | None = None
    """Time at which the end of the stream arrives; None before it is sent."""

    @property
    def last_arrival_ns(self) -> int:
        return self._pieces[-1][0] if self._pieces else 0

    def send(self, data: bytes, arrives_ns: int) -> int:
        """Add a piece. Return its arrival time, which is not before that of the previous piece."""
        # b"" would mean the end of the stream.
        assert data, "a piece has at least one byte"
        assert self.ended_ns is None, self.ended_ns
        arrives_ns = max(arrives_ns, self.last_arrival_ns)
        self._pieces.append((arrives_ns, data))
        self.size_bytes += len(data)
        return arrives_ns

    def end_stream(self, arrives_ns: int) -> None:
        if self.ended_ns is None:
            self.ended_ns = max(arrives_ns, self.last_arrival_ns)

    def add_lost_bytes(self, size_bytes: int) -> None:
        """Count bytes that never arrive as unread."""
        self.size_bytes += size_bytes

    def receive(self, bytes_max: int, until_ns: int) -> bytes:
        """Return up to bytes_max bytes that arrived by until_ns, possibly none."""
        found: list[bytes] = []
        wanted = bytes_max
        pieces = self._pieces
        while pieces and wanted and pieces[0][0] <= until_ns:
            data = pieces[0][1]
            some = data[self._read_bytes : self._read_bytes + wanted]
            found.append(some)
            wanted -= len(some)
            self._read_bytes += len(some)
            if self._read_bytes == len(data):
                pieces.popleft()
                self._read_bytes = 0
        self.size_bytes -= bytes_max - wanted
        assert wanted >= 0, wanted
        assert self.size_bytes >= 0, self.size_bytes
        return b"".join(found)

    def has_arrived(self, until_ns: int) -> bool:
        if self._pieces:
            return self._pieces[0][0] <= until_ns
        return self.ended_ns is not None and self.ended_ns <= until_ns

    def next_ns(self) -> int | None:
        return self._pieces[0][0] if self._pieces else self.ended_ns

    def count_in_flight(self, now_ns: int) -> int:
        return sum(arrives_ns > now_ns for arrives_ns, _ in self._pieces)

    def drop_last_pieces(self, pieces: int) -> None:
        """Lose the last pieces and the end of the stream. Their bytes still count as unread."""
        assert 0 <= pieces <= len(self._pieces), (pieces, len(self._pieces))
        for _ in range(pieces):
            self._pieces.pop()
        self.ended_ns = None

    def limit_arrivals_to(self, arrives_ns: int) -> None:
        self._pieces = deque((min(due_ns, arrives_ns), data) for due_ns, data in self._pieces)
        if self.ended_ns is not None:
            self.ended_ns = min(self.ended_ns, arrives_ns)


class SimConnection:
    """One end of a connection. A call by this end's machine is a scheduling point.

    Invariant: the other end and the network change only `incoming`, `broken_ns` and `is_lost` of this end.
    """

    __slots__ = (
        *("_machine", "_medium", "broken_ns", "closed", "gate", "host", "incoming", "is_lost", "label"),
        *("local_address", "peer", "remote_address", "watchers"),
    )

    peer: "SimConnection"

    def __init__(
        self, medium: NetworkMedium, machine: Machine, host: str, local_address: str, remote_address: str
    ) -> None:
        self._medium = medium
        self._machine = machine
        self.host = host
        self.local_address = local_address
        self.remote_address = remote_address
        self.label = f"{local_address}>{remote_address}"
        self.incoming = WireDirection()
        self.closed = False
        self.is_lost = False
        """Whether bytes sent from this end are lost without an error."""
        self.broken_ns: int | None = None
        self.gate = WaitGate(medium.kernel, f"network {self.label}")
        self.watchers: list[WaitGate] = []

    # -- called by its machine ----------------------------------------------------------------------

    def receive(self, bytes_max: int, timeout_ms: int | None) -> bytes:
        """Return at least one received byte; b"" after the end of the peer's stream."""
        if bytes_max < 1:
            raise ValueError(f"bytes_max: expected at least 1, found {bytes_max}")
        medium, incoming = self._medium, self.incoming
        medium.pass_scheduling_point(self._machine, f"receive {self.label}")
        due_ns = medium.due_ns(timeout_ms)
        while True:
            now_ns = medium.kernel.now_ns
            self._check_open()
            is_broken = self.broken_ns is not None and self.broken_ns <= now_ns
            # Reads return data that arrived before the reset. Later data is lost.
            until_ns = now_ns if self.broken_ns is None else min(now_ns, self.broken_ns)
            was_full = incoming.size_bytes >= medium.buffer_bytes
            data = incoming.receive(bytes_max, until_ns)
            if data:
                medium.record_event("receive", self.label, data)
                if was_full:
                    self.peer.wake_watchers()  # the peer may wait to send more bytes
                return data
            if is_broken:
                raise ConnectionResetError(errno.ECONNRESET, f"{self.label}: reset")
            if incoming.has_arrived(now_ns):
                medium.record_event("end", self.label, b"")
                return b""
            self.wait(due_ns, (incoming.next_ns(), self.broken_ns))

    def send(self, data: bytes | bytearray | memoryview, timeout_ms: int | None) -> int:
        """Send one or more bytes, as many as fit into the buffer. Returns the number of sent bytes."""
        if not len(data):
            raise ValueError("data: expected at least a byte, found none")
        medium = self._medium
        medium.pass_scheduling_point(self._machine, f"send {self.label}")
        due_ns = medium.due_ns(timeout_ms)
        while True:
            self._check_open()
            if self.broken_ns is not None and self.broken_ns <= medium.kernel.now_ns:
                raise ConnectionResetError(errno.ECONNRESET, f"{self.label}: reset")
            room_bytes = medium.buffer_bytes - self.peer.incoming.size_bytes
            if room_bytes > 0:
                break
            self.wait(due_ns, (self.broken_ns,))
        taken = bytes(data[:room_bytes])
        assert 0 < len(taken) <= room_bytes, (len(taken), room_bytes)
        medium.record_event("send", self.label, taken)
        self._send_pieces(taken)
        return len(taken)

    def close(self) -> None:
        self._medium.pass_scheduling_point(self._machine, f"close {self.label}")
        if not self.closed:
            self._medium.record_event("close", self.label, b"")
            self.end_stream()

    # -- called by its poller and the other side ------------------------------------------------------

    @property
    def receives(self) -> bool:
        first_ns = self.next_ns(receives=True)
        return self.closed or (first_ns is not None and first_ns <= self._medium.kernel.now_ns)

    @property
    def sends(self) -> bool:
        room_bytes = self._medium.buffer_bytes - self.peer.incoming.size_bytes
        return room_bytes > 0 or self._has_ended(self._medium.kernel.now_ns)

    def next_ns(self, *, receives: bool) -> int | None:
        """Return when `sends` (or `receives`, if requested) may change without a call, possibly a past time.

        Only reads by the other end free buffer space, and these call `wake_watchers`.
        """
        broken_ns = self.broken_ns
        if not receives:
            return broken_ns
        next_ns = self.incoming.next_ns()
        return next_ns if broken_ns is None or (next_ns is not None and next_ns < broken_ns) else broken_ns

    @property
    def is_lost_by_reboot(self) -> bool:
        """Return whether this end's host has rebooted, so that its new machine does not know this connection."""
        return not self._machine.alive and self._medium.is_host_on(self.host)

    def wake_watchers(self) -> None:
        self.gate.open()
        for watcher in self.watchers:
            watcher.open()

    def wake_at_arrival(self, arrives_ns: int) -> None:
        if arrives_ns <= self._medium.kernel.now_ns:
            self.wake_watchers()
            return
        self.gate.open_at(arrives_ns)
        for watcher in self.watchers:
            watcher.open_at(arrives_ns)

    def end_stream(self) -> None:
        """End the stream, as an operating system does after a close or the end of a process."""
        self.closed = True
        if not self.is_lost:
            self.peer.incoming.end_stream(self._arrival_ns(0))
        self.wake_watchers()
        self.peer.wake_watchers()

    def close_silently(self) -> None:
        """Close this end without a message to the peer, and lose some of the last pieces in flight."""
        self.closed = True
        under_way = self.peer.incoming.count_in_flight(self._medium.kernel.now_ns)
        if under_way:
            # Arrived pieces cannot be lost, because the peer may have read them.
            lost = self._medium.conditions.draw_lost_pieces(self.host, under_way)
            assert 0 <= lost <= under_way, (lost, under_way)
            self.peer.incoming.drop_last_pieces(lost)
        self.peer.incoming.ended_ns = None  # the end of the stream is lost too if it is in flight
        self.peer.is_lost = True

    def reset(self) -> None:
        """Reset this end now, and after the delay the other end, unless the link is lost."""
        now_ns = self._medium.kernel.now_ns
        self.set_broken_time(now_ns)
        if not self.is_lost:
            self.peer.set_broken_time(now_ns + self._delay_ns(0))

    def set_broken_time(self, broken_ns: int) -> None:
        self.broken_ns = broken_ns if self.broken_ns is None else min(self.broken_ns, broken_ns)
        self.wake_watchers()

    def wait(self, due_ns: int | None, moments_ns: tuple[int | None, ...]) -> None:
        """Wait for a change or for the first of the times. Raises TimeoutError at due_ns."""
        if due_ns is not None and due_ns <= self._medium.kernel.now_ns:
            raise TimeoutError(errno.ETIMEDOUT, f"{self.label}: no data in time")
        self.gate.wait(earliest_time_ns((due_ns, *moments_ns)))

    # -- transport -----------------------------------------------------------------------------------

    def _send_pieces(self, data: bytes) -> None:
        medium, peer = self._medium, self.peer
        conditions = medium.conditions
        now_ns = medium.kernel.now_ns
        if not self.is_lost and not peer.closed:
            mishap = conditions.draw_connection_fault(self.host, peer.host)
            if mishap is _BROKEN:
                self.set_broken_time(now_ns + self._delay_ns(0))
                peer.set_broken_time(now_ns + self._delay_ns(0))
            elif mishap is _LOST:
                self.is_lost = peer.is_lost = True
        if self.is_lost:
            peer.incoming.add_lost_bytes(len(data))  # counted, so a sender on a lost link waits once the buffer is full
            # After a reboot, the new machine resets unknown connections. On a lost link, no answer arrives.
            self.set_broken_time(now_ns + (2 * self._delay_ns(0) if peer.is_lost_by_reboot else _RESET_AFTER_NS))
        elif peer.closed:
            self.set_broken_time(now_ns + self._delay_ns(0) + peer._delay_ns(0))
        else:
            first = len(data)
            if first > 1:
                first = conditions.first_piece_bytes(self.host, peer.host, first)
                assert 0 < first <= len(data), (first, len(data))
            first_ns = last_ns = peer.incoming.send(data[:first], self._arrival_ns(first))
            if first < len(data):
                last_ns = peer.incoming.send(data[first:], first_ns + self._delay_ns(len(data) - first))
            assert now_ns <= first_ns <= last_ns, (now_ns, first_ns, last_ns)
            conditions.note_arrival(self.host, peer.host, now_ns, last_ns)
            peer.wake_at_arrival(first_ns)

    def _arrival_ns(self, size_bytes: int) -> int:
        return self._medium.kernel.now_ns + self._delay_ns(size_bytes)

    def _delay_ns(self, size_bytes: int) -> int:
        return self._medium.conditions.delay_ns(self.host, self.peer.host, size_bytes)

    def _has_ended(self, now_ns: int) -> bool:
        return self.closed or (self.broken_ns is not None and self.broken_ns <= now_ns)

    def _check_open(self) -> None:
        if self.closed:
            raise ConnectionAbortedError(errno.ECONNABORTED, f"{self.label}: closed at this end")
