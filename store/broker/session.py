"""Session: the server's side of a connection.

Any task may send. A session buffers data that the network does not accept at once, and the poller task sends it later.
Only the poller task receives, and chooses the events to watch.
"""

from collections import deque
from typing import Protocol

from ..formats.remoting.command import RemotingCommand
from ..formats.remoting.frame import CommandReader, encode_frame
from ..network import Connection
from ..world import World
from .limits import ServerLimits
from .server_counts import ConnectionEnding


class SessionKeeper(Protocol):
    """The server, as seen by its sessions. Thread-safe."""

    @property
    def limits(self) -> ServerLimits: ...

    @property
    def is_listening(self) -> bool: ...

    def add_held_bytes(self, size_bytes: int) -> None:
        """Count buffered bytes of clients. A negative number subtracts."""

    def update_on_next_turn(self, session: "Session") -> None:
        """Update the timeouts and watched events of a session in the next turn."""

    def release_session(self, session: "Session", ending: ConnectionEnding) -> None:
        """Release the connection of a session that has ended."""


class ClientHost:
    """State shared by a host's connections."""

    __slots__ = ("_busy", "connections", "name")

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.connections = 0
        """Only for the poller task."""
        self._busy = world.tasks.cell("busy connections of a host")

    def count_connection_begun(self) -> None:
        busy = self._busy.add(1)
        assert busy > 0, busy

    def count_connection_done(self) -> None:
        busy = self._busy.add(-1)
        assert busy >= 0, busy

    def bytes_per_connection(self, limits: ServerLimits) -> int:
        return min(limits.requests_bytes_max, limits.requests_of_host_bytes_max // max(self._busy.get(), 1))


class Session:
    """A connection, which processors use as a Channel.

    Invariant: `output_bytes` is the size of the buffered output. A cell without the lock counts request bytes, because
    an answering task must not delay the poller task. The keeper's held bytes include both.
    """

    __slots__ = (
        "_is_paused",
        "_keeper",
        "_lock",
        "_now_ns",
        "_output",
        "_requests_bytes",
        "active_ns",
        "connection",
        "ending",
        "heard_turn",
        "host",
        "local_address",
        "output_bytes",
        "reader",
        "remote_address",
        "taken_ns",
        "watched_for",
    )

    def __init__(self, world: World, connection: Connection, keeper: SessionKeeper, host: ClientHost) -> None:
        self.connection = connection
        self.remote_address = connection.remote_address
        self.local_address = connection.local_address
        self.host = host
        self.reader = CommandReader(self.remote_address)
        self.ending: ConnectionEnding | None = None
        self.output_bytes = 0
        self._requests_bytes = world.tasks.cell("bytes of requests")
        self._now_ns = world.clock.monotonic_ns
        self.active_ns = self.taken_ns = self._now_ns()
        """Times of the last traffic and of the client's last read."""
        self.watched_for = (True, False)
        """Whether the poller watches for input and for output. Only for the poller task."""
        self.heard_turn = 0
        """The poller task's last turn with this session."""
        self._is_paused = False
        """Whether the session must wake the poller task after enough requests are done."""
        self._output: deque[memoryview] | None = None
        self._lock = world.tasks.lock("session")
        self._keeper = keeper

    @property
    def is_open(self) -> bool:
        return self.ending is None

    def send(self, command: RemotingCommand) -> bool:
        """Send or buffer a command, without blocking. Return False if the connection has ended.

        Raises ValueError if the command does not fit a frame.
        """
        frame = memoryview(encode_frame(command))
        with self._lock:
            if self.ending is not None:
                return False
            waits, ending = self._send_or_buffer(frame)
        if ending is not None:
            self.end_session(ending)
            return False
        if waits:
            self._keeper.update_on_next_turn(self)
        return True

    def close(self) -> None:
        self.end_session(ConnectionEnding.BY_PROCESSOR)

    def end_session(self, ending: ConnectionEnding) -> None:
        """Only the first call has an effect."""
        with self._lock:
            if self.ending is not None:
                return
            self.ending = ending
            # Under the lock, because bytes that another task buffers later would never be subtracted.
            self._keeper.add_held_bytes(-self.output_bytes)
            self.output_bytes = 0
            self._output = None
        self._keeper.release_session(self, ending)

    def send_buffered(self) -> None:
        ending: ConnectionEnding | None = None
        with self._lock:
            output = self._output
            while output and ending is None:
                piece = output[0]
                unsent, ending = self._send_now(piece)
                sent_bytes = len(piece) - len(unsent)
                assert 0 <= sent_bytes <= self.output_bytes, (sent_bytes, self.output_bytes)
                self.output_bytes -= sent_bytes
                self._keeper.add_held_bytes(-sent_bytes)
                if unsent:
                    output[0] = unsent
                    break
                output.popleft()
        if ending is not None:
            self.end_session(ending)

    def _send_or_buffer(self, frame: memoryview) -> tuple[bool, ConnectionEnding | None]:
        """Return whether output is buffered, and an optional reason to end the connection."""
        if not self.output_bytes:
            frame, ending = self._send_now(frame)
            if ending is not None or not frame:
                return False, ending
        elif self.output_bytes > self._keeper.limits.output_bytes_max:
            return False, ConnectionEnding.NOT_READING  # the limit excludes this frame: one large answer is allowed
        self._buffer_output(frame)
        return True, None

    def _send_now(self, data: memoryview) -> tuple[memoryview, ConnectionEnding | None]:
        """Return the unsent data, and an optional reason to end the connection."""
        try:
            while data:  # with timeout 0, because a client that does not read must not block other clients
                data = data[self.connection.send(data, 0) :]
                self.active_ns = self.taken_ns = self._now_ns()
        except TimeoutError:
            pass
        except OSError:
            return data, ConnectionEnding.BROKEN
        return data, None

    def _buffer_output(self, data: memoryview) -> None:
        if not self.output_bytes:
            self.taken_ns = self._now_ns()
        assert data, "no data to buffer"
        if self._output is None:
            self._output = deque()  # created on demand, because a deque is large and few sessions need one
        self._output.append(data)
        self.output_bytes += len(data)
        self._keeper.add_held_bytes(len(data))

    def count_request_begun(self, size_bytes: int) -> None:
        assert size_bytes > 0, size_bytes
        counted_bytes = max(size_bytes, self._keeper.limits.request_bytes_least)
        if self._requests_bytes.add(counted_bytes) == counted_bytes:  # `add` is atomic: one task is the first
            self.host.count_connection_begun()
        self._keeper.add_held_bytes(size_bytes)

    def count_request_done(self, size_bytes: int) -> None:
        limits = self._keeper.limits
        left_bytes = self._requests_bytes.add(-max(size_bytes, limits.request_bytes_least))
        assert left_bytes >= 0, left_bytes
        self._keeper.add_held_bytes(-size_bytes)
        if left_bytes == 0:
            self.host.count_connection_done()
        # Wake the poller only at half of the limit, for fewer wake-ups.
        if self._is_paused and left_bytes * 2 <= self.host.bytes_per_connection(limits):
            self._is_paused = False
            self._keeper.update_on_next_turn(self)

    @property
    def pending_bytes(self) -> int:
        """Bytes of requests without an answer, as counted for the limits. Held pulls do not count."""
        return self._requests_bytes.get()

    @property
    def is_pipelining(self) -> bool:
        """Whether the client sends requests before it has read all answers."""
        return self.reader.held_bytes > 0 or self.output_bytes > 0 or self.pending_bytes > 0

    @property
    def may_receive_more(self) -> bool:
        """Whether unread output and pending requests are within their limits. Only for the poller task.

        After a result of False, the session wakes the poller task when the value becomes True.
        """
        if self._is_within_limits():
            return True
        self._is_paused = True  # set before the second check, which includes a request that has just ended
        return self._is_within_limits()

    def _is_within_limits(self) -> bool:
        limits = self._keeper.limits
        pending_bytes = self.pending_bytes
        return (
            self.output_bytes <= limits.output_pause_bytes
            and (pending_bytes == 0 or pending_bytes < self.host.bytes_per_connection(limits))
            and self._keeper.is_listening
        )
