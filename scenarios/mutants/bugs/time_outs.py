"""Bugs of time: a clock that falls, and waits that change what an answer means once they have been too long."""

from collections.abc import Callable
from weakref import WeakKeyDictionary

from ....store.formats.messages import AppendMessageResult, PutMessageStatus
from ....store.log.commit_log import CommitLog
from ....store.log.flush import GroupCommitRequest, GroupCommitService
from ....store.log.group_transfer import GroupTransfer, GroupTransferRequest
from ....store.log.log_time import LogTime
from ....store.log.put_encoder import EncodedPut
from ...claims.catalogue.clusters import TROUBLED
from ..mutant import bit, bug, needs


# A record's store time is what the wall clock says, as in RocketMQ. Recovery begins at the newest segment whose first
# record is older than the checkpoint's times, less a margin. Once the clock was set back by more than that, this may be
# a segment whose entries nobody has synced, or one behind such.
@bug("store-time-falls-with-the-clock", CommitLog, "append", found_by=("PREFIX", "CQ-COMPLETE", "CKPT", "DUR"))
@needs(
    recover_whole_log=(False,),
    disturbances={"clock_step_chance": (0.5,)},
    commit_log_bytes=(2048,),
    messages_each=(16,),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    flush={"thorough_interval_ms": (2000,)},
    lives=(1, 2),
)
def append_at_wall_time(self: CommitLog, encoded: EncodedPut) -> AppendMessageResult | PutMessageStatus:
    """When the clock is set back, records behind others have earlier store times, and recovery begins too late."""
    with self._put_lock:
        if self._closed:
            return PutMessageStatus.SERVICE_NOT_AVAILABLE
        now_ms = self._world.clock.now_ms()
        self.begin_time_in_lock_ms = now_ms
        bit(now_ms < self.last_store_timestamp_ms)
        self.last_store_timestamp_ms = min(self.last_store_timestamp_ms, now_ms)
        try:
            return self._append_locked(encoded, now_ms)
        finally:
            self.begin_time_in_lock_ms = 0


# While the wall clock is behind the newest record, the log's time is that record's store time. Nothing becomes due
# until the wall clock has caught up: never, if a time in the future has rotted into a record.
@bug("log-time-stands-still", LogTime, "_least_ms", found_by=("QUIET",))
@needs(disturbances={"clock_step_chance": (0.5,)}, delay={"chance": (0.5,)}, heals=(True,), lives=(1, 2))
def least_ms_of_the_newest(self: LogTime, now_ns: int) -> int:
    """While the wall clock is behind the newest record, the log's time stands still, and nothing that is delayed
    comes.
    """
    since_ms, _ = self._since
    bit(since_ms > self._clock.now_ms() and least_ms_of_the_newest.original(self, now_ns) > since_ms)
    return since_ms


# A put that gave up waiting has shown that the disk is slow; those that come until it has caught
# up are answered without it. Semi-synchronous replication of databases falls back like that, and says so.
_asked = WeakKeyDictionary[GroupCommitService, list[GroupCommitRequest]]()
"""Requests whose answer nobody has seen yet."""


@bug("sync-timeout-degrades", GroupCommitService, "begin_durable", found_by=("STATUS", "DUR"))
@needs(sync_flush=(True,), faults={"slow_sync_chance": (0.4,)}, flush={"sync_timeout_ms": (200,)}, producers=(2, 3))
def begin_durable_but_once(
    self: GroupCommitService, end_offset: int, *, wait: bool, on_known: Callable[[], None] | None = None
) -> GroupCommitRequest | None:
    """Once a put has waited too long for the disk, others are answered without it until it has caught up."""
    durable_to = self.queue.flushed_where.get()
    asked = _asked[self] = [each for each in _asked.get(self, ()) if each.end_offset > durable_to]
    if bit(any(each._gave_up for each in asked)):
        self.signal.notify()
        return None
    request = begin_durable_but_once.original(self, end_offset, wait=wait, on_known=on_known)
    if request is not None:
        asked.append(request)
    return request


# The same of a sync master, whose puts go on without slaves until one is there again.
_without_slave_to = WeakKeyDictionary[GroupTransfer, int]()


@bug("slave-timeout-degrades", GroupTransfer, "submit", found_by=("REP", "STATUS"))
@needs(TROUBLED, cluster={"sync_master": (True,), "gathers": (True,), "slave_timeout_ms": (200,)})
def submit_without_slave(
    self: GroupTransfer, start_offset: int, end_offset: int, on_known: Callable[[], None] | None = None
) -> GroupTransferRequest:
    """Once a put has waited too long for a slave, others are answered without any until one has caught up."""
    behind = _without_slave_to.get(self, 0)
    request = submit_without_slave.original(self, start_offset, end_offset, on_known)
    if behind and not any(replica.has(behind - 1, behind) for replica in self.replicas):
        with self._lock:
            waits = request in self._requests
            self._requests = [each for each in self._requests if each is not request]
        if bit(waits):
            request.complete(PutMessageStatus.PUT_OK)
    return request


@submit_without_slave.also(GroupTransfer, "forget")
def _forget_but_once(self: GroupTransfer, request: GroupTransferRequest) -> None:
    _forget_but_once.original(self, request)
    _without_slave_to[self] = request.end_offset
