"""Group transfer: puts that wait for a slave. RocketMQ's GroupTransferService, without a task of its own.

A put is replicated when one connection has sent the slave all of it and the slave has reported its end since. What a
slave says of bytes that this connection has not sent proves nothing about the bytes that the master has there: a
master that lost its tail has new records in the place of those. RocketMQ keeps one mark for all slaves, the greatest
offset that any of them ever reported, and so takes such a word for an answer.
Source: RocketMQ CommitLog.submitReplicaRequest, HAService.isSlaveOK, GroupTransferService.
"""

from typing import Protocol

from ..config import StoreConfig
from ..message import PutMessageStatus
from ..world import World


class Replica(Protocol):
    """One connected slave, as puts see it."""

    @property
    def reported(self) -> int:
        """Return how far its log goes, by its last word."""

    def has(self, start_offset: int, end_offset: int) -> bool:
        """Return whether the bytes [start_offset, end_offset) were sent to it and it has reported them since."""


class GroupTransferRequest:
    """A put that waits for a slave, or for its deadline. Invariant: it is answered at most once."""

    __slots__ = ("_clock", "_done", "_due_ns", "_is_answered", "_status", "end_offset", "start_offset")

    def __init__(self, world: World, start_offset: int, end_offset: int, timeout_ms: int) -> None:
        assert 0 <= start_offset < end_offset, (start_offset, end_offset)
        self._is_answered = False
        self.start_offset = start_offset
        self.end_offset = end_offset
        self._clock = world.clock
        self._due_ns = world.clock.monotonic_ns() + timeout_ms * 1_000_000
        self._done = world.tasks.signal("group transfer done")
        self._status = PutMessageStatus.FLUSH_SLAVE_TIMEOUT
        """The answer: set before the signal, read behind it."""

    def complete(self, status: PutMessageStatus) -> None:
        """Answer. Nobody listens any more to what comes after the deadline."""
        assert not self._is_answered, "a put is answered once"
        self._is_answered = True
        self._status = status
        self._done.notify()

    def wait(self) -> PutMessageStatus:
        """Wait for the answer; FLUSH_SLAVE_TIMEOUT when the time that began with the request is over."""
        left_ns = self._due_ns - self._clock.monotonic_ns()
        if self._done.wait(max(0, -(-left_ns // 1_000_000))):
            return self._status
        return PutMessageStatus.FLUSH_SLAVE_TIMEOUT


class GroupTransfer:
    """Who waits for slaves, and which slaves there are. Any task may call."""

    def __init__(self, world: World, config: StoreConfig) -> None:
        self._world = world
        self._config = config
        self._lock = world.tasks.lock("group transfer")
        self._requests: list[GroupTransferRequest] = []
        self.replicas: tuple[Replica, ...] = ()
        """The slaves that are connected and have said where to begin. Replaced, never changed."""

    def submit(self, start_offset: int, end_offset: int) -> GroupTransferRequest:
        """Begin to wait for a slave to have the bytes [start_offset, end_offset) of the log.

        Answered at once with SLAVE_NOT_AVAILABLE if no slave is connected that is near enough to the log's end.
        """
        request = GroupTransferRequest(self._world, start_offset, end_offset, self._config.slave_timeout_ms)
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
            with self._lock:
                self._requests = [each for each in self._requests if each is not request]
        return status

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
