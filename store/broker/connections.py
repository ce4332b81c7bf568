"""Who is connected, and the one task that moves frames for all of them.

It accepts, receives, cuts what it receives into commands, sends what could not be sent at once, and ends connections
that are idle, slow or broken. It never waits for one of them, and an idle one costs it nothing.
"""

from collections import deque
from collections.abc import Callable, Sequence

from ..errors import CorruptFileError
from ..formats.remoting.command import RemotingCommand
from ..network import Connection, Listener, Network
from ..service import Service
from ..world import World
from .deadlines import Deadlines
from .frame_reader import LENGTH_FIELD
from .limits import ServerLimits
from .server_counts import Ending, ServerCounts
from .session import Session

RECEIVE_BYTES = 64 * 1024
ACCEPTS_MAX = 64
"""At a time, so that a crowd at the door does not keep those inside waiting."""
DRAINED_MS = 5_000
"""How long a turn may take, by far."""
LOOKS = 8
"""How often a time that may pass in idleness is looked at while it passes."""

Receive = Callable[[Session, RemotingCommand, int, int], None]
"""Takes a command of a session, the bytes of its frame, and when it came."""


class Connections(Service):
    """The connections of one server. receive and on_turn are called in its task, which must not be kept waiting."""

    name = "connections"

    def __init__(
        self,
        world: World,
        limits: ServerLimits,
        counts: ServerCounts,
        receive: Receive,
        on_ended: Callable[[Session], None],
        on_turn: Callable[[int], int | None],
        tell: Callable[[str], None],
    ) -> None:
        """on_turn: what else there is to do by now_ns; returns when next. tell: what an operator should know of."""
        super().__init__(world)
        assert world.network is not None, "a server needs a network"
        self.limits = limits
        self._network: Network = world.network
        self._counts = counts
        self._on_command = receive
        self._on_ended = on_ended
        self._on_turn = on_turn
        self._tell = tell
        self._poller = self._network.poller()
        self._listeners: dict[Connection | Listener, Listener] = {}
        self._listening = world.tasks.cell("listening", 1)
        self._drained = world.tasks.signal("drained")
        self._has_drained = False
        self._held_bytes = world.tasks.cell("held bytes")
        self._sessions: dict[Connection | Listener, Session] = {}
        self._of_host: dict[str, int] = {}
        self._attention: deque[Session] = deque()
        self._frames: Deadlines[Session] = Deadlines(limits.frame_ms_max)
        self._idle: Deadlines[Session] = Deadlines(limits.idle_ms_max // LOOKS)
        self._outputs: Deadlines[Session] = Deadlines(limits.output_ms_max // LOOKS)
        self._turn_due_ns: int | None = None

    # -- life --------------------------------------------------------------------------------------

    def listen(self, addresses: Sequence[str]) -> list[str]:
        """Listen at some addresses; return them with the ports they got. OSError, and none, if one cannot be had."""
        listeners: list[Listener] = []
        try:
            listeners.extend(map(self._network.listen, addresses))
        except OSError:
            for listener in listeners:
                listener.close()
            raise
        for listener in listeners:
            self._listeners[listener] = listener
            self._poller.watch(listener, receives=True, sends=False)
        return [listener.address for listener in listeners]

    def wake(self) -> None:
        """Let the turn that waits go on at once."""
        self._poller.wake()

    def drain(self) -> None:
        """Take no more requests, from when this returns; go on sending answers."""
        self._listening.set(0)
        self._poller.wake()
        if self._task is not None:
            self._drained.wait(DRAINED_MS)

    def shutdown(self) -> None:
        """End all connections, after one more try to send what waits."""
        self._stopping.set(1)
        self._poller.wake()
        if self._task is None:
            self.finish()
        super().shutdown()

    def finish(self) -> None:
        """End what is left."""
        self._close_listeners()
        for session in list(self._sessions.values()):
            session.send_waiting()
            session.end(Ending.SHUTDOWN)
            self._remove(session)
        self._poller.close()

    # -- what sessions ask, from any task ----------------------------------------------------------

    @property
    def is_listening(self) -> bool:
        """Return whether requests are still taken from anybody."""
        return self._listening.get() == 1

    @property
    def count(self) -> int:
        """Return how many are connected."""
        return len(self._sessions)

    @property
    def held_bytes(self) -> int:
        """Return how much is kept of all frames."""
        return self._held_bytes.get()

    def has_room(self) -> bool:
        """Return whether a request may be kept, after ending whoever is slow if need be. For the poller task alone."""
        self._relieve()
        return self._held_bytes.get() <= self.limits.held_bytes_max

    def hold(self, size_bytes: int) -> None:
        """Count bytes that are kept for some client; a negative number of those that no longer are."""
        self._held_bytes.add(size_bytes)

    def look_after(self, session: Session) -> None:
        """See soon what a session is to be watched for."""
        self._attention.append(session)
        self._poller.wake()

    def ended(self, session: Session, ending: Ending) -> None:
        """Let go of a session that has ended."""
        self._counts.ended(ending)
        self._poller.forget(session.connection)
        session.connection.close()
        self.look_after(session)

    # -- turns -------------------------------------------------------------------------------------

    def step(self) -> None:
        """Wait until something can be done, and do it."""
        ready = self._poller.wait(self._wait_ms())
        now_ns = self.world.clock.monotonic_ns()
        for what, receives, sends in ready:
            if (session := self._sessions.get(what)) is not None:
                if sends:
                    session.send_waiting()
                    self._look_at(session, now_ns)
                if receives and session.is_open:
                    self._receive(session, now_ns)
                    if not session.is_listened_to:
                        self._look_at(session, now_ns)
            elif (listener := self._listeners.get(what)) is not None:
                self._accept(listener, now_ns)
        if not self.is_listening and not self._has_drained:
            self._has_drained = True
            self._close_listeners()
            self._attention.extend(self._sessions.values())
            self._drained.notify()
        while self._attention:
            self._look_at(self._attention.popleft(), now_ns)
        self._expire(now_ns)
        self._relieve()
        self._turn_due_ns = self._on_turn(now_ns)

    def _wait_ms(self) -> int | None:
        due = [
            due_ns
            for due_ns in (
                self._frames.next_due_ns,
                self._idle.next_due_ns,
                self._outputs.next_due_ns,
                self._turn_due_ns,
            )
            if due_ns is not None
        ]
        if not due:
            return None
        return max(-((self.world.clock.monotonic_ns() - min(due)) // 1_000_000), 0)

    def _accept(self, listener: Listener, now_ns: int) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                connection = listener.accept(0)
            except (TimeoutError, ConnectionError):
                return
            except OSError as error:  # one was turned away: out of descriptors, or of memory
                self._counts.accept_failures += 1
                self._tell(f"cannot accept: {error}")
                continue
            self._welcome(connection, now_ns)

    def _welcome(self, connection: Connection, now_ns: int) -> None:
        session = Session(self.world, connection, self)
        of_host = self._of_host.get(session.host, 0)
        refusal = None
        if len(self._sessions) >= self.limits.connections_max:
            refusal = Ending.TOO_MANY
        elif of_host >= self.limits.connections_per_host_max:
            refusal = Ending.TOO_MANY_OF_HOST
        if refusal is not None:
            self._counts.ended(refusal)
            connection.close()
            return
        self._counts.accepted += 1
        self._sessions[connection] = session
        self._of_host[session.host] = of_host + 1
        self._idle.set(session, now_ns)
        self._poller.watch(connection, receives=True, sends=False)

    def _receive(self, session: Session, now_ns: int) -> None:
        try:
            data = session.connection.receive(RECEIVE_BYTES, 0)
        except TimeoutError:
            return
        except OSError:
            session.end(Ending.BROKEN)
            return
        if not data:
            session.end(Ending.BY_CLIENT)
            return
        session.active_ns = now_ns
        reader = session.reader
        part_bytes = reader.part_bytes
        try:
            for command, size_bytes in reader.commands(data):
                if part_bytes:
                    part_bytes = self._end_part(session, part_bytes)
                self._on_command(session, command, size_bytes, now_ns)
        except CorruptFileError as error:
            self._tell(f"{error}; connection closed")
            session.end(Ending.BAD_LENGTH if error.field == LENGTH_FIELD else Ending.BAD_FRAME)
        if reader.part_bytes != part_bytes:
            if not part_bytes:
                self._frames.set(session, now_ns)
            self.hold(reader.part_bytes - part_bytes)

    def _end_part(self, session: Session, part_bytes: int) -> int:
        """Count what has become a whole frame no more as the part of one; return how much is left of it."""
        self._frames.drop(session)
        self.hold(-part_bytes)
        return 0

    def _look_at(self, session: Session, now_ns: int) -> None:
        """Have a session watched for what it needs; let it go if it has ended."""
        if not session.is_open:
            self._remove(session)
            return
        has_output = session.output_bytes > 0
        wanted = (session.is_listened_to, has_output)
        if wanted != session.watched_for:
            session.watched_for = wanted
            self._poller.watch(session.connection, receives=wanted[0], sends=wanted[1])
        if not has_output:
            self._outputs.drop(session)
        elif session not in self._outputs:
            self._outputs.set(session, now_ns)

    def _expire(self, now_ns: int) -> None:
        """End whoever has taken too long."""
        for session in self._frames.pop_due(now_ns):
            if session.is_listened_to:
                session.end(Ending.HALF_FRAME)
            else:
                self._frames.set(session, now_ns)  # it is not its fault
        for session in self._idle.pop_due(now_ns):
            if now_ns - session.active_ns >= self.limits.idle_ms_max * 1_000_000:
                session.end(Ending.IDLE)
            else:
                self._idle.set(session, now_ns)
        for session in self._outputs.pop_due(now_ns):
            if now_ns - session.taken_ns >= self.limits.output_ms_max * 1_000_000:
                session.end(Ending.NOT_READING)
            else:
                self._outputs.set(session, now_ns)

    def _relieve(self) -> None:
        """While more is held than may be, end whoever has been at a frame, or at taking answers, for longest."""
        while self._held_bytes.get() > self.limits.held_bytes_max:
            slowest = self._frames.first or self._outputs.first
            if slowest is None:
                return
            slowest.end(Ending.TOO_MUCH_HELD)
            self._remove(slowest)

    def _remove(self, session: Session) -> None:
        if self._sessions.pop(session.connection, None) is None:
            return
        left = self._of_host.pop(session.host) - 1
        if left:
            self._of_host[session.host] = left
        for deadlines in (self._frames, self._idle, self._outputs):
            deadlines.drop(session)
        self.hold(-session.reader.part_bytes)
        self._on_ended(session)

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            self._poller.forget(listener)
            listener.close()
        self._listeners.clear()
