"""Bugs of a slave's connection, at both ends: wake-ups, frames, reports, silences and closes."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

from ....store.config import FlushDiskType
from ....store.errors import CorruptFileError
from ....store.formats.replication import REPORT_BYTES, FrameReader, TransferPiece, encode_frame_header
from ....store.network import Connection, Listener
from ....store.replication.ha_client import CONNECT_MS, RECONNECT_MS, HAClient
from ....store.replication.ha_service import HANDOVER_MS_MAX, HAConnection, HAService
from ....store.replication.replica_log import ReplicaLog
from ....store.service import do_nothing
from ...claims.catalogue.clusters import CLUSTER, FAILED_ACCEPTS, HANDOVER, RECONNECTS, STEADY_TRAFFIC
from ..mutant import bit, bug, needs

_NS_PER_MS = 1_000_000
_TWO_SLAVES = RECONNECTS.replace(cluster={"slaves": (2,)})
_SILENT = RECONNECTS.replace(network={"half_open_chance": (0.2,)}, settings={"ha_housekeeping_interval_ms": (1_500,)})


# -- the master's end ------------------------------------------------------------------------------


# Redis-cerberus: projecteru/redis-cerberus issue 29.
@bug("ha-failed-accept-ends-listener", HAService, "_accept_until_closed", found_by=("QUIET", "LIVE", "REP"))
@needs(RECONNECTS.replace(**FAILED_ACCEPTS), heals=(True,))
def accept_until_error(self: HAService, listener: Listener) -> None:
    """After a failed accept, such as without free descriptors, no slave can connect until the master restarts."""

    def accept(timeout_ms: int | None) -> Connection:
        try:
            return listener.accept(timeout_ms)
        except OSError as error:
            bit(not isinstance(error, ConnectionError))
            raise ConnectionAbortedError(str(error)) from error

    accept_until_error.original(self, cast(Listener, SimpleNamespace(accept=accept)))


@bug("ha-wakes-one-slave", HAService, "_wake_connections", found_by=("REP",))
@needs(_TWO_SLAVES)
def wake_first(self: HAService) -> None:
    """New data wakes only the oldest connection. The master sends it to other slaves at their next heartbeat."""
    connections = self.connections
    bit(len(connections) > 1)
    if connections:
        connections[0].wake()


@bug("ha-stops-before-delivery", HAService, "shutdown", found_by=("REP",))
@needs(HANDOVER)
def close_before_puts_end(self: HAService) -> None:
    """A master that stops closes its connections before it ends puts, so its slaves lack the last records."""
    bit(self._store.is_accepting)
    vars(self._store)["stop_puts"] = do_nothing
    close_before_puts_end.original(self)
    del vars(self._store)["stop_puts"]


@bug("ha-stops-without-last-frames", HAService, "_await_slaves", found_by=("REP",))
@needs(HANDOVER)
def await_no_slave(self: HAService) -> None:
    """A master that stops closes its connections before its slaves have the end of its log."""
    bit(any(not each.has_whole_log() for each in self.connections))


@bug("ha-stop-awaits-one-slave", HAService, "_await_slaves", found_by=("REP",))
@needs(HANDOVER, cluster={"slaves": (2,)})
def await_first_slave(self: HAService) -> None:
    """A master that stops waits until its first slave has the whole log, and not for the others."""
    connections = self.connections
    bit(any(not each.has_whole_log() for each in connections[1:]))
    self.connections = connections[:1]
    await_first_slave.original(self)
    self.connections = connections


@bug("ha-stop-awaits-fastest-slave", HAService, "_await_slaves", found_by=("REP",))
@needs(HANDOVER, cluster={"slaves": (2,)})
def await_fastest_slave(self: HAService) -> None:
    """A master that stops waits until any slave has the whole log, so a slower one that takes over lacks messages."""
    store, clock = self._store, self._store.world.clock
    store.flush.wait_durable(store.log.put_offset, wait=False)
    due_ns = clock.monotonic_ns() + HANDOVER_MS_MAX * _NS_PER_MS
    while connections := self.connections:
        have_all = [each.has_whole_log() for each in connections]
        if any(have_all) or store.flags.has_failed or clock.monotonic_ns() >= due_ns:
            bit(any(have_all) and not all(have_all))
            return
        self._tasks.sleep(10)


@bug("ha-stop-awaits-sends-only", HAConnection, "has_whole_log", found_by=("REP",))
@needs(HANDOVER)
def has_sent_whole_log(self: HAConnection) -> bool:
    """A master that stops waits for no report of the last frames, which a slave may lose with the connection."""
    if has_sent_whole_log.original(self):
        return True
    return bit(self._sent.get() >= self._readable_limit() >= self._log.put_offset)


@bug("ha-sends-one-frame-per-wake", HAConnection, "_send_frames", found_by=("REP",))
@needs(RECONNECTS)
def send_one_and_wait(self: HAConnection) -> None:
    """A master sends one frame for each wake-up, so the rest of a long record waits for the next heartbeat."""
    try:
        while not self._closed.get():
            sent = self._send_next_frame()
            bit(sent and self._sent.get() < self._readable_limit())
            if self._signal.wait(self._config.ha_send_heartbeat_interval_ms) or sent:
                continue
            self._send_bytes(encode_frame_header(self._sent.get(), 0))
    except (OSError, ValueError) as error:
        self.close(str(error))


@bug("ha-heartbeat-too-late", HAConnection, "_send_frames", found_by=("REP",))
@needs(RECONNECTS)
def wait_three_intervals(self: HAConnection) -> None:
    """A master sends a heartbeat only after three idle intervals, so that a slave may close the connection."""
    try:
        while not self._closed.get():
            if self._send_next_frame():
                continue
            bit()
            if self._signal.wait(3 * self._config.ha_send_heartbeat_interval_ms):
                continue
            self._send_bytes(encode_frame_header(self._sent.get(), 0))
    except (OSError, ValueError) as error:
        self.close(str(error))


@bug("ha-heartbeat-has-reported-offset", HAConnection, "_send_frames", found_by=("REP", "QUIET"))
@needs(RECONNECTS)
def beat_at_report(self: HAConnection) -> None:
    """A heartbeat has the offset that the slave reported, although more was sent."""
    try:
        while not self._closed.get():
            if self._send_next_frame() or self._signal.wait(self._config.ha_send_heartbeat_interval_ms):
                continue
            offset = max(self._reported.get(), self._began.get())
            bit(offset != self._sent.get())
            self._send_bytes(encode_frame_header(offset, 0))
    except (OSError, ValueError) as error:
        self.close(str(error))


@bug("ha-partial-send-dropped", HAConnection, "_send_bytes", found_by=("REP", "QUIET", "LIVE"))
@needs(RECONNECTS, broker={"buffer_bytes": (100,)})
def send_once(self: HAConnection, data: bytes) -> None:
    """If the socket accepts only a part of a frame, the rest of the frame is lost."""
    bit(self._connection.send(data, self._config.ha_housekeeping_interval_ms) < len(data))


@bug("ha-sent-offset-set-late", HAConnection, "_send_next_frame", found_by=("REP", "QUIET"))
@needs(RECONNECTS, broker={"buffer_bytes": (100,)})
def set_sent_after_send(self: HAConnection) -> bool:
    """A master closes the connection if a slave reports a frame before the master's send call has returned."""
    before = self._sent.get()
    send, frames = self._send_bytes, list[bytes]()
    self._send_bytes = frames.append  # type: ignore[method-assign, assignment]
    is_sent = set_sent_after_send.original(self)
    self._send_bytes = send  # type: ignore[method-assign]
    if frames:
        after = self._sent.get()
        self._sent.set(before)
        bit()
        send(frames[0])
        self._sent.set(after)
    return is_sent


@bug("ha-split-report-dropped", HAConnection, "_read_reports", found_by=("REP", "QUIET", "STATUS"))
@needs(RECONNECTS, network={"split_chance": (0.5,)})
def drop_split_reports(self: HAConnection) -> None:
    """A master drops the first bytes of a report that arrives in two pieces."""
    try:
        while chunk := self._connection.receive(1 << 16, self._config.ha_housekeeping_interval_ms):
            bit(len(chunk) % REPORT_BYTES > 0)
            for at in range(0, len(chunk) - REPORT_BYTES + 1, REPORT_BYTES):
                report = int.from_bytes(chunk[at : at + REPORT_BYTES], "big", signed=True)
                if report < 0 or not self._process_report(report):
                    self.close("an impossible report")
                    return
        self.close("the slave ended it")
    except OSError as error:
        self.close(str(error))


@bug("ha-first-report-of-receive-only", HAConnection, "_read_reports", found_by=("REP", "QUIET", "STATUS"))
@needs(RECONNECTS, network={"split_chance": (0.5,)})
def read_one_report(self: HAConnection) -> None:
    """If several reports arrive together, a master reads only the first one."""
    received = bytearray()
    try:
        while chunk := self._connection.receive(1 << 16, self._config.ha_housekeeping_interval_ms):
            received += chunk
            if len(received) >= REPORT_BYTES:
                report, whole = int.from_bytes(received[:REPORT_BYTES], "big"), len(received) // REPORT_BYTES
                bit(whole > 1)
                del received[: whole * REPORT_BYTES]
                if not self._process_report(report):
                    return
        self.close("the slave ended it")
    except OSError as error:
        self.close(str(error))


@bug("ha-silent-slave-kept", HAConnection, "_read_reports", found_by=("REP",))
@needs(_SILENT)
def read_without_time_out(self: HAConnection) -> None:
    """A master keeps a connection although no report arrives within haHousekeepingInterval."""
    received = bytearray()
    try:
        while True:
            try:
                chunk = self._connection.receive(1 << 16, self._config.ha_housekeeping_interval_ms)
            except TimeoutError:
                bit()
                continue
            received += chunk
            while len(received) >= REPORT_BYTES:
                report = int.from_bytes(received[:REPORT_BYTES], "big")
                del received[:REPORT_BYTES]
                if not self._process_report(report):
                    return
            if not chunk:
                self.close("the slave ended it")
                return
    except OSError as error:
        self.close(str(error))


def _close_but(self: HAConnection, reason: str, *, removes: bool, closes: bool) -> None:
    if not self._closed.compare_and_set(0, 1):
        return
    self.closed_because = reason
    if self._group_transfer is not None and removes:
        self._group_transfer.remove_replica(self)
    if closes:
        self._connection.close()
    self._signal.notify()
    self._on_closed(self)


@bug("ha-gone-slave-awaited", HAConnection, "close", found_by=("REP", "QUIET"))
@needs(RECONNECTS, cluster={"sync_master": (True,)})
def close_and_keep_replica(self: HAConnection, reason: str) -> None:
    """A put waits for a slave although the slave's connection has ended."""
    bit(self._group_transfer is not None)
    _close_but(self, reason, removes=False, closes=True)


@bug("ha-socket-left-open", HAConnection, "close", found_by=("REP", "QUIET"))
@needs(_SILENT)
def close_without_socket(self: HAConnection, reason: str) -> None:
    """A master that gives up a connection does not close its socket."""
    _close_but(self, reason, removes=True, closes=not bit(reason != "the master stops"))


@bug("ha-ended-connection-listed", HAService, "_on_closed", found_by=("QUIET", "REP"))
@needs(RECONNECTS, heals=(True,))
def keep_listed(self: HAService, connection: HAConnection) -> None:
    """The master's list of connections keeps a connection that has ended."""
    bit()
    self._ended.append(connection)
    self.on_slave_gone(connection)


@bug("ha-empty-slave-gets-whole-log", HAConnection, "_process_first_report", found_by=("REP",))
@needs(CLUSTER, commit_log_bytes=(2048,), lives=(2, 3))
def begin_at_first_segment(self: HAConnection, report: int) -> bool:
    """A slave with an empty log receives the master's whole log, not only its last segment."""
    limit, first = self._readable_limit, max(self._log.min_offset, 0)
    if report == 0 and bit(limit() > first + self._log.segment_bytes):
        self._readable_limit = lambda: first
        begun = begin_at_first_segment.original(self, report)
        self._readable_limit = limit
        return begun
    return begin_at_first_segment.original(self, report)


# -- the slave's end -------------------------------------------------------------------------------


@bug("slave-idle-and-silent", HAClient, "_report_progress", found_by=("REP",))
@needs(RECONNECTS)
def report_only_progress(self: HAClient, connection: Connection, replica: ReplicaLog) -> None:
    """A slave without new data sends no report, so its master closes the connection."""
    if self._now_ns() >= self._due_ns and bit(not replica.is_verified or self._store.log.max_offset <= self._reported):
        self._due_ns = self._now_ns() + self._config.ha_send_heartbeat_interval_ms * _NS_PER_MS
    report_only_progress.original(self, connection, replica)


@bug("slave-reports-at-intervals", HAClient, "_report_progress", found_by=("REP", "STATUS", "QUIET"))
@needs(RECONNECTS, cluster={"slave_sync_flush": (False,)})
def report_when_due(self: HAClient, connection: Connection, replica: ReplicaLog) -> None:
    """A slave reports new data only with its next heartbeat, so each put waits for an interval."""
    if self._now_ns() >= self._due_ns:
        report_when_due.original(self, connection, replica)
    else:
        bit(replica.is_verified and self._store.log.max_offset > self._reported)


@bug("slave-reports-uncompared", HAClient, "_report_progress", found_by=("REP",))
@needs(RECONNECTS)
def report_before_comparison(self: HAClient, connection: Connection, replica: ReplicaLog) -> None:
    """A slave reports its log before it has compared the end of the log with its master's log."""
    bit(not replica.is_verified)
    offset = self._durable_log_offset()
    if offset > self._reported or self._now_ns() >= self._due_ns:
        self._send_report(connection, max(offset, self._reported))


@bug("slave-leaves-old-connection", HAClient, "_disconnect", found_by=("REP", "QUIET"))
@needs(RECONNECTS)
def forget_connection(self: HAClient) -> None:
    """After an error, a slave opens a new connection and leaves the old one open."""
    if self.is_stopping:
        forget_connection.original(self)
        return
    with self._lock:
        bit(self._connection is not None)
        self._connection = None


@forget_connection.also(HAClient, "_replicate_from")
def _replicate_and_forget(self: HAClient, connection: Connection, replica: ReplicaLog, address: str) -> None:
    self._connection = connection
    try:
        self._receive_stream(connection, replica)
    except (OSError, CorruptFileError) as error:
        self.last_error = str(error)
    self._disconnect()


@bug("slave-connects-without-pause", HAClient, "run_once", found_by=("REP",))
@needs(RECONNECTS)
def connect_at_once(self: HAClient) -> None:
    """After a connection ends, a slave connects again without its pause."""
    address = self.master_address
    if not address or self.diverged is not None:
        connect_at_once.original(self)
        return
    self._replica = self._replica or ReplicaLog(self._store.commit_log)
    try:
        self._replicate_from(self._network.connect(address, CONNECT_MS), self._replica, address)
    except (OSError, ValueError) as error:
        self.last_error = str(error)
    bit()
    self.signal.wait(RECONNECT_MS // 100)


@bug("slave-counts-silence-from-connect", HAClient, "_receive_stream", found_by=("REP",))
@needs(_SILENT)
def give_up_after_first_interval(self: HAClient, connection: Connection, replica: ReplicaLog) -> None:
    """A slave closes each connection after haHousekeepingInterval, even if data arrives."""
    due_ns = self._now_ns() + self._config.ha_housekeeping_interval_ms * _NS_PER_MS
    compare = replica.compare_or_append

    def compare_in_time(piece: TransferPiece) -> bool:
        if bit(self._now_ns() > due_ns):
            raise TimeoutError("the connection is too old")
        return compare(piece)

    replica.compare_or_append = compare_in_time  # type: ignore[method-assign]
    try:
        give_up_after_first_interval.original(self, connection, replica)
    finally:
        del replica.compare_or_append


@bug("slave-keeps-silent-connection", HAClient, "_receive_stream", found_by=("REP",))
@needs(_SILENT)
def hear_always(self: HAClient, connection: Connection, replica: ReplicaLog) -> None:
    """A slave keeps a connection although its master sends no data and no heartbeat."""
    frames = FrameReader(self._config.mapped_file_size_commit_log, "log")
    log, is_async = self._store.log, self._config.flush_disk_type is FlushDiskType.ASYNC_FLUSH
    self._send_report(connection, replica.start_stream(log.max_offset if is_async else log.flushed_where.get()))
    heard_ns = self._now_ns()
    while True:
        try:
            received = connection.receive(1 << 16, max(self._due_ns - self._now_ns(), 0) // _NS_PER_MS + 1)
        except TimeoutError:
            received = None
        if received == b"":
            raise ConnectionError("the master ended it")
        if received is not None:
            heard_ns = self._now_ns()
            for piece in frames.feed(received):
                replica.compare_or_append(piece)
        bit(self._now_ns() - heard_ns > self._config.ha_housekeeping_interval_ms * _NS_PER_MS)
        self._report_progress(connection, replica)


@bug("slave-drops-split-header", FrameReader, "feed", found_by=("REP", "QUIET", "LIVE"))
@needs(RECONNECTS, network={"split_chance": (0.5,)})
def begin_header_anew(self: FrameReader, received: bytes) -> Iterator[TransferPiece]:
    """A slave drops the first bytes of a frame's header that arrives in two pieces."""
    bit(bool(self._head))
    self._head.clear()
    yield from begin_header_anew.original(self, received)


@bug("slave-counts-heartbeats-only", HAClient, "_report_progress", found_by=("REP",))
@needs(RECONNECTS.replace(**STEADY_TRAFFIC))
def report_unless_heartbeats_lack(self: HAClient, connection: Connection, replica: ReplicaLog) -> None:
    """A slave that gets data, and therefore no heartbeat, takes its master for silent and ends the connection."""
    now_ns = self._now_ns()
    heard_ns = vars(replica).setdefault("_heartbeat_ns", now_ns)
    if bit(now_ns - heard_ns >= self._config.ha_housekeeping_interval_ms * _NS_PER_MS):
        raise TimeoutError("no heartbeat arrives")
    report_unless_heartbeats_lack.original(self, connection, replica)


@report_unless_heartbeats_lack.also(ReplicaLog, "_count_heartbeat")
def _count_heartbeat_as_life(self: ReplicaLog) -> None:
    vars(self).pop("_heartbeat_ns", None)
    _count_heartbeat_as_life.original(self)


@report_unless_heartbeats_lack.also(ReplicaLog, "start_stream")
def _count_start_as_life(self: ReplicaLog, kept_offset: int) -> int:
    vars(self).pop("_heartbeat_ns", None)
    return _count_start_as_life.original(self, kept_offset)


@bug("ha-figures-swapped", HAService, "runtime_info", found_by=("REP",))
@needs(RECONNECTS)
def swapped_figures(self: HAService) -> dict[str, str]:
    """The figures of a master show what it has sent to a slave as what the slave has reported."""
    info = swapped_figures.original(self)
    for each in self.connections:
        bit(each.sent != each.reported_offset)
        info[f"haSlave_{each.remote_address}"] = f"{each.sent},{each.reported_offset}"
    return info
