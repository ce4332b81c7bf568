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
from .frame_reader import LENGTH_FIELD
from .limits import ServerLimits
from .patience import Patience
from .server_counts import Ending, ServerCounts
from .session import Session

RECEIVE_BYTES = 64 * 1024
ACCEPTS_MAX = 16
"""At a time, so that a crowd at the door does not keep those inside waiting."""
READY_MAX = ENDS_MAX = 64
"""The same of those who have something to say, before what they asked for is begun, and of those who have to leave."""
DRAINED_MS = 5_000
"""How long a turn may take, by far."""

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
        self._patience = Patience(limits)
        self._turn_due_ns: int | None = None

    # -- life --------------------------------------------------------------------------------------

    def listen(self, addresses: Sequence[str]) -> list[str]:
        """Listen at some addresses; return them with the ports they got. OSError, and none, if one cannot be had."""
        listeners: list[Listener] = []
        for address in addresses:
            try:
                listeners.append(self._network.listen(address))
            except OSError as error:
                for listener in listeners:
                    listener.close()
                raise OSError(error.errno, error.strerror, address) from error
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
        for begin in range(0, len(ready), READY_MAX):
            for what, receives, sends in ready[begin : begin + READY_MAX]:
                self._attend(what, now_ns, receives=receives, sends=sends)
            self._turn_due_ns = self._on_turn(now_ns)
        if not self.is_listening and not self._has_drained:
            self._has_drained = True
            self._close_listeners()
            self._attention.extend(self._sessions.values())
            self._drained.notify()
        while self._attention:
            self._look_at(self._attention.popleft(), now_ns)
        self._patience.expire(now_ns, ENDS_MAX)
        self._relieve()
        self._turn_due_ns = self._on_turn(now_ns)

    def _attend(self, what: Connection | Listener, now_ns: int, *, receives: bool, sends: bool) -> None:
        """Do what can be done for one connection or listener."""
        if (session := self._sessions.get(what)) is not None:
            if sends:
                session.send_waiting()
            if receives and session.is_open:
                self._receive(session, now_ns)
            if sends or not (session.is_open and session.is_listened_to):
                self._look_at(session, now_ns)
        elif (listener := self._listeners.get(what)) is not None:
            self._accept(listener, now_ns)

    def _wait_ms(self) -> int | None:
        due = [due_ns for due_ns in (self._patience.next_due_ns, self._turn_due_ns) if due_ns is not None]
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
        self._patience.came(session, now_ns)
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
        self.hold(len(data))
        session.reader.add(data)
        self._hand_on(session, now_ns)

    def _hand_on(self, session: Session, now_ns: int) -> None:
        """Take the commands out of what a session has sent, as long as it is listened to."""
        reader = session.reader
        try:
            while session.is_open and session.is_listened_to and (taken := reader.take()) is not None:
                command, size_bytes = taken
                self._patience.frame_ended(session)
                self.hold(-size_bytes)
                self._on_command(session, command, size_bytes, now_ns)
        except CorruptFileError as error:
            self._tell(f"{error}; connection closed")
            session.end(Ending.BAD_LENGTH if error.field == LENGTH_FIELD else Ending.BAD_FRAME)
        except Exception as error:  # an error of ours must not cost all others their server
            self._tell(f"{session.remote_address}: {type(error).__name__}: {error}; connection closed")
            session.end(Ending.FAILED)
        if session.is_open:
            self._patience.look_at(session, now_ns)

    def _look_at(self, session: Session, now_ns: int) -> None:
        """Have a session watched for what it needs; let it go if it has ended."""
        if session.is_open and session.reader.held_bytes and session.is_listened_to:
            self._hand_on(session, now_ns)
        if not session.is_open:
            self._remove(session)
            return
        self._patience.look_at(session, now_ns)
        wanted = (session.is_listened_to, session.output_bytes > 0)
        if wanted != session.watched_for:
            session.watched_for = wanted
            self._poller.watch(session.connection, receives=wanted[0], sends=wanted[1])

    def _relieve(self) -> None:
        """While more is held than may be, end whoever has been at a frame, or at taking answers, for longest."""
        while self._held_bytes.get() > self.limits.held_bytes_max:
            slowest = self._patience.slowest
            if slowest is None:
                return
            slowest.end(Ending.TOO_MUCH_HELD)
            self._remove(slowest)

    def _remove(self, session: Session) -> None:
        self._patience.gone(session)
        if self._sessions.pop(session.connection, None) is None:
            return
        self._poller.forget(session.connection)  # again: it may have ended just before it was last watched
        left = self._of_host.pop(session.host) - 1
        if left:
            self._of_host[session.host] = left
        self.hold(-session.reader.held_bytes)
        self._on_ended(session)

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            self._poller.forget(listener)
            listener.close()
        self._listeners.clear()
