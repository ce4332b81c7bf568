"""Replication client of a slave: receives a master's log and reports the replicated offset.

Under SYNC_FLUSH the client reports only durable bytes. Under ASYNC_FLUSH it also reports bytes in the page cache, as a
RocketMQ slave always does. If the logs diverge, the client stops with an error. Source: RocketMQ HAService.HAClient.
"""

from collections.abc import Callable

from ..config import FlushDiskType
from ..errors import CorruptFileError, DivergedError
from ..formats.replication import FrameReader, encode_report
from ..marks import count_mark
from ..message_store import MessageStore
from ..network import Connection, send_all
from ..service import Service, do_nothing
from .replica_log import ReplicaLog

RECONNECT_MS = 5_000  # RocketMQ HAClient.run
CONNECT_MS = 5_000
STATES = DIVERGED, NOT_CONNECTED, COMPARING, FOLLOWING = ("diverged", "not connected", "comparing", "following")
_RECEIVE_BYTES = 1 << 16
_NS_PER_MS = 1_000_000


class HAClient(Service):
    """Replicates the master's log to this store."""

    name = "ha-client"

    def __init__(self, store: MessageStore) -> None:
        super().__init__(store.world)
        assert store.world.network is not None, "replication needs a network"
        self.on_failure = store.flags.service_failed
        self._network = store.world.network
        self._store = store
        self._config = store.config
        self._replica: ReplicaLog | None = None
        self.master_address = store.config.ha_master_address
        """Address of the master; empty if unknown."""
        self.diverged: DivergedError | None = None
        """The difference between the logs that stopped replication. A new master address clears it."""
        self.on_diverged: Callable[[str, DivergedError], None] = do_nothing
        """Called with the master's address when the logs diverge."""
        self.last_error = ""
        self._lock = store.world.tasks.lock("ha-client connection")
        self._connection: Connection | None = None
        self._due_ns = 0
        """Monotonic time of the next report, unless a higher offset is reported before."""
        self._reported = -1

    @property
    def state(self) -> str:
        if self.diverged is not None:
            return DIVERGED
        if self._connection is None:
            return NOT_CONNECTED
        return FOLLOWING if self.is_following else COMPARING

    @property
    def state_and_reason(self) -> str:
        state = self.state
        reason = {DIVERGED: str(self.diverged), NOT_CONNECTED: self.last_error}.get(state)
        return f"{state}: {reason}" if reason else state

    @property
    def is_following(self) -> bool:
        """Whether the connected master has all bytes of this log."""
        return self._connection is not None and self._replica is not None and self._replica.is_verified

    def update_master_address(self, address: str) -> None:
        if address == self.master_address:
            return
        with self._lock:
            self.master_address = address
            self.diverged = None
        self._disconnect()
        self.wake()

    def shutdown(self) -> None:
        self._stopping.set(1)
        self._disconnect()
        super().shutdown()

    def _disconnect(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def run_once(self) -> None:
        address = self.master_address
        if not address or self.diverged is not None:
            self.signal.wait(None)
            return
        if self._replica is None:
            self._replica = ReplicaLog(self._store.commit_log)
        try:
            connection = self._network.connect(address, CONNECT_MS)
        except (OSError, ValueError) as error:  # the master refused the connection, or its address is invalid
            self.last_error = str(error)
        else:
            self._replicate_from(connection, self._replica, address)
        if not self.is_stopping and address == self.master_address:
            self.signal.wait(RECONNECT_MS)

    def _replicate_from(self, connection: Connection, replica: ReplicaLog, address: str) -> None:
        with self._lock:
            self._connection = connection
        try:
            # Before `_connection` is set, `shutdown` and a change of the master do not close the connection.
            if not self.is_stopping and address == self.master_address:
                self._receive_stream(connection, replica)
        except DivergedError as error:
            count_mark("slave diverged")
            with self._lock:
                is_current = address == self.master_address  # a new master does not have this error
                if is_current:
                    self.diverged = error
            if is_current:
                self.on_diverged(address, error)
        except (OSError, CorruptFileError) as error:
            self.last_error = str(error)
        self._disconnect()
        connection.close()
        self._store.flush.wait_durable(self._store.log.max_offset, wait=False)  # start a flush of the last records

    def _receive_stream(self, connection: Connection, replica: ReplicaLog) -> None:
        stream = f"log from {connection.remote_address}"
        frames = FrameReader(self._config.mapped_file_size_commit_log, stream)
        log, is_async = self._store.log, self._config.flush_disk_type is FlushDiskType.ASYNC_FLUSH
        self._send_report(connection, replica.start_stream(log.max_offset if is_async else log.flushed_where.get()))
        heard_ns = self._now_ns()
        while True:
            now_ns = self._now_ns()
            silent_ns = heard_ns + self._config.ha_housekeeping_interval_ms * _NS_PER_MS - now_ns
            if silent_ns <= 0:
                raise TimeoutError(f"no data from the master for {self._config.ha_housekeeping_interval_ms} ms")
            wait_ns = max(min(silent_ns, self._due_ns - now_ns), 0)
            try:
                received = connection.receive(_RECEIVE_BYTES, -(-wait_ns // _NS_PER_MS))
            except TimeoutError:
                received = None
            if received == b"":
                raise ConnectionError("the master closed the connection")
            if received is not None:
                heard_ns = self._now_ns()
                for piece in frames.feed(received):
                    replica.compare_or_append(piece)
            self._report_progress(connection, replica)

    def _now_ns(self) -> int:
        return self.world.clock.monotonic_ns()

    def _report_progress(self, connection: Connection, replica: ReplicaLog) -> None:
        """Report a higher offset, or repeat the last report when due. An unverified log is not reported."""
        offset = self._durable_log_offset() if replica.is_verified else self._reported
        if offset > self._reported or self._now_ns() >= self._due_ns:
            self._send_report(connection, max(offset, self._reported))

    def _durable_log_offset(self) -> int:
        log = self._store.log
        end_offset = log.max_offset
        if end_offset == self._reported or self._config.flush_disk_type is FlushDiskType.ASYNC_FLUSH:
            return end_offset
        self._store.flush.wait_durable(end_offset, wait=True)
        if self._store.flags.has_failed:
            raise OSError("a sync failed on this slave, so it can report no more data as durable")
        return log.flushed_where.get()

    def _send_report(self, connection: Connection, offset: int) -> None:
        assert offset >= 0, offset
        self._due_ns = self._now_ns() + self._config.ha_send_heartbeat_interval_ms * _NS_PER_MS
        self._reported = offset
        send_all(connection, encode_report(offset), self._config.ha_housekeeping_interval_ms)
