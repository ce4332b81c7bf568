"""Session: one client's connection on the server's side, with its unsent output and its requests under way.

Any task may send. It hands over what the network takes at once; what the network does not take waits here for the
server's poller task, which alone receives, and alone decides for what the connection is watched.
"""

from collections import deque
from typing import Protocol

from ..formats.remoting.command import RemotingCommand
from ..formats.remoting.frame import CommandReader, encode_frame
from ..network import Connection
from ..world import World
from .limits import ServerLimits
from .server_counts import Ending


class SessionKeeper(Protocol):
    """Who looks after all sessions of a server. Any task may call."""

    @property
    def limits(self) -> ServerLimits:
        """Return what a client may have."""

    @property
    def is_listening(self) -> bool:
        """Return whether requests are still taken from anybody."""

    def hold(self, size_bytes: int) -> None:
        """Count bytes that are kept for some client; a negative number of those that no longer are."""

    def look_after(self, session: "Session") -> None:
        """See soon what a session is to be watched for."""

    def ended(self, session: "Session", ending: Ending) -> None:
        """Let go of a session that has ended."""


class ClientHost:
    """What all connections of one host have together."""

    __slots__ = ("_busy", "connections", "name")

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.connections = 0
        """The poller task's own."""
        self._busy = world.tasks.cell("busy connections of a host")

    def began(self) -> None:
        """Count a connection that has requests under way."""
        self._busy.add(1)

    def done(self) -> None:
        """Count it no more."""
        busy = self._busy.add(-1)
        assert busy >= 0, busy

    def share(self, limits: ServerLimits) -> int:
        """Return how many bytes of requests one of its connections may have under way."""
        return min(limits.requests_bytes_max, limits.requests_of_host_bytes_max // max(self._busy.get(), 1))


class Session:
    """One connection; a Channel to processors.

    Invariant: output_bytes is the sum of what is in the output, and what requests that wait or are under way have is
    counted apart, for no task that answers is to keep the poller waiting; both count towards the keeper's held bytes.
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
        self.ending: Ending | None = None
        self.output_bytes = 0
        self._requests_bytes = world.tasks.cell("bytes of requests")
        self._now_ns = world.clock.monotonic_ns
        self.active_ns = self.taken_ns = self._now_ns()
        """When anything came or went, and when the client last took any of what waits for it."""
        self.watched_for = (True, False)
        """Whether the poller waits for it to receive, and to have room; the poller task's own."""
        self.heard_turn = 0
        """In which of its turns the poller task last received of it."""
        self._is_paused = False
        """Whether the poller task is to be woken when enough of its requests are done."""
        self._output: deque[memoryview] | None = None
        self._lock = world.tasks.lock("session")
        self._keeper = keeper

    @property
    def is_open(self) -> bool:
        """Return whether anything can still be sent."""
        return self.ending is None

    def send(self, command: RemotingCommand) -> bool:
        """Have a command sent, never waiting; False if it never will be. ValueError if no frame can hold it."""
        frame = memoryview(encode_frame(command))
        with self._lock:
            if self.ending is not None:
                return False
            waits, ending = self._take_over(frame)
        if ending is not None:
            self.end(ending)
            return False
        if waits:
            self._keeper.look_after(self)
        return True

    def close(self) -> None:
        """End the connection."""
        self.end(Ending.BY_PROCESSOR)

    def end(self, ending: Ending) -> None:
        """End the connection for a reason; the first one counts."""
        with self._lock:
            if self.ending is not None:
                return
            self.ending = ending
            # Under the lock: bytes that another task adds after this would never be subtracted.
            self._keeper.hold(-self.output_bytes)
            self.output_bytes = 0
            self._output = None
        self._keeper.ended(self, ending)

    # -- output ------------------------------------------------------------------------------------

    def send_waiting(self) -> None:
        """Hand over what waits, as much as the network takes."""
        ending: Ending | None = None
        with self._lock:
            output = self._output
            while output and ending is None:
                piece = output[0]
                left, ending = self._hand_over(piece)
                taken = len(piece) - len(left)
                assert 0 <= taken <= self.output_bytes, (taken, self.output_bytes)
                self.output_bytes -= taken
                self._keeper.hold(-taken)
                if left:
                    output[0] = left
                    break
                output.popleft()
        if ending is not None:
            self.end(ending)

    def _take_over(self, frame: memoryview) -> tuple[bool, Ending | None]:
        """Hand over a frame, or keep what cannot be; return whether any waits, and how the connection has ended."""
        if not self.output_bytes:
            frame, ending = self._hand_over(frame)
            if ending is not None or not frame:
                return False, ending
        elif self.output_bytes > self._keeper.limits.output_bytes_max:
            return False, Ending.NOT_READING  # this frame does not count: one large answer ends no connection
        self._keep(frame)
        return True, None

    def _hand_over(self, data: memoryview) -> tuple[memoryview, Ending | None]:
        """Give the network data; return what it did not take, and how the connection has ended if it has."""
        try:
            while data:  # without waiting: a client that does not read must not block the others
                data = data[self.connection.send(data, 0) :]
                self.active_ns = self.taken_ns = self._now_ns()
        except TimeoutError:
            pass
        except OSError:
            return data, Ending.BROKEN
        return data, None

    def _keep(self, data: memoryview) -> None:
        if not self.output_bytes:
            self.taken_ns = self._now_ns()
        assert data, "nothing to keep"
        if self._output is None:
            self._output = deque()  # which few sessions ever need, and which is not small
        self._output.append(data)
        self.output_bytes += len(data)
        self._keeper.hold(len(data))

    # -- requests ----------------------------------------------------------------------------------

    def began_request(self, size_bytes: int) -> None:
        """Count a request's frame until it is done."""
        assert size_bytes > 0, size_bytes
        counted_bytes = max(size_bytes, self._keeper.limits.request_bytes_least)
        if self._requests_bytes.add(counted_bytes) == counted_bytes:  # one step: two tasks must not both be the first
            self.host.began()
        self._keeper.hold(size_bytes)

    def done_request(self, size_bytes: int) -> None:
        """Count it no more."""
        limits = self._keeper.limits
        left_bytes = self._requests_bytes.add(-max(size_bytes, limits.request_bytes_least))
        assert left_bytes >= 0, left_bytes
        self._keeper.hold(-size_bytes)
        if left_bytes == 0:
            self.host.done()
        if self._is_paused and left_bytes * 2 <= self.host.share(limits):  # half: not a look for each request
            self._is_paused = False
            self._keeper.look_after(self)

    @property
    def is_pipelining(self) -> bool:
        """Return whether it asks for more than it waits for, or leaves answers lying."""
        return self.reader.held_bytes > 0 or self.output_bytes > 0 or self._requests_bytes.get() > 0

    @property
    def is_listened_to(self) -> bool:
        """Return whether more may come: not while it leaves answers lying, or has its share of requests under way.

        For the poller task, which is woken when that changes.
        """
        if self._is_heard():
            return True
        self._is_paused = True  # before the second look: who is done from now on wakes it, who was before is seen
        return self._is_heard()

    def _is_heard(self) -> bool:
        limits = self._keeper.limits
        under_way_bytes = self._requests_bytes.get()
        return (
            self.output_bytes <= limits.output_pause_bytes
            and (under_way_bytes == 0 or under_way_bytes < self.host.share(limits))
            and self._keeper.is_listening
        )
