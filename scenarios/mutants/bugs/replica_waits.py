"""Bugs of group transfer: which puts wait for a slave, for which slave, and which puts a report wakes."""

from collections.abc import Callable

from ....store.formats.messages import PutMessageResult, PutMessageStatus
from ....store.log.group_transfer import GroupTransfer, GroupTransferRequest, Replica
from ....store.log.put_wait import PutWait
from ....store.replication.ha_service import HAConnection
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.clusters import EXACT_LAGS, FREEZES, LONG_WAITS, RECONNECTS
from ..mutant import bit, bug, needs

_WAITING = RECONNECTS.replace(cluster={"sync_master": (True,)})
_TWO_SLAVES = RECONNECTS.replace(cluster={"sync_master": (True,), "slaves": (2,)})
_LONG_WAITS = RECONNECTS.replace(**LONG_WAITS)
_EXACT_LAGS = RECONNECTS.replace(**EXACT_LAGS)
_SMALL_LIMIT = _WAITING.replace(settings={"ha_slave_fallbehind_max": (1_500,)})


def _complete(self: GroupTransfer, done: list[GroupTransferRequest]) -> None:
    self._requests = [each for each in self._requests if each not in done]
    for request in done:
        request.complete(PutMessageStatus.PUT_OK)


@bug("ha-report-answers-one-put", GroupTransfer, "complete_reported_requests", found_by=("REP",))
@needs(_WAITING)
def complete_one(self: GroupTransfer, replica: Replica) -> None:
    """A report answers only the first of several puts that it confirms."""
    done = [each for each in self._requests if replica.has_range(each.start_offset, each.end_offset)]
    bit(len(done) > 1)
    _complete(self, done[:1])


# RocketMQ: apache/rocketmq issue 1227.
@bug("ha-uncovered-put-delays-later", GroupTransfer, "complete_reported_requests", found_by=("REP",))
@needs(_LONG_WAITS)
def complete_in_order(self: GroupTransfer, replica: Replica) -> None:
    """A report answers waiting puts only up to the first one that it does not confirm."""
    with self._lock:
        count, requests = 0, self._requests
        while count < len(requests) and replica.has_range(requests[count].start_offset, requests[count].end_offset):
            count += 1
        done, self._requests = requests[:count], requests[count:]
        bit(any(replica.has_range(each.start_offset, each.end_offset) for each in self._requests))
    for request in done:
        request.complete(PutMessageStatus.PUT_OK)


@bug("ha-report-answers-at-first-byte", GroupTransfer, "complete_reported_requests", found_by=("REP", "DUR"))
@needs(_WAITING, cluster={"transfer_batch_bytes": (50,), "slave_sync_flush": (False,)})
def complete_begun(self: GroupTransfer, replica: Replica) -> None:
    """A put is answered once a slave has its first byte."""
    done = [each for each in self._requests if replica.has_range(each.start_offset, each.start_offset + 1)]
    bit(any(not replica.has_range(each.start_offset, each.end_offset) for each in done))
    _complete(self, done)


@bug("ha-first-slave-answers", GroupTransfer, "complete_reported_requests", found_by=("REP",))
@needs(_TWO_SLAVES)
def complete_by_first(self: GroupTransfer, replica: Replica) -> None:
    """Only reports of the slave that connected first answer puts."""
    if not bit(bool(self.replicas) and replica is not self.replicas[0]):
        complete_by_first.original(self, replica)


@bug("ha-partial-report-answers-none", HAConnection, "_process_report", found_by=("REP",))
@needs(_WAITING)
def answer_at_all_sent(self: HAConnection, report: int) -> bool:
    """A report answers puts only if the slave has all that was sent."""
    transfer = self._group_transfer
    if 0 <= self._reported.get() <= report and bit(report < self._sent.get()):
        self._group_transfer = None
    taken = answer_at_all_sent.original(self, report)
    self._group_transfer = transfer
    return taken


@bug("ha-put-waits-without-slave", GroupTransfer, "_status_of", found_by=("REP",))
@needs(_WAITING)
def wait_for_anyone(self: GroupTransfer, request: GroupTransferRequest) -> PutMessageStatus | None:
    """Without a slave, a put waits for slaveTimeout."""
    status = wait_for_anyone.original(self, request)
    return None if bit(status is PutMessageStatus.SLAVE_NOT_AVAILABLE and not self.replicas) else status


@bug("ha-put-waits-for-far-slave", GroupTransfer, "_status_of", found_by=("REP",))
@needs(_SMALL_LIMIT)
def wait_for_far_slave(self: GroupTransfer, request: GroupTransferRequest) -> PutMessageStatus | None:
    """A put waits for a slave that lags more than haSlaveFallbehindMax."""
    status = wait_for_far_slave.original(self, request)
    return None if bit(status is PutMessageStatus.SLAVE_NOT_AVAILABLE and bool(self.replicas)) else status


@bug("ha-timed-out-put-kept", GroupTransfer, "forget_request", found_by=("REP",))
@needs(_WAITING, heals=(True,))
def keep_request(self: GroupTransfer, request: GroupTransferRequest) -> None:
    """A put that timed out stays among the waiting puts."""
    bit(request in self._requests)


@bug("ha-gone-slave-ends-waits", GroupTransfer, "remove_replica", found_by=("REP",))
@needs(_TWO_SLAVES)
def drop_requests(self: GroupTransfer, replica: Replica) -> None:
    """If a slave disconnects, reports of other slaves no longer answer the puts that wait."""
    drop_requests.original(self, replica)
    bit(bool(self._requests))
    self._requests = []


@bug("ha-old-connection-removes-new", GroupTransfer, "remove_replica", found_by=("REP", "QUIET"))
@needs(_WAITING, network={"half_open_chance": (0.2,)})
def remove_host(self: GroupTransfer, replica: Replica) -> None:
    """The end of a slave's old connection also removes its new one from those that puts wait for."""
    assert isinstance(replica, HAConnection), replica
    host = replica.remote_address.rpartition(":")[0]
    for each in self.replicas:
        if isinstance(each, HAConnection) and each.remote_address.startswith(f"{host}:"):
            bit(each is not replica)
            remove_host.original(self, each)


@bug("ha-stop-leaves-puts-waiting", GroupTransfer, "time_out_all", found_by=("LIVE",))
@needs(_WAITING, endings=("stop in traffic",), cluster={"slave_timeout_ms": (3000,)}, sync_ms_max=(1,))
def leave_waiting(self: GroupTransfer) -> None:
    """A stop of replication does not end the waits of puts, which last until slaveTimeout."""
    bit(bool(self._requests))
    self.replicas = ()


@bug("ha-put-gives-up-after-reports", GroupTransfer, "complete_reported_requests", found_by=("REP", "STATUS"))
@needs(_WAITING, cluster={"transfer_batch_bytes": (50,)})
def complete_or_give_up(self: GroupTransfer, replica: Replica) -> None:
    """A put waits for five reports only, although its bytes need more frames."""
    complete_or_give_up.original(self, replica)
    with self._lock:
        before = vars(self).get("_reports_seen", {})
        seen = vars(self)["_reports_seen"] = {each: before.get(each, 0) + 1 for each in self._requests}
        over = [each for each, reports in seen.items() if reports >= 5]
        self._requests = [each for each in self._requests if each not in over]
    for request in over:
        bit()
        request.complete(PutMessageStatus.FLUSH_SLAVE_TIMEOUT)


@bug("ha-replicas-read-unlocked", GroupTransfer, "remove_replica", found_by=("REP", "QUIET"))
@needs(FREEZES)
def remove_from_old_list(self: GroupTransfer, replica: Replica) -> None:
    """If two slaves leave at the same moment, puts still wait for one of them."""
    before = self.replicas
    rest = tuple(each for each in before if each is not replica)
    with self._lock:
        bit(self.replicas is not before)
        self.replicas = rest


# HAService.isSlaveOK of RocketMQ waits for a slave only if its lag is less than the limit.
@bug("ha-put-waits-at-lag-limit", GroupTransfer, "_status_of", found_by=("REP",))
@needs(_EXACT_LAGS)
def wait_at_limit(self: GroupTransfer, request: GroupTransferRequest) -> PutMessageStatus | None:
    """A put waits for a slave that lags exactly haSlaveFallbehindMax."""
    status, limit = wait_at_limit.original(self, request), self._config.ha_slave_fallbehind_max
    if status is not PutMessageStatus.SLAVE_NOT_AVAILABLE:
        return status
    is_at_limit = any(request.end_offset - each.reported_offset == limit for each in self.replicas)
    return None if bit(is_at_limit) else status


@bug("ha-lag-without-put", GroupTransfer, "_status_of", found_by=("REP",))
@needs(_EXACT_LAGS)
def measure_from_start(self: GroupTransfer, request: GroupTransferRequest) -> PutMessageStatus | None:
    """The lag of a slave does not include the put that would wait for it."""
    status, limit = measure_from_start.original(self, request), self._config.ha_slave_fallbehind_max
    if status is not PutMessageStatus.SLAVE_NOT_AVAILABLE:
        return status
    is_near = any(request.start_offset - each.reported_offset < limit for each in self.replicas)
    return None if bit(is_near) else status


@bug("ha-stop-confirms-puts", GroupTransfer, "time_out_all", found_by=("REP", "DUR"))
@needs(_WAITING, endings=("stop in traffic",))
def confirm_all(self: GroupTransfer) -> None:
    """A SYNC_MASTER that stops answers PUT_OK to puts that still wait for a slave."""
    requests, self._requests, self.replicas = self._requests, [], ()
    bit(bool(requests))
    for request in requests:
        request.complete(PutMessageStatus.PUT_OK)


@bug("ha-first-put-unconfirmed", HAConnection, "has_range", found_by=("REP",))
@needs(_WAITING)
def has_later_range(self: HAConnection, start_offset: int, end_offset: int) -> bool:
    """No report confirms the put with which a slave's stream begins."""
    found = has_later_range.original(self, start_offset, end_offset)
    return found and not bit(found and self._began.get() == start_offset)


# apache/rocketmq issue 1372. A pause of the put's task is long enough for the report.
@bug("put-listed-after-look-at-slaves", GroupTransfer, "submit", found_by=("REP",))
@needs(
    _WAITING,
    attribute_points=(True,),
    sync_flush=(False,),
    producers=(1,),
    messages_each=(16,),
    pauses={"chance": (1.0,), "ms_max": (2000,)},
    cluster={"slaves": (1,), "slave_timeout_ms": (3000,)},
    network=None,
    disturbances={"paused_task_chance": (1.0,), "paused_task_ms_max": (500,)},
    settings={"ha_send_heartbeat_interval_ms": (5000,)},
)
def submit_without_lock(
    self: GroupTransfer, start_offset: int, end_offset: int, on_known: Callable[[], None] | None = None
) -> GroupTransferRequest:
    """A put waits for the next report although a slave reported its bytes just before the put was listed."""
    request = GroupTransferRequest(self._world, start_offset, end_offset, self._config.slave_timeout_ms, on_known)
    status = self._status_of(request)
    if status is not None:
        request.complete(status)
        return request
    with self._lock:
        bit(self._status_of(request) is PutMessageStatus.PUT_OK)
        self._requests.append(request)
    return request


# RocketMQ: alibaba/rocketmq issue 421.
@bug("sync-ends-wait-for-slave", PutWait, "poll", found_by=("REP",))
@needs(SCENARIOS["replica-prefix-of-master"].ranges, sync_flush=(True,), cluster={"sync_master": (True,)})
def poll_one(self: PutWait, now_ns: int) -> PutMessageResult | None:
    """A put that waits for a sync and for a slave is answered after the sync."""
    if self._flush is None:
        return poll_one.original(self, now_ns)
    flushed = self._flush.poll(now_ns)
    if flushed is None:
        return None
    bit(self._transfer is not None and self._transfer._status is not PutMessageStatus.PUT_OK)
    return self._combined_result(flushed, PutMessageStatus.PUT_OK)


@poll_one.also(PutWait, "wait")
def _wait_one(self: PutWait) -> PutMessageResult:
    if self._flush is None:
        return _wait_one.original(self)
    flushed = self._flush.wait()
    bit(self._transfer is not None and self._transfer._status is not PutMessageStatus.PUT_OK)
    return self._combined_result(flushed, PutMessageStatus.PUT_OK)
