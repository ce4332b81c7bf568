"""Group transfer: puts that wait for a slave. RocketMQ's GroupTransferService, without a task of its own.

A put is replicated when one connection has sent the slave all of it and the slave has reported its end since. What a
slave says of bytes that this connection has not sent proves nothing about the bytes that the master has there: a
master that lost its tail has new records in the place of those. RocketMQ keeps one mark for all slaves, the greatest
offset that any of them ever reported, and so takes such a word for an answer.
Source: RocketMQ CommitLog.submitReplicaRequest, HAService.isSlaveOK, GroupTransferService.
"""

from collections.abc import Callable
from typing import Protocol

from ..config import StoreConfig
from ..formats.messages import PutMessageStatus
from ..service import NS_PER_MS, ms_until
from ..world import Signal, World


class Replica(Protocol):
    """One connected slave, as puts see it."""

    @property
    def reported(self) -> int:
        """Return how far its log goes, by its last word."""

    def has(self, start_offset: int, end_offset: int) -> bool:
        """Return whether the bytes [start_offset, end_offset) were sent to it and it has reported them since."""


class GroupTransferRequest:
    """A put that waits for a slave, or for its deadline. Invariant: it is answered at most once."""

    __slots__ = ("_clock", "_done", "_on_known", "_status", "due_ns", "end_offset", "start_offset")

    def __init__(
        self,
        world: World,
        start_offset: int,
        end_offset: int,
        timeout_ms: int,
        on_known: Callable[[], None] | None = None,
    ) -> None:
        """on_known: called when it is answered, by whoever does; None: some task will `wait`."""
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
        """The answer: set before anybody is notified, read behind that."""

    def complete(self, status: PutMessageStatus) -> None:
        """Answer. Nobody listens any more to what comes after the deadline."""
        assert self._status is None, "a put is answered once"
        self._status = status
        self._on_known()

    def wait(self) -> PutMessageStatus:
        """Wait for the answer; FLUSH_SLAVE_TIMEOUT when the time that began with the request is over."""
        assert self._done is not None, "somebody else is notified"
        if self._done.wait(ms_until(self.due_ns, self._clock)) and self._status is not None:
            return self._status
        return PutMessageStatus.FLUSH_SLAVE_TIMEOUT

    def look(self, now_ns: int) -> PutMessageStatus | None:
        """Return the answer without waiting, None if it is not known yet; when its time is over, it is."""
        if self._status is None and now_ns >= self.due_ns:
            return PutMessageStatus.FLUSH_SLAVE_TIMEOUT
        return self._status


class GroupTransfer:
    """Who waits for slaves, and which slaves there are. Any task may call."""

    def __init__(self, world: World, config: StoreConfig) -> None:
        self._world = world
        self._config = config
        self._lock = world.tasks.lock("group transfer")
        self._requests: list[GroupTransferRequest] = []
        self.replicas: tuple[Replica, ...] = ()
        """The slaves that are connected and have said where to begin. Replaced, never changed."""

    def submit(
        self, start_offset: int, end_offset: int, on_known: Callable[[], None] | None = None
    ) -> GroupTransferRequest:
        """Begin to wait for a slave to have the bytes [start_offset, end_offset) of the log.

        Answered at once with SLAVE_NOT_AVAILABLE if no slave is connected that is near enough to the log's end.
        on_known: as `GroupTransferRequest` has it.
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
        if any(replica.has(start, end) for replica in self.replicas):
            return PutMessageStatus.PUT_OK  # it was faster than this request
        fallbehind_max = self._config.ha_slave_fallbehind_max
        if any(end - replica.reported < fallbehind_max for replica in self.replicas):
            return None
        return PutMessageStatus.SLAVE_NOT_AVAILABLE

    def wait(self, request: GroupTransferRequest) -> PutMessageStatus:
        """Wait for a request's answer, and forget it."""
        status = request.wait()
        if status is PutMessageStatus.FLUSH_SLAVE_TIMEOUT:
            self.forget(request)
        return status

    def look(self, request: GroupTransferRequest, now_ns: int) -> PutMessageStatus | None:
        """Return a request's answer without waiting, and then forget it; None if it is not known yet."""
        status = request.look(now_ns)
        if status is PutMessageStatus.FLUSH_SLAVE_TIMEOUT:
            self.forget(request)
        return status

    def forget(self, request: GroupTransferRequest) -> None:
        """Answer a request no more: its time is over."""
        with self._lock:
            self._requests = [each for each in self._requests if each is not request]

    def reported(self, replica: Replica) -> None:
        """Answer all that one slave's new report is the answer to."""
        with self._lock:
            done = [each for each in self._requests if replica.has(each.start_offset, each.end_offset)]
            if done:
                self._requests = [each for each in self._requests if each not in done]
        for request in done:
            request.complete(PutMessageStatus.PUT_OK)

    def connected(self, replica: Replica) -> None:
        """Count on a slave from now on."""
        assert replica not in self.replicas, "a slave connects once"
        with self._lock:
            self.replicas = (*self.replicas, replica)

    def gone(self, replica: Replica) -> None:
        """Count on it no more. Who waits goes on waiting: it may come back, or another."""
        with self._lock:
            self.replicas = tuple(each for each in self.replicas if each is not replica)

    def give_up(self) -> None:
        """Answer all who wait with FLUSH_SLAVE_TIMEOUT: no slave is served any more."""
        with self._lock:
            requests, self._requests, self.replicas = self._requests, [], ()
        for request in requests:
            request.complete(PutMessageStatus.FLUSH_SLAVE_TIMEOUT)
