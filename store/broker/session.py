"""One client's connection on the server's side: what waits to be taken by the client, and what of its is under way.

Any task may send. It hands over what the network takes at once; what the network does not take waits here for the
server's poller task, which alone receives, and alone decides for what the connection is watched.
"""

from collections import deque
from typing import Protocol

from ..formats.remoting.command import RemotingCommand
from ..formats.remoting.frame import encode_frame
from ..network import Connection
from ..world import World
from .frame_reader import FrameReader
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


class Session:
    """One connection; a Channel to processors.

    Invariant: output_bytes is the sum of what is in the output, and what requests that wait or are under way have is
    counted apart, for no task that answers is to keep the poller waiting; both count towards the keeper's held bytes.
    """

    __slots__ = (
        "_keeper",
        "_lock",
        "_now_ns",
        "_output",
        "_requests_bytes",
        "active_ns",
        "connection",
        "ending",
        "host",
        "local_address",
        "output_bytes",
        "reader",
        "remote_address",
        "taken_ns",
        "watched_for",
    )

    def __init__(self, world: World, connection: Connection, keeper: SessionKeeper) -> None:
        self.connection = connection
        self.remote_address = connection.remote_address
        self.local_address = connection.local_address
        self.host = self.remote_address.rpartition(":")[0]
        self.reader = FrameReader(self.remote_address)
        self.ending: Ending | None = None
        self.output_bytes = 0
        self._requests_bytes = world.tasks.cell("bytes of requests")
        self._now_ns = world.clock.monotonic_ns
        self.active_ns = self.taken_ns = self._now_ns()
        """When anything came or went, and when the client last took any of what waits for it."""
        self.watched_for = (True, False)
        """Whether the poller waits for it to receive, and to have room; the poller task's own."""
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
            return False, Ending.NOT_READING
        self._keep(frame)
        return True, None

    def _hand_over(self, data: memoryview) -> tuple[memoryview, Ending | None]:
        """Give the network data; return what it did not take, and how the connection has ended if it has."""
        try:
            while data:
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
        if self._output is None:
            self._output = deque()  # which few sessions ever need, and which is not small
        self._output.append(data)
        self.output_bytes += len(data)
        self._keeper.hold(len(data))

    # -- requests ----------------------------------------------------------------------------------

    def began_request(self, size_bytes: int) -> None:
        """Count a request's frame until it is done."""
        self._requests_bytes.add(max(size_bytes, self._keeper.limits.request_bytes_least))
        self._keeper.hold(size_bytes)

    def done_request(self, size_bytes: int) -> None:
        """Count it no more."""
        limits = self._keeper.limits
        counted_bytes = max(size_bytes, limits.request_bytes_least)
        left_bytes = self._requests_bytes.add(-counted_bytes)
        self._keeper.hold(-size_bytes)
        if left_bytes < limits.requests_bytes_max <= left_bytes + counted_bytes:
            self._keeper.look_after(self)

    @property
    def is_listened_to(self) -> bool:
        """Return whether more may come: not while it leaves answers lying, or has much under way."""
        limits = self._keeper.limits
        return (
            self.output_bytes <= limits.output_pause_bytes
            and self._requests_bytes.get() < limits.requests_bytes_max
            and self._keeper.is_listening
        )
