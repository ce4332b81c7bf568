"""Bugs of replication between masters and slaves: reports, streams and dispatch."""

from ....store.config import FlushDiskType
from ....store.errors import DivergedError, MisplacedRecordError
from ....store.formats.replication import encode_frame_header
from ....store.formats.scan import ScannedRecord
from ....store.log.allocate import AllocateMappedFileService
from ....store.log.group_transfer import GroupTransfer, Replica
from ....store.log.segment_queue import SegmentQueue
from ....store.message_store import MessageStore
from ....store.network import Connection
from ....store.queues.consume_queue import ConsumeQueue
from ....store.recovery.recovery import Recovery, RecoveryReport
from ....store.replication.ha_client import HAClient
from ....store.replication.ha_service import HAConnection
from ....store.replication.replica_log import ReplicaLog
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.clusters import CLUSTER, RECONNECTS, TROUBLED
from ..mutant import bit, bug, needs


# The master acknowledges new puts before it sends them to a slave.
@bug("ha-ack-beyond-master", HAConnection, "_process_first_report", found_by=("REP", "DUR"))
@needs(
    CLUSTER,
    sync_flush=(False,),
    lives=(2, 3),
    endings=("crash in traffic", "crash at rest"),
    disk=("strict-posix", "ext4-ordered", "xfs", "btrfs"),
    cluster={"slaves": (1,), "sync_master": (True,), "gathers": (True,)},
)
def trust_first_report(self: HAConnection, report: int) -> bool:
    """A master that lost the end of its log treats an offset report of a slave with a longer log as an acknowledgement
    of new puts."""
    if report <= self._readable_limit():
        return trust_first_report.original(self, report)
    bit()
    self._sent.set(report)
    self._began.set(report)
    self._reported.set(report)
    if self._group_transfer is not None:
        self._group_transfer.add_replica(self)
        self._group_transfer.complete_reported_requests(self)
    self._send_bytes(encode_frame_header(report, 0))
    self._tasks.append(self._world.tasks.spawn(f"ha-writer-{self.number}", self._send_frames))
    return True


@trust_first_report.also(HAConnection, "has_range")
def _has_by_any_report(self: HAConnection, start_offset: int, end_offset: int) -> bool:
    return end_offset <= self._reported.get()


# No checksum covers queueOffset. Filling the queue up to a wrong queueOffset exhausts memory or disk.
@bug("slave-dispatch-unbounded", ConsumeQueue, "_check_queue_offset", found_by=("LIVE", "QUIET", "CQ-COMPLETE"))
@needs(CLUSTER, cluster={"flipped_bit_chance": (0.5,)})
def check_place_from_below(self: ConsumeQueue, queue_offset: int, following: int, physical_offset: int) -> None:
    """A replicated record with a flipped bit in its queueOffset ends the slave's dispatch."""
    bit(queue_offset > following)
    if queue_offset < following:
        raise MisplacedRecordError(f"{self.topic}/{self.queue_id}", f"{following} or more", queue_offset)


# After a power cut the logs differ, so the slave stops replication.
@bug("unflushed-data-sent-to-slave", HAConnection, "_send_next_frame", found_by=("REP",))
@needs(CLUSTER, sync_flush=(True,))
def send_what_is_written(self: HAConnection) -> bool:
    """Under sync flush, a slave receives data that a crash of its master can lose."""
    at, durable_to = self._sent.get(), self._readable_limit()
    limit = self._log.max_offset
    if at >= limit:
        return False
    segment = self._log.find(at)
    if segment is None:
        self.close(f"log offset {at}, which was to be sent next, has left the log")
        return True
    position, batch_bytes = at - segment.base_offset, self._config.ha_transfer_batch_size
    end = min(position + batch_bytes, limit - segment.base_offset, segment.size_bytes)
    data = bytes(segment.file.view(position, end))
    bit(at + len(data) > durable_to)
    self._sent.set(at + len(data))
    self._send_bytes(encode_frame_header(at, len(data)) + data)
    return True


@bug("slave-reports-undurable", HAClient, "_durable_log_offset", found_by=("REP", "DUR"))
@needs(CLUSTER, cluster={"slave_sync_flush": (True,)})
def written_offset(self: HAClient) -> int:
    """A slave with sync flush acknowledges data that is only in its page cache."""
    log = self._store.log
    end_offset = log.max_offset
    bit(log.flushed_where.get() < end_offset and self._config.flush_disk_type is FlushDiskType.SYNC_FLUSH)
    return end_offset


# Found by the cluster swarm: RocketMQ masters treat the start offset of a slave as an acknowledgement of durable data.
@bug("slave-begins-at-undurable", ReplicaLog, "start_stream", found_by=("REP",))
@needs(TROUBLED, cluster={"slave_sync_flush": (True,)}, messages_each=(16,), faults={"failed_sync_chance": (0.1,)})
def begin_at_last_record(self: ReplicaLog, kept_offset: int) -> int:
    """A slave with sync flush starts replication at an offset after data that may not be durable."""
    begin = begin_at_last_record.original(self, self._log.max_offset)
    bit(begin > max(kept_offset, self._log.min_offset, 1))
    return begin


@bug("ended-slave-drops-others", GroupTransfer, "remove_replica", found_by=("QUIET", "REP"))
@needs(TROUBLED, heals=(True,), cluster={"slaves": (2,), "sync_master": (True,)})
def gone_with_all_others(self: GroupTransfer, replica: Replica) -> None:
    """After one slave disconnects, the master ignores acknowledgements of other slaves until they reconnect."""
    with self._lock:
        bit(len(self.replicas) > (replica in self.replicas))
        self.replicas = ()


# Found by the cluster swarm: the next load treats the empty first file as the end of the log.
@bug("early-segments-left", AllocateMappedFileService, "remove_segments_before", found_by=("CQ-VALID", "REP", "START"))
@needs(
    TROUBLED,
    commit_log_bytes=(1024,),
    messages_each=(16,),
    lives=(1, 2),
    faults={"failed_map_chance": (0.3,), "slow_sync_chance": (0.5,), "slow_sync_ms_max": (12_000,)},
)
def leave_early_segments(self: AllocateMappedFileService, base_offset: int) -> bool:
    """A slave that restarts replication at a later offset keeps its empty preallocated segments."""
    bit(any(early < base_offset for early in self._requests))
    return True


# Found by the cluster swarm.
@bug("early-leftover-left", SegmentQueue, "expendable_files_before", found_by=("START", "REP"))
@needs(
    TROUBLED,
    commit_log_bytes=(1024,),
    messages_each=(16,),
    lives=(1, 2),
    faults={"failed_extend_chance": (0.3, 0.6), "failed_removal_chance": (0.3, 0.6)},
)
def leave_early_leftovers(self: SegmentQueue, base_offset: int) -> list[int]:
    """A slave that begins at a later offset keeps an empty file, because its creation and its removal had failed."""
    bit(bool(leave_early_leftovers.original(self, base_offset)))
    return []


def _log_nothing(master: str, error: DivergedError) -> None:
    bit()


# Without the log message, only the slave's runtime state shows the stop.
@bug("slave-diverges-in-silence", HAClient, "_replicate_from", found_by=("REP",))
@needs(CLUSTER, lives=(2, 3), heals=(True,), cluster={"slaves": (1,)})
def follow_in_silence(self: HAClient, connection: Connection, replica: ReplicaLog, address: str) -> None:
    """A slave with a log that differs from its master's stops replication without a log message."""
    self.on_diverged = _log_nothing
    follow_in_silence.original(self, connection, replica, address)


# A slave that connected late has only the last file of its master's log.
@bug("promoted-slave-counts-entries", MessageStore, "recover", found_by=("REP",))
@needs(
    TROUBLED,
    commit_log_bytes=(1024,),
    messages_each=(12,),
    cluster={"gathers": (False,)},
    network={"refused_chance": (0.2,), "broken_chance": (0.1,)},
)
def recover_and_count_entries(self: MessageStore, *, clean_exit: bool) -> RecoveryReport:
    """As the new master, a slave with queues that begin after offset 0 gives new messages the offsets of older ones."""
    report = recover_and_count_entries.original(self, clean_exit=clean_exit)
    table = self.commit_log.topic_queue_table
    for queue in self.queues.all_queues():
        key, first = (queue.topic, queue.queue_id), queue.min_offset
        if bit(first > 0 and key in table):
            table[key] -= first
    return report


# Recovery truncates this blank record, so the slave's log is then longer than its master's.
@bug("blank-sent-at-log-end", HAConnection, "_send_next_frame", found_by=("REP",))
@needs(CLUSTER)
def send_blank_at_end(self: HAConnection) -> bool:
    """A master sends the blank record that ends a segment before the next segment has data."""
    at, limit = self._sent.get(), self._readable_limit()
    segment = self._log.find(at)
    if segment is None or not bit(segment.blank_from <= at < limit == segment.end_offset):
        return send_blank_at_end.original(self)
    end = min(at + self._config.ha_transfer_batch_size, limit)
    data = bytes(segment.file.view(at - segment.base_offset, end - segment.base_offset))
    self._sent.set(end)
    self._send_bytes(encode_frame_header(at, len(data)) + data)
    return True


# A crash of the master can lose this blank record. The slave then has the longer log, and stops replication.
@bug("slave-appends-last-blank", ReplicaLog, "_append_whole_records", found_by=("REP",))
@needs(CLUSTER, cluster={"transfer_batch_bytes": (64,)})
def append_with_blank(self: ReplicaLog) -> bool:
    """A slave appends the blank record that ends a segment before it has the next record."""
    has_grown = append_with_blank.original(self)
    if bit(bool(self._blank)):
        blank, self._blank = self._blank, b""
        stored_ms = self._commit_log.last_store_timestamp_ms
        has_grown = self._commit_log.append_replicated(self._log.max_offset, blank, stored_ms)
    return has_grown


@bug("slave-recovers-last-blank", Recovery, "_cut_last_blank", found_by=("REP",))
@needs(CLUSTER, lives=(2, 3), disk=("strict-posix", "ext4-ordered", "xfs", "btrfs"))
def keep_last_blank(self: Recovery) -> None:
    """After a crash that lost all records of its last segment, a slave keeps the blank record before this segment."""
    end = self._report.end_offset
    bit(any(segment.end_offset == end for segment in self._log.segments))


# RocketMQ 4.x resets dispatchPosition and byteBufferRead in HAClient.closeMaster.
@bug("half-record-kept", ReplicaLog, "start_stream", found_by=("REP",))
@needs(RECONNECTS)
def start_with_rest(self: ReplicaLog, kept_offset: int) -> int:
    """If a connection ends within a record, the slave keeps the first part, and stops for good in the next stream."""
    pending, padding = self._pending, self._padding
    requested = start_with_rest.original(self, kept_offset)
    if bit(len(pending) > padding):
        self._pending, self._padding = pending, padding
    return requested


# apache/rocketmq issue 3388.
@bug("divergence-kept-for-new-master", HAClient, "update_master_address", found_by=("REP", "QUIET"))
@needs(SCENARIOS["replica-ahead-of-master"].ranges, heals=(True,), cluster={"slaves": (2,), "gathers": (True,)})
def update_address_only(self: HAClient, address: str) -> None:
    """A slave that stopped because of a different log does not follow the next master either."""
    diverged = self.diverged
    update_address_only.original(self, address)
    if bit(diverged is not None and self.diverged is None):
        self.diverged = diverged


# RocketMQ: apache/rocketmq issue 3661.
@bug("far-slave-gets-newest-segment", HAConnection, "_process_first_report", found_by=("REP",))
@needs(SCENARIOS["replication-network-faults"].ranges)
def begin_in_newest_segment(self: HAConnection, report: int) -> bool:
    """A slave that lags by more than a segment gets the log from the begin of the newest segment, and cannot follow."""
    end, first = self._readable_limit(), max(self._log.min_offset, 0)
    begin = max(report, (end - 1) // self._log.segment_bytes * self._log.segment_bytes, first)
    if not first <= report <= end or not bit(begin > report > 0):
        return begin_in_newest_segment.original(self, report)
    answer = begin_in_newest_segment.original(self, begin)
    self._reported.set(report)
    return answer


# RocketMQ: apache/rocketmq issue 3388.
@bug("reconnect-compares-first-record", ReplicaLog, "_append", found_by=("REP",))
@needs(RECONNECTS)
def append_unnoted(self: ReplicaLog, offset: int, records: bytes, last: ScannedRecord | None) -> None:
    """A slave that connects again compares its log from the record on that was the last one when it started."""
    known = self._last_record
    append_unnoted.original(self, offset, records, last)
    vars(self)["_newest"], self._last_record = self._last_record, known


@append_unnoted.also(ReplicaLog, "start_stream")
def _start_at_old_record(self: ReplicaLog, kept_offset: int) -> int:
    bit(vars(self).get("_newest", self._last_record) != self._last_record)
    return _start_at_old_record.original(self, kept_offset)
