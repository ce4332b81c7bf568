"""The master's end of one slave's connection: one task hears its reports, one sends it the log.

Sent is what readers may see: under SYNC_FLUSH what is durable, so that no crash of the master leaves a slave with
records that the master has lost. A report is believed as far as it can be true; one beyond what this connection has
sent, which a slave makes whose log is longer than the master's, ends it.
Source: RocketMQ HAConnection.
"""

from collections.abc import Callable

from ..config import StoreConfig
from ..errors import CorruptFileError
from ..formats.replication import REPORT_BYTES, decode_report, encode_frame_header
from ..log.segment_queue import SegmentQueue
from ..marks import hit
from ..network import Connection
from ..world import Task, World
from .group_transfer import GroupTransfer
from .sending import send_all

_RECEIVE_BYTES = 1 << 16
_UNKNOWN = -1


class HAConnection:
    """One slave, from when it connects until either side has enough."""

    def __init__(
        self,
        world: World,
        config: StoreConfig,
        number: int,
        connection: Connection,
        log: SegmentQueue,
        readable_limit: Callable[[], int],
        group_transfer: GroupTransfer | None,
        on_closed: Callable[["HAConnection"], None],
    ) -> None:
        self.number = number
        self.remote_address = connection.remote_address
        self.closed_because = ""
        """Why this connection ended; empty while it has not."""
        self._world = world
        self._config = config
        self._connection = connection
        self._log = log
        self._readable_limit = readable_limit
        self._group_transfer = group_transfer
        self._on_closed = on_closed
        self._signal = world.tasks.signal(f"ha-writer-{number}")
        self._closed = world.tasks.cell(f"ha-connection-{number} closed")
        self._began = world.tasks.cell(f"ha-connection-{number} began", _UNKNOWN)
        """Log offset that sending began at."""
        self._sent = world.tasks.cell(f"ha-connection-{number} sent")
        """Up to where it has been sent, or is being."""
        self._reported = world.tasks.cell(f"ha-connection-{number} reported", _UNKNOWN)
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
        received, position = bytearray(), 0
        try:
            while chunk := self._connection.receive(_RECEIVE_BYTES, self._config.ha_housekeeping_interval_ms):
                received += chunk
                while len(received) >= REPORT_BYTES:
                    report = decode_report(
                        received[:REPORT_BYTES], stream=f"reports of {self.remote_address}", position=position
                    )
                    del received[:REPORT_BYTES]
                    position += REPORT_BYTES
                    if not self._take_report(report):
                        return
            self.close("the slave ended it")
        except TimeoutError:
            self.close(f"no report for {self._config.ha_housekeeping_interval_ms} ms")
        except (OSError, CorruptFileError) as error:
            self.close(str(error))
        except Exception as error:
            self.close(f"{type(error).__name__}: {error}")
            raise

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

        The slave is told by a heartbeat where the log does begin or end, which no log that fits would be told.
        """
        end, first = self._readable_limit(), max(self._log.min_offset, 0)
        begin = end - end % self._log.segment_bytes if report == 0 else report
        if not (report == 0 or first <= report <= end):
            if report > end:
                hit("report beyond the master's end")
            self._send(encode_frame_header(end if report > end else first, 0))
            self.close(f"reported {report}, and the log has {first} to {end}")
            return False
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
        position = at - segment.base_offset
        end = min(
            position + self._config.ha_transfer_batch_size, limit - segment.base_offset, segment.size_bytes
        )
        data = bytes(segment.file.view(position, end))
        self._sent.set(at + len(data))  # before the slave can have it, and say so
        self._send(encode_frame_header(at, len(data)) + data)
        return True

    def _send(self, data: bytes) -> None:
        send_all(self._connection, data, self._config.ha_housekeeping_interval_ms)
