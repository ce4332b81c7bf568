"""Replication service: listens for slaves and sends the log to them.

The program that runs a store adds this service, starts it after the store and stops it before the store. Brokers of any
role listen for slaves; a slave also has a client for its master. Before the service starts, puts on a SYNC_MASTER
return SLAVE_NOT_AVAILABLE. A stop first ends all puts of the store, then waits for the slaves. Otherwise the logs could
differ after a planned change of roles.

Each connection has two tasks: one reads reports, the other sends the readable part of the log. Under SYNC_FLUSH this
part is durable, so a crash of the master loses no record that a slave has. The master sends the blank record that ends
a segment only after the next segment has data, because recovery truncates a blank record at the log's end. If a slave
reports more bytes than were sent, its log is longer than the master's, and the service closes the connection. Source:
RocketMQ HAService, HAConnection.
"""

from collections.abc import Callable

from ..config import BrokerRole
from ..errors import CorruptFileError
from ..formats.replication import REPORT_BYTES, decode_report, encode_frame_header
from ..log.segment import Segment
from ..marks import count_mark
from ..message_store import MessageStore
from ..network import Connection, Listener, bracket_ipv6, send_all
from ..service import NS_PER_MS, do_nothing, ms_until
from ..world import Task
from .ha_client import HAClient

_RECEIVE_BYTES = 1 << 16
_UNKNOWN = -1

CONNECTIONS_MAX = 64
"""Maximum number of slaves, which need two tasks each. The service closes further connections."""

HANDOVER_MS_MAX = 5_000
"""Maximum time for which a stop waits until all slaves have the whole log."""
_LOOK_MS = 10
_ACCEPT_RETRY_MS = 1_000  # prevents a busy loop: without free descriptors, `accept` fails at once


class HAConnection:
    """The connection of one slave.

    Invariant: `reported_offset` <= `sent` <= the end of the readable bytes. They never decrease.
    """

    def __init__(self, store: MessageStore, number: int, connection: Connection, on_closed: "OnClosed") -> None:
        tasks = store.world.tasks
        self.number = number
        self.remote_address = connection.remote_address
        self.closed_because = ""
        """Reason for which the connection was closed; empty while it is open."""
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
        self._sent = tasks.cell(f"ha-connection-{number} sent")
        """Log offset after the last sent byte. Set before the send starts."""
        self._reported = tasks.cell(f"ha-connection-{number} reported", _UNKNOWN)
        self._tasks: list[Task] = []

    def start(self) -> None:
        """Start to read reports. The slave's first report starts the sending task."""
        self._tasks.append(self._world.tasks.spawn(f"ha-reader-{self.number}", self._read_reports))

    def wake(self) -> None:
        self._signal.notify()

    def close(self, reason: str) -> None:
        """Close the connection. Only the first call has an effect."""
        if not self._closed.compare_and_set(0, 1):
            return
        self.closed_because = reason
        if self._group_transfer is not None:
            self._group_transfer.remove_replica(self)
        self._connection.close()
        self._signal.notify()
        self._on_closed(self)

    def join(self) -> None:
        for task in self._tasks:  # the reading task may append a task during this loop
            task.join(None)

    @property
    def reported_offset(self) -> int:
        """Offset of the slave's last report; -1 before the first report."""
        return self._reported.get()

    @property
    def sent(self) -> int:
        return self._sent.get()

    def has_range(self, start_offset: int, end_offset: int) -> bool:
        """Return whether the slave has reported a range of the log that was sent on this connection."""
        began = self._began.get()
        return began != _UNKNOWN and began <= start_offset and end_offset <= self._reported.get()

    def has_whole_log(self) -> bool:
        """Return whether the slave has reported all bytes that this master can send."""
        limit = self._readable_limit()
        if limit < self._log.put_offset:
            return False  # other records will become readable after their commit or sync
        segment = self._log.find(limit - 1)
        return segment is None or self._reported.get() >= segment.base_offset + self._sendable_end(segment, limit)

    def _sendable_end(self, segment: Segment, limit: int) -> int:
        """Return the position in a segment up to which bytes may be sent. limit: the end of the readable bytes.

        A blank record at the log's end is not sent yet, because the next segment may never exist or may be lost.
        """
        if limit == segment.end_offset:
            return segment.blank_from
        return min(limit - segment.base_offset, segment.size_bytes)

    def _read_reports(self) -> None:
        received, position, stream = bytearray(), 0, f"reports of {self.remote_address}"
        try:
            while chunk := self._connection.receive(_RECEIVE_BYTES, self._config.ha_housekeeping_interval_ms):
                received += chunk
                while len(received) >= REPORT_BYTES:
                    report = decode_report(received[:REPORT_BYTES], stream=stream, position=position)
                    del received[:REPORT_BYTES]
                    position += REPORT_BYTES
                    if not self._process_report(report):
                        return
            self.close(f"the slave closed the connection{self._divergence_hint}")
        except TimeoutError:
            self.close(f"no report for {self._config.ha_housekeeping_interval_ms} ms")
        except (OSError, CorruptFileError) as error:
            self.close(str(error))
        except Exception as error:
            self.close(f"{type(error).__name__}: {error}")
            raise

    @property
    def _divergence_hint(self) -> str:
        """Return a hint for the operator, because a slave with a different log disconnects without a message."""
        began = self._began.get()
        confirmed_nothing = began != _UNKNOWN and began == self._reported.get() < self._sent.get()
        return " and confirmed no data: its log may have diverged" if confirmed_nothing else ""

    def _process_report(self, report: int) -> bool:
        """Handle a report. If the report is impossible, close the connection and return False."""
        if self._reported.get() == _UNKNOWN:
            return self._process_first_report(report)
        if report > self._sent.get():
            self.close(f"reported {report}, but was sent only the log up to {self._sent.get()}")
            return False
        if report < self._reported.get():
            self.close(f"reported {report} after {self._reported.get()}")
            return False
        self._reported.set(report)
        if self._group_transfer is not None:
            self._group_transfer.complete_reported_requests(self)
        return True

    def _process_first_report(self, report: int) -> bool:
        """Start to send. If the log lacks the requested offset, close the connection and return False.

        A slave with an empty log receives the log from the start of the segment with the last byte; the next segment
        may not exist yet. Before closing the connection, the master sends a heartbeat with the log's end or start, from
        which the slave detects the difference.
        """
        end, first = self._readable_limit(), max(self._log.min_offset, 0)
        begin = report or max((end - 1) // self._log.segment_bytes * self._log.segment_bytes, first)
        if not (report == 0 or first <= report <= end):
            if report > end:
                count_mark("slave offset past master's log")
            self._send_bytes(encode_frame_header(end if report > end else first, 0))
            reason = "its log has diverged" if report > end else "the requested data has expired"
            self.close(f"requested offset {report}, but the log covers {first} to {end}: {reason}")
            return False
        assert 0 <= begin <= end, (begin, end)
        self._sent.set(begin)
        self._began.set(begin)
        self._reported.set(report)
        if self._group_transfer is not None:
            self._group_transfer.add_replica(self)
            if self._closed.get():
                self._group_transfer.remove_replica(self)  # `close` may have run before `add_replica`
        self._tasks.append(self._world.tasks.spawn(f"ha-writer-{self.number}", self._send_frames))
        return True

    def _send_frames(self) -> None:
        clock, interval_ns = self._world.clock, self._config.ha_send_heartbeat_interval_ms * NS_PER_MS
        due_ns = clock.monotonic_ns() + interval_ns
        try:
            while not self._closed.get():
                if not self._send_next_frame():
                    # Wake-ups without data, such as after refused puts, must not delay the heartbeat.
                    if self._signal.wait(ms_until(due_ns, clock)):
                        continue
                    self._send_bytes(encode_frame_header(self._sent.get(), 0))
                due_ns = clock.monotonic_ns() + interval_ns
        except (OSError, ValueError) as error:  # a closed map raises ValueError
            self.close(str(error))
        except Exception as error:
            self.close(f"{type(error).__name__}: {error}")
            raise

    def _send_next_frame(self) -> bool:
        at = self._sent.get()
        limit = self._readable_limit()
        if at >= limit:
            return False
        segment = self._log.find(at)
        if segment is None:
            self.close(f"log offset {at} has expired before it was sent")
            return True
        position, batch_bytes = at - segment.base_offset, self._config.ha_transfer_batch_size
        end = min(position + batch_bytes, self._sendable_end(segment, limit))
        if position >= end:
            return False
        data = bytes(segment.file.view(position, end))
        assert 0 < len(data) <= batch_bytes, (len(data), batch_bytes)
        self._sent.set(at + len(data))  # set before the send, because the slave may report at once
        self._send_bytes(encode_frame_header(at, len(data)) + data)
        return True

    def _send_bytes(self, data: bytes) -> None:
        send_all(self._connection, data, self._config.ha_housekeeping_interval_ms)


OnClosed = Callable[[HAConnection], None]


class HAService:
    """Listens for slaves and keeps their connections. On a slave, it also runs the client."""

    def __init__(self, store: MessageStore, listen_host: str = "127.0.0.1") -> None:
        assert store.world.network is not None, "replication needs a network"
        self._tasks = store.world.tasks
        self._network = store.world.network
        self._store = store
        self._address = f"{bracket_ipv6(listen_host)}:{store.config.ha_listen_port}"
        self._listener: Listener | None = None
        self._accepting: Task | None = None
        self._lock = self._tasks.lock("ha connections")
        self.connections: tuple[HAConnection, ...] = ()
        self._ended: list[HAConnection] = []
        self.last_closed = ""
        self.on_slave_gone: Callable[[HAConnection], None] = do_nothing
        """Called with each connection that is closed before `shutdown`."""
        self._accepted = 0
        self.client: HAClient | None = None
        if store.config.broker_role is BrokerRole.SLAVE:
            self.client = HAClient(store)

    def start(self) -> None:
        """Listen for slaves. On a slave, start the client. Raises OSError if listening fails."""
        self._listener = self._network.listen(self._address)
        self._store.call_when_readable(self._wake_connections)
        self._accepting = self._tasks.spawn("ha-accept", self._accept_slaves)
        if self.client is not None:
            self.client.start()

    def shutdown(self) -> None:
        """End the store's puts, send the rest of the log, and close the connections and the client.

        Slaves have HANDOVER_MS_MAX to report the whole log. Puts that wait for a slave return.
        """
        if self.client is not None:
            self.client.shutdown()
        self._store.stop_puts()
        self._await_slaves()
        self.on_slave_gone = do_nothing
        if self._listener is not None:
            self._listener.close()
        if self._accepting is not None:
            self._accepting.join(None)
        with self._lock:
            begun = (*self.connections, *self._ended)
        for connection in begun:
            connection.close("the master stops")
        for connection in begun:  # includes connections that their own tasks are just closing
            connection.join()
        if self._store.commit_log.group_transfer is not None:
            self._store.commit_log.group_transfer.time_out_all()

    def _await_slaves(self) -> None:
        store, clock = self._store, self._store.world.clock
        store.flush.wait_durable(store.log.put_offset, wait=False)  # SYNC_FLUSH sends durable bytes only
        due_ns = clock.monotonic_ns() + HANDOVER_MS_MAX * NS_PER_MS
        while any(not each.has_whole_log() for each in self.connections):
            if store.flags.has_failed or clock.monotonic_ns() >= due_ns:
                return
            self._tasks.sleep(_LOOK_MS)

    @property
    def address(self) -> str:
        assert self._listener is not None, "the service must be started first"
        return self._listener.address

    def update_master_address(self, address: str) -> None:
        """Replicate from this master. No effect on a master."""
        if self.client is not None:
            self.client.update_master_address(address)

    def runtime_info(self) -> dict[str, str]:
        info = {f"haSlave_{each.remote_address}": f"{each.reported_offset},{each.sent}" for each in self.connections}
        info["haLastClosed"] = self.last_closed
        if self.client is not None:
            info["haMasterAddress"] = self.client.master_address
            info["haClientState"] = self.client.state_and_reason
        return info

    def _wake_connections(self) -> None:
        for connection in self.connections:
            connection.wake()

    def _accept_slaves(self) -> None:
        assert self._listener is not None, "`start` sets the listener"
        try:
            self._accept_until_closed(self._listener)
        except Exception as error:
            self._store.flags.service_failed("ha-accept", error)
            raise

    def _accept_until_closed(self, listener: Listener) -> None:
        while True:
            try:
                accepted = listener.accept(None)
            except ConnectionError:
                return  # the listener is closed
            except OSError:
                self._tasks.sleep(_ACCEPT_RETRY_MS)  # the process may have no free descriptor
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
