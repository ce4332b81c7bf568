"""Connections of a server, with a poller task that receives and sends for all.

The task accepts connections, receives frames, sends delayed output, and closes idle, slow or broken connections. It
never waits for a single connection, and does no work for idle connections. A "turn" is one iteration of its loop.
"""

from collections import deque
from collections.abc import Callable, Sequence
from heapq import nsmallest
from operator import itemgetter

from ..errors import CorruptFileError
from ..formats.remoting.command import RemotingCommand
from ..formats.remoting.frame import LENGTH_FIELD
from ..network import Connection, Listener, Network, ReadyEndpoint
from ..service import Service
from ..world import World
from .deadlines import ClientTimeouts, TimeoutTable
from .fair_queue import HostFairQueue
from .limits import ServerLimits
from .operator_log import Emit, failure_line, warning_line
from .server_counts import ConnectionEnding, ServerCounts
from .session import ClientHost, Session

RECEIVE_BYTES = 64 * 1024
ACCEPTS_MAX = 8
"""Maximum number of accepts per turn, so that a burst does not delay existing connections."""
ACCEPTS_PAUSE_MS = 4
"""Pause after ACCEPTS_MAX accepts. It limits new connections to 2,000 per second, a fifth of a processor."""
READY_MAX = ENDS_MAX = 64
"""Maximum number of connections handled before timers run, and of ended connections per turn."""
TURNS_MAX = 16
"""Maximum number of polls until all ready connections are handled. A poll of thousands of connections is slow."""
PIPELINING_MAX = 8
"""Maximum number of pipelining connections per turn."""
COMMANDS_MAX = 16
"""Maximum number of commands per connection and turn."""
DRAINED_MS = 5_000
"""Maximum time that `stop_receiving` waits for the current turn, far above the longest turn."""
_FOREIGN_PROTOCOLS = {
    b"PRI ": "the client uses HTTP/2, like RocketMQ's gRPC clients of 5.x; this broker supports only remoting",
    **dict.fromkeys((b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI"), "the client uses HTTP"),
}

Receive = Callable[[Session, RemotingCommand, int, int], None]
"""Arguments: session, command, size of the frame in bytes, time of receipt."""


class Connections(Service):
    """The connections of a server. The poller task calls `receive` and `on_turn`, so neither may block."""

    name = "connections"

    def __init__(
        self,
        world: World,
        limits: ServerLimits,
        counts: ServerCounts,
        receive: Receive,
        on_ended: Callable[[Session], None],
        on_turn: Callable[[int], int | None],
        emit: Emit,
    ) -> None:
        """`on_turn` runs due timers and returns the time of the next one. `emit` writes to the operator log."""
        super().__init__(world)
        assert world.network is not None, "a server needs a network"
        self.limits = limits
        self._network: Network = world.network
        self._counts = counts
        self._on_command = receive
        self._on_ended = on_ended
        self._on_turn = on_turn
        self._emit = emit
        self._poller = self._network.poller()
        self._listeners: dict[Connection | Listener, Listener] = {}
        self._paused: TimeoutTable[Listener] = TimeoutTable(ACCEPTS_PAUSE_MS)
        self._listening = world.tasks.cell("listening", 1)
        self._drained = world.tasks.signal("drained")
        self._has_drained = False
        self._held_bytes = world.tasks.cell("held bytes")
        self._sessions: dict[Connection | Listener, Session] = {}
        self._hosts: dict[str, ClientHost] = {}
        self.turns = 0
        """Number of turns so far. Only the poller task writes it."""
        self._attention: deque[Session] = deque()
        self._patience = ClientTimeouts(limits)
        self._turn_due_ns: int | None = None

    def listen(self, addresses: Sequence[str]) -> list[str]:
        """Return the addresses with their actual ports. After an OSError no address is open."""
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

    @property
    def is_started(self) -> bool:
        return self._task is not None

    def wake(self) -> None:
        self._poller.wake()

    def stop_receiving(self) -> None:
        """Stop receiving requests; the server still sends answers."""
        self._listening.set(0)
        self._poller.wake()
        if self._task is not None and not self.has_failed and not self._has_drained:
            self._drained.wait(DRAINED_MS)

    def shutdown(self) -> None:
        """Try once more to send buffered output, then close all connections."""
        self._stopping.set(1)
        self._poller.wake()
        if self._task is None:
            self.finish_remaining_work()
        super().shutdown()

    def finish_remaining_work(self) -> None:
        self._close_listeners()
        for session in self.sessions:
            session.send_buffered()
            session.end_session(ConnectionEnding.SHUTDOWN)
            self._remove_session(session)
        self._poller.close()

    # -- methods for sessions, callable from any task ----------------------------------------------

    @property
    def is_listening(self) -> bool:
        return self._listening.get() == 1

    @property
    def count(self) -> int:
        return len(self._sessions)

    @property
    def sessions(self) -> list[Session]:
        """Takes no lock, so the result may miss concurrent changes."""
        return list(self._sessions.values())

    @property
    def held_bytes(self) -> int:
        """Bytes of all frames in memory."""
        return self._held_bytes.get()

    def close_slowest_clients(self) -> bool:
        """Close the slowest clients until the held bytes are within the limit. Only for the poller task.

        Return False if the bytes still exceed the limit. The caller must then refuse the request.
        """
        # Close the slowest client, not the one with most bytes: a client that reads a large answer fast is harmless.
        while self._held_bytes.get() > self.limits.held_bytes_max:
            slowest = self._patience.slowest_session
            if slowest is None:
                return False
            slowest.end_session(ConnectionEnding.TOO_MUCH_HELD)
            self._remove_session(slowest)
        return True

    def add_held_bytes(self, size_bytes: int) -> None:
        """Count buffered bytes of clients. A negative number subtracts."""
        held_bytes = self._held_bytes.add(size_bytes)
        assert held_bytes >= 0, (held_bytes, size_bytes)

    def update_on_next_turn(self, session: Session) -> None:
        self._attention.append(session)
        self._poller.wake()

    def release_session(self, session: Session, ending: ConnectionEnding) -> None:
        self._counts.count_ended(ending)
        self._poller.forget(session.connection)
        session.connection.close()
        self.update_on_next_turn(session)

    def run_once(self) -> None:
        """Run one turn. Clients with one request at a time come before pipelining clients."""
        ready = self._poller.wait(self._poller_timeout_ms())
        now_ns = self.world.clock.monotonic_ns()
        self.turns += 1
        waiting, ready_listeners, pipelining = self._choose_ready(ready)
        for begin in range(0, len(waiting), READY_MAX):
            for endpoint, receives, sends in waiting[begin : begin + READY_MAX]:
                self._handle_events(endpoint, now_ns, receives=receives, sends=sends)
            self._turn_due_ns = self._on_turn(now_ns)
        for listener in self._paused.pop_due(now_ns, len(self._listeners)):
            self._poller.watch(listener, receives=True, sends=False)
        for endpoint, receives, sends in (*ready_listeners, *pipelining):
            self._handle_events(endpoint, now_ns, receives=receives, sends=sends)
        if not self.is_listening and not self._has_drained:  # after the events, which arrived before the drain
            self._has_drained = True
            self._close_listeners()
            self._attention.extend(self._sessions.values())
            self._drained.notify()
        left = PIPELINING_MAX
        for _ in range(min(len(self._attention), ENDS_MAX)):
            session = self._attention.popleft()
            left -= session.is_open
            self._update_session(session, now_ns)
            if not left:
                break
        self._patience.close_expired(now_ns, ENDS_MAX)
        self.close_slowest_clients()
        self._turn_due_ns = self._on_turn(now_ns)

    def _choose_ready(
        self, ready: Sequence[ReadyEndpoint]
    ) -> tuple[list[ReadyEndpoint], list[ReadyEndpoint], list[ReadyEndpoint]]:
        """Return three lists: clients that wait for answers, in round robin by host; listeners; pipelining clients.

        The remaining ready connections must wait for the next turn.
        """
        if len(ready) == 1:
            return [*ready], [], []
        waiting: HostFairQueue[Session, ReadyEndpoint] = HostFairQueue()
        ready_listeners: list[ReadyEndpoint] = []
        pipelining: list[tuple[int, ReadyEndpoint]] = []
        for each in ready:
            session = self._sessions.get(each[0])
            if session is None:
                ready_listeners.append(each)
            elif session.is_pipelining:
                pipelining.append((session.heard_turn, each))
            else:
                waiting.put(session.host.name, session, each)
        oldest = nsmallest(PIPELINING_MAX, pipelining, key=itemgetter(0))
        count = max(READY_MAX, len(waiting) // TURNS_MAX)
        return [waiting.take() for _ in range(min(count, len(waiting)))], ready_listeners, [each for _, each in oldest]

    def _handle_events(self, endpoint: Connection | Listener, now_ns: int, *, receives: bool, sends: bool) -> None:
        if (session := self._sessions.get(endpoint)) is not None:
            session.heard_turn = self.turns
            if sends:
                session.send_buffered()
            if receives and session.is_open:
                self._receive_from_session(session, now_ns)
            if sends or not (session.is_open and session.may_receive_more):
                self._update_session(session, now_ns)
        elif (listener := self._listeners.get(endpoint)) is not None:
            self._accept_connections(listener, now_ns)

    def _poller_timeout_ms(self) -> int | None:
        if self._attention:
            return 0
        deadlines = self._patience.next_due_ns, self._turn_due_ns, self._paused.next_due_ns
        due = [due_ns for due_ns in deadlines if due_ns is not None]
        if not due:
            return None
        return max(-((self.world.clock.monotonic_ns() - min(due)) // 1_000_000), 0)

    def _accept_connections(self, listener: Listener, now_ns: int) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                connection = listener.accept(0)
            except (TimeoutError, ConnectionError):
                return  # the listen queue is empty, or the listener is closed
            except OSError as error:  # the process has no free descriptors or no memory
                self._counts.accept_failures += 1
                self._emit(failure_line(f"cannot accept: {error}"))
                continue
            self._add_session(connection, now_ns)
        self._poller.watch(listener, receives=False, sends=False)
        self._paused.set(listener, self.world.clock.monotonic_ns())  # not now_ns, because the accepts take time

    def _add_session(self, connection: Connection, now_ns: int) -> None:
        name = connection.remote_address.rpartition(":")[0]
        host = self._hosts.get(name) or ClientHost(self.world, name)
        refusal = None
        if len(self._sessions) >= self.limits.connections_max:
            refusal = ConnectionEnding.TOO_MANY
        elif host.connections >= self.limits.connections_per_host_max:
            refusal = ConnectionEnding.TOO_MANY_OF_HOST
        if refusal is not None:
            self._counts.count_ended(refusal)
            connection.close()
            return
        self._counts.accepted += 1
        session = self._sessions[connection] = Session(self.world, connection, self, host)
        self._hosts[name] = host  # not for a refused connection, because `_remove_session` never runs for it
        host.connections = connections = host.connections + 1
        assert connections <= self.limits.connections_per_host_max, (name, connections)
        self._patience.start_idle_timeout(session, now_ns)
        self._watch_session(session, receives=True, sends=False)

    def _receive_from_session(self, session: Session, now_ns: int) -> None:
        if session.reader.has_more:
            self._process_commands(session, now_ns)
            return
        try:
            data = session.connection.receive(RECEIVE_BYTES, 0)
        except TimeoutError:
            return
        except OSError:
            session.end_session(ConnectionEnding.BROKEN)
            return
        if not data:
            session.end_session(ConnectionEnding.BY_CLIENT)
            return
        session.active_ns = now_ns
        self.add_held_bytes(len(data))  # until these bytes become a request, which counts them itself
        session.reader.add(data)
        self._process_commands(session, now_ns)

    def _process_commands(self, session: Session, now_ns: int) -> None:
        reader = session.reader
        try:
            for _ in range(COMMANDS_MAX):
                if not (reader.has_more and session.is_open and session.may_receive_more):
                    break
                if (taken := reader.take()) is None:
                    break
                command, size_bytes = taken
                self._patience.drop_frame_timeout(session)
                self.add_held_bytes(-size_bytes)
                self._on_command(session, command, size_bytes, now_ns)
            else:
                if reader.has_more:
                    self._attention.append(session)
        except CorruptFileError as error:
            self._emit(warning_line(f"{error}{_protocol_hint(error.found)}; connection closed"))
            session.end_session(
                ConnectionEnding.BAD_LENGTH if error.field == LENGTH_FIELD else ConnectionEnding.BAD_FRAME
            )
        except Exception as error:  # the error must end only this connection
            self._emit(failure_line(f"{session.remote_address}: {type(error).__name__}: {error}; connection closed"))
            session.end_session(ConnectionEnding.FAILED)
        if session.is_open:
            self._patience.update_session(session, now_ns)

    def _update_session(self, session: Session, now_ns: int) -> None:
        if session.is_open and session.reader.held_bytes and session.may_receive_more:
            self._process_commands(session, now_ns)
        if not session.is_open:
            self._remove_session(session)
            return
        self._patience.update_session(session, now_ns)
        wanted = (session.may_receive_more, session.output_bytes > 0)
        if wanted != session.watched_for:
            session.watched_for = wanted
            self._watch_session(session, receives=wanted[0], sends=wanted[1])

    def _watch_session(self, session: Session, *, receives: bool, sends: bool) -> None:
        try:
            self._poller.watch(session.connection, receives=receives, sends=sends)
        except OSError as error:  # ENOSPC: limit fs.epoll.max_user_watches, or no kernel memory
            self._emit(failure_line(f"cannot wait for {session.remote_address}: {error}; connection closed"))
            session.end_session(ConnectionEnding.FAILED)

    def _remove_session(self, session: Session) -> None:
        self._patience.drop_session(session)
        if self._sessions.pop(session.connection, None) is None:
            return
        self._poller.forget(session.connection)  # again, because `_watch_session` may have run after `release_session`
        session.host.connections -= 1
        left = session.host.connections
        assert left >= 0, session.host.name
        if not left:
            del self._hosts[session.host.name]
        self.add_held_bytes(-session.reader.held_bytes)
        self._on_ended(session)

    def _close_listeners(self) -> None:
        for listener in self._listeners.values():
            self._poller.forget(listener)
            self._paused.drop(listener)
            listener.close()
        self._listeners.clear()


def _protocol_hint(length: str) -> str:
    """Return a hint if a frame length consists of the first bytes of another protocol, else ""."""
    hint = {str(int.from_bytes(begin)): hint for begin, hint in _FOREIGN_PROTOCOLS.items()}.get(length)
    return "" if hint is None else f" ({hint})"
