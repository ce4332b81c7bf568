"""Replication of one store: listens for slaves and sends them the log. RocketMQ's HAService and HAConnection.

Whoever runs a store composes the service beside it. Every role listens for slaves; a slave has a client, too, that
follows its master. Start it after the store, stop it before the store. Puts of a SYNC_MASTER answer SLAVE_NOT_AVAILABLE
while it does not run.

Each slave's connection has two tasks: one hears its reports, one sends it the log. Sent is what readers may see: under
SYNC_FLUSH what is durable, so that no crash of the master leaves a slave with records that the master has lost. The
blank record that closes a segment goes with what follows it: without that a recovery of the master cuts it. A report
is believed as far as it can be true. One beyond what this connection has sent ends it: such a slave's log is longer
than the master's.
Source: RocketMQ HAService, HAConnection.
"""

from collections.abc import Callable

from ..config import BrokerRole
from ..errors import CorruptFileError
from ..formats.replication import REPORT_BYTES, decode_report, encode_frame_header
from ..marks import hit
from ..message_store import MessageStore
from ..network import Connection, Listener, in_brackets, send_all
from ..service import do_nothing
from ..world import Task
from .ha_client import HAClient

_RECEIVE_BYTES = 1 << 16
_UNKNOWN = -1

CONNECTIONS_MAX = 64
"""Slaves at once, for each costs two tasks; whoever comes later is turned away."""

_ACCEPT_RETRY_MS = 1_000  # without descriptors, accept fails at once each time, and the loop would spin


class HAConnection:
    """One slave, from when it connects until either side has enough.

    Invariant: reported <= sent, and neither moves back; sent ends at or before what readers of the log may see.
    """

    def __init__(self, store: MessageStore, number: int, connection: Connection, on_closed: "OnClosed") -> None:
        tasks = store.world.tasks
        self.number = number
        self.remote_address = connection.remote_address
        self.closed_because = ""
        """Why this connection ended; empty while it has not."""
        self._world = store.world
        self._config = store.config
        self._connection = connection
        self._log = store.log
        self._readable_limit = store.dispatch.readable_limit
        self._group_transfer = store.commit_log.group_transfer
        self._on_closed = on_closed
        self._signal = tasks.signal(f"ha-writer-{number}")
        self._closed = tasks.cell(f"ha-connection-{number} closed")
        self._began = tasks.cell(f"ha-connection-{number} began", _UNKNOWN)
        """Log offset that sending began at."""
        self._sent = tasks.cell(f"ha-connection-{number} sent")
        """Up to where it has been sent, or is being."""
        self._reported = tasks.cell(f"ha-connection-{number} reported", _UNKNOWN)
        self._tasks: list[Task] = []

    def start(self) -> None:
        """Begin to listen; the log is sent when the slave has said where to begin."""
        self._tasks.append(self._world.tasks.spawn(f"ha-reader-{self.number}", self._read))

    def wake(self) -> None:
        """Look for more of the log."""
        self._signal.notify()

    def close(self, reason: str) -> None:
        """End it, whoever comes first."""
        if not self._closed.compare_and_set(0, 1):
            return
        self.closed_because = reason
        if self._group_transfer is not None:
            self._group_transfer.gone(self)
        self._connection.close()
        self._signal.notify()
        self._on_closed(self)

    def join(self) -> None:
        """Wait for both tasks to end. Only after `close`."""
        for task in self._tasks:  # which grows if the reader, while it is waited for, begins to send
            task.join(None)

    # -- what the slave has ------------------------------------------------------------------------

    @property
    def reported(self) -> int:
        """Return how far the slave's log goes, by its last word; -1 before its first."""
        return self._reported.get()

    @property
    def sent(self) -> int:
        """Return up to which log offset it has been sent."""
        return self._sent.get()

    def has(self, start_offset: int, end_offset: int) -> bool:
        """Return whether these bytes were sent, and reported since."""
        began = self._began.get()
        return began != _UNKNOWN and began <= start_offset and end_offset <= self._reported.get()

    # -- reports -----------------------------------------------------------------------------------

    def _read(self) -> None:
        received, position, stream = bytearray(), 0, f"reports of {self.remote_address}"
        try:
            while chunk := self._connection.receive(_RECEIVE_BYTES, self._config.ha_housekeeping_interval_ms):
                received += chunk
                while len(received) >= REPORT_BYTES:
                    report = decode_report(received[:REPORT_BYTES], stream=stream, position=position)
                    del received[:REPORT_BYTES]
                    position += REPORT_BYTES
                    if not self._take_report(report):
                        return
            self.close(f"the slave ended it{self._doubt}")
        except TimeoutError:
            self.close(f"no report for {self._config.ha_housekeeping_interval_ms} ms")
        except (OSError, CorruptFileError) as error:
            self.close(str(error))
        except Exception as error:
            self.close(f"{type(error).__name__}: {error}")
            raise

    @property
    def _doubt(self) -> str:
        """Return a guess at why a slave goes: the stream cannot say it, so a slave whose log differs only hangs up."""
        began = self._began.get()
        took_nothing = began != _UNKNOWN and began == self._reported.get() < self._sent.get()
        return ", and took nothing: its log may have diverged" if took_nothing else ""

    def _take_report(self, report: int) -> bool:
        """Note a report; False, and the connection is closed, if it cannot be true."""
        if self._reported.get() == _UNKNOWN:
            return self._take_first_report(report)
        if report > self._sent.get():
            self.close(f"reported {report}, and was sent nothing behind {self._sent.get()}")
            return False
        if report < self._reported.get():
            self.close(f"reported {report} after {self._reported.get()}")
            return False
        self._reported.set(report)
        if self._group_transfer is not None:
            self._group_transfer.reported(self)
        return True

    def _take_first_report(self, report: int) -> bool:
        """Begin to send; False, and the connection is closed, if the log does not have what was asked for.

        An empty slave gets the last file, which is the one that the last byte is in: behind a blank, which is held
        back, there may be none yet. A heartbeat says to the slave where the log does begin or end; a log that fits
        would not get it.
        """
        end, first = self._readable_limit(), max(self._log.min_offset, 0)
        begin = report or max((end - 1) // self._log.segment_bytes * self._log.segment_bytes, first)
        if not (report == 0 or first <= report <= end):
            if report > end:
                hit("report beyond the master's end")
            self._send(encode_frame_header(end if report > end else first, 0))
            why = "its log has diverged" if report > end else "what it needs next has expired here"
            self.close(f"reported {report}, and the log has {first} to {end}: {why}")
            return False
        assert 0 <= begin <= end, (begin, end)
        self._sent.set(begin)
        self._began.set(begin)
        self._reported.set(report)
        if self._group_transfer is not None:
            self._group_transfer.connected(self)
            if self._closed.get():
                self._group_transfer.gone(self)  # whoever closed it may have been here before
        self._tasks.append(self._world.tasks.spawn(f"ha-writer-{self.number}", self._write))
        return True

    # -- sending -----------------------------------------------------------------------------------

    def _write(self) -> None:
        try:
            while not self._closed.get():
                if self._send_next() or self._signal.wait(self._config.ha_send_heartbeat_interval_ms):
                    continue
                self._send(encode_frame_header(self._sent.get(), 0))
        except (OSError, ValueError) as error:  # a map that was closed meanwhile is a ValueError
            self.close(str(error))
        except Exception as error:
            self.close(f"{type(error).__name__}: {error}")
            raise

    def _send_next(self) -> bool:
        """Send what is next in the log, at most haTransferBatchSize of one file; False if there is nothing."""
        at = self._sent.get()
        limit = self._readable_limit()
        if at >= limit:
            return False
        segment = self._log.find(at)
        if segment is None:
            self.close(f"log offset {at}, which was to be sent next, has left the log")
            return True
        position, batch_bytes = at - segment.base_offset, self._config.ha_transfer_batch_size
        # A blank that nothing follows yet is held back: the next segment may fail to be made, or be lost.
        limit_here = segment.blank_from if limit == segment.end_offset else limit - segment.base_offset
        end = min(position + batch_bytes, limit_here, segment.size_bytes)
        if position >= end:
            return False
        data = bytes(segment.file.view(position, end))
        assert 0 < len(data) <= batch_bytes, (len(data), batch_bytes)
        self._sent.set(at + len(data))  # before the slave can have it, and say so
        self._send(encode_frame_header(at, len(data)) + data)
        return True

    def _send(self, data: bytes) -> None:
        send_all(self._connection, data, self._config.ha_housekeeping_interval_ms)


OnClosed = Callable[[HAConnection], None]


class HAService:
    """Who listens for slaves, the slaves that are connected, and on a slave the client."""

    def __init__(self, store: MessageStore, listen_host: str = "127.0.0.1") -> None:
        """The network of the store's world is what slaves and master are reached by."""
        assert store.world.network is not None, "replication needs a network"
        self._tasks = store.world.tasks
        self._network = store.world.network
        self._store = store
        self._address = f"{in_brackets(listen_host)}:{store.config.ha_listen_port}"
        self._listener: Listener | None = None
        self._accepting: Task | None = None
        self._lock = self._tasks.lock("ha connections")
        self.connections: tuple[HAConnection, ...] = ()
        """The slaves that are connected. Replaced, never changed."""
        self._ended: list[HAConnection] = []
        """Connections whose tasks may not have ended yet."""
        self.last_closed = ""
        """Which connection ended last, and why."""
        self.on_slave_gone: Callable[[HAConnection], None] = do_nothing
        """Called with each connection that has ended while others go on."""
        self._accepted = 0
        self.client: HAClient | None = None
        if store.config.broker_role is BrokerRole.SLAVE:
            self.client = HAClient(store)

    def start(self) -> None:
        """Listen for slaves at haListenPort, and follow the master on a slave. OSError if it cannot listen."""
        self._listener = self._network.listen(self._address)
        self._store.follow(self._wake)
        self._accepting = self._tasks.spawn("ha-accept", self._accept)
        if self.client is not None:
            self.client.start()

    def shutdown(self) -> None:
        """End all connections and the client, and answer the puts that wait for slaves."""
        self.on_slave_gone = do_nothing
        if self.client is not None:
            self.client.shutdown()
        if self._listener is not None:
            self._listener.close()
        if self._accepting is not None:
            self._accepting.join(None)
        with self._lock:
            begun = (*self.connections, *self._ended)
        for connection in begun:
            connection.close("the master stops")
        for connection in begun:  # also one that its own task is closing, and has not said so yet
            connection.join()
        if self._store.commit_log.group_transfer is not None:
            self._store.commit_log.group_transfer.give_up()

    @property
    def address(self) -> str:
        """Return where slaves connect to, as `host:port`: RocketMQ's HA server address."""
        assert self._listener is not None, "start first"
        return self._listener.address

    def update_master_address(self, address: str) -> None:
        """Follow another master, as a broker does on its name server's word; nothing happens on a master."""
        if self.client is not None:
            self.client.update_master_address(address)

    def runtime_info(self) -> dict[str, str]:
        """Return what a broker can say of replication; RocketMQ 4.9 says nothing of it."""
        info = {f"haSlave_{each.remote_address}": f"{each.reported},{each.sent}" for each in self.connections}
        info["haLastClosed"] = self.last_closed
        if self.client is not None:
            info["haMasterAddress"] = self.client.master_address
            info["haClientState"] = self.client.state_and_reason
        return info

    def _wake(self) -> None:
        for connection in self.connections:
            connection.wake()

    # -- slaves ------------------------------------------------------------------------------------

    def _accept(self) -> None:
        assert self._listener is not None, "start sets it"
        try:
            self._accept_all(self._listener)
        except Exception as error:
            self._store.flags.service_failed("ha-accept", error)
            raise

    def _accept_all(self, listener: Listener) -> None:
        """Accept slaves until nobody listens any more."""
        while True:
            try:
                accepted = listener.accept(None)
            except ConnectionError:
                return  # closed
            except OSError:
                self._tasks.sleep(_ACCEPT_RETRY_MS)  # no descriptor left, say
                continue
            if len(self.connections) >= CONNECTIONS_MAX:
                accepted.close()
                continue
            self._accepted += 1
            connection = HAConnection(self._store, self._accepted, accepted, self._on_closed)
            with self._lock:
                self.connections = (*self.connections, connection)
                ended, self._ended = self._ended, []
            for each in ended:
                each.join()
            connection.start()

    def _on_closed(self, connection: HAConnection) -> None:
        with self._lock:
            self.connections = tuple(each for each in self.connections if each is not connection)
            self._ended.append(connection)
            self.last_closed = f"{connection.remote_address}: {connection.closed_because}"
        self.on_slave_gone(connection)
