"""Group transfer: puts that wait until a slave has received their bytes.

Like RocketMQ's GroupTransferService, but without a task of its own. A put counts as replicated after two events on the
same connection: the connection has sent all bytes of the put, and then the slave has reported their end offset. A
report on another connection is no proof, because a master that lost the end of its log writes different records at the
same offsets. RocketMQ accepts such a report: it stores only the highest offset that any slave ever reported. Source:
RocketMQ CommitLog.submitReplicaRequest, HAService.isSlaveOK, GroupTransferService.
"""

from collections.abc import Callable
from typing import Protocol

from ..config import StoreConfig
from ..formats.messages import PutMessageStatus
from ..service import NS_PER_MS, ms_until
from ..world import Signal, World


class Replica(Protocol):
    """A connected slave."""

    @property
    def reported_offset(self) -> int:
        """End offset of the slave's log, as last reported by the slave."""

    def has_range(self, start_offset: int, end_offset: int) -> bool:
        """Return whether this connection sent these bytes and the slave then reported end_offset or more."""


class GroupTransferRequest:
    """A put that waits for a slave until a deadline. Invariant: `complete` runs at most once."""

    __slots__ = ("_clock", "_done", "_on_known", "_status", "due_ns", "end_offset", "start_offset")

    def __init__(
        self,
        world: World,
        start_offset: int,
        end_offset: int,
        timeout_ms: int,
        on_known: Callable[[], None] | None = None,
    ) -> None:
        assert 0 <= start_offset < end_offset, (start_offset, end_offset)
        self.start_offset = start_offset
        self.end_offset = end_offset
        self._clock = world.clock
        self.due_ns = world.clock.monotonic_ns() + timeout_ms * NS_PER_MS
        self._done: Signal | None = None
        if on_known is None:
            self._done = world.tasks.signal("group transfer done")
            on_known = self._done.notify
        self._on_known = on_known
        self._status: PutMessageStatus | None = None
        """Status of the put, None while pending. Set before the waiting task is notified."""

    def complete(self, status: PutMessageStatus) -> None:
        assert self._status is None, "complete may run only once"
        self._status = status
        self._on_known()

    def wait(self) -> PutMessageStatus:
        """Wait for the status. Returns FLUSH_SLAVE_TIMEOUT if the deadline passes first."""
        assert self._done is not None, "a request with on_known has no signal to wait for"
        if self._done.wait(ms_until(self.due_ns, self._clock)) and self._status is not None:
            return self._status
        return PutMessageStatus.FLUSH_SLAVE_TIMEOUT

    def poll(self, now_ns: int) -> PutMessageStatus | None:
        """See `GroupCommitRequest.poll`."""
        if self._status is None and now_ns >= self.due_ns:
            return PutMessageStatus.FLUSH_SLAVE_TIMEOUT
        return self._status


class GroupTransfer:
    """Pending requests and connected slaves. Any task may call these methods."""

    def __init__(self, world: World, config: StoreConfig) -> None:
        self._world = world
        self._config = config
        self._lock = world.tasks.lock("group transfer")
        self._requests: list[GroupTransferRequest] = []
        self.replicas: tuple[Replica, ...] = ()
        """Connected slaves that have sent a first report. Each change creates a new tuple."""

    @property
    def pending_count(self) -> int:
        return len(self._requests)

    def submit(
        self, start_offset: int, end_offset: int, on_known: Callable[[], None] | None = None
    ) -> GroupTransferRequest:
        """Create a request to wait until a slave has the log bytes [start_offset, end_offset).

        If every slave lags too far, the status is immediately SLAVE_NOT_AVAILABLE. on_known: see
        `GroupTransferRequest`.
        """
        timeout_ms = self._config.slave_timeout_ms
        request = GroupTransferRequest(self._world, start_offset, end_offset, timeout_ms, on_known)
        with self._lock:
            status = self._status_of(request)
            if status is None:
                self._requests.append(request)
        if status is not None:
            request.complete(status)
        return request

    def _status_of(self, request: GroupTransferRequest) -> PutMessageStatus | None:
        start, end = request.start_offset, request.end_offset
        if any(replica.has_range(start, end) for replica in self.replicas):
            return PutMessageStatus.PUT_OK  # a slave already has these bytes
        return None if self.has_replica_near(end) else PutMessageStatus.SLAVE_NOT_AVAILABLE

    def has_replica_near(self, end_offset: int) -> bool:
        """Return whether a slave is close enough to the end of the log for puts to wait for it."""
        fallbehind_max = self._config.ha_slave_fallbehind_max
        return any(end_offset - replica.reported_offset < fallbehind_max for replica in self.replicas)

    def wait(self, request: GroupTransferRequest) -> PutMessageStatus:
        """Wait for the status. Removes a request that timed out."""
        status = request.wait()
        if status is PutMessageStatus.FLUSH_SLAVE_TIMEOUT:
            self.forget_request(request)
        return status

    def poll(self, request: GroupTransferRequest, now_ns: int) -> PutMessageStatus | None:
        """Return the status, None while pending. Removes a request that timed out."""
        status = request.poll(now_ns)
        if status is PutMessageStatus.FLUSH_SLAVE_TIMEOUT:
            self.forget_request(request)
        return status

    def forget_request(self, request: GroupTransferRequest) -> None:
        with self._lock:
            self._requests = [each for each in self._requests if each is not request]

    def complete_reported_requests(self, replica: Replica) -> None:
        with self._lock:
            done = [each for each in self._requests if replica.has_range(each.start_offset, each.end_offset)]
            if done:
                self._requests = [each for each in self._requests if each not in done]
        for request in done:
            request.complete(PutMessageStatus.PUT_OK)

    def add_replica(self, replica: Replica) -> None:
        assert replica not in self.replicas, "the connection is already registered"
        with self._lock:
            self.replicas = (*self.replicas, replica)

    def remove_replica(self, replica: Replica) -> None:
        """Remove a disconnected slave. Requests stay pending, because another slave may connect in time."""
        with self._lock:
            self.replicas = tuple(each for each in self.replicas if each is not replica)

    def time_out_all(self) -> None:
        with self._lock:
            requests, self._requests, self.replicas = self._requests, [], ()
        for request in requests:
            request.complete(PutMessageStatus.FLUSH_SLAVE_TIMEOUT)
