"""QUIET: after the last request and the last fault, every cursor reaches its target.

    cursor             its target                              time limit, by the settings
    commit             the end of the puts                     an interval of committing
    dispatch           the readable end                        no interval: puts wake it
    flush              the readable end                        an interval of the thorough flush, under ASYNC_FLUSH
    queues, checkpoint the dispatched end and its times        an interval of the thorough flush of queues, then
    index              the last record that has a key          as dispatch
    delay level        the end of its queue                    its delay, twice if the clock was set back
    delayOffset.json   each level                              an interval of persisting, then
    consumerOffset.json each group                             an interval of persisting
    half, op           the ends of their queues                two passes of the check, then the flush
    locks in memory    no full segment                         the time for which a full segment stays locked
    slave              its master's last record, reported      until a silence is noticed and another connection made

Each limit counts from the last change of the target, and includes the disk's time for the work. The caller waits, and
decides which disk errors permit a late cursor. After the last fault, no cursor may be late.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ....faults.disk.disk import Disk
from ....store.config import FlushDiskType
from ....store.delivery.schedule import encoded_offsets
from ....store.formats.checkpoint import CHECKPOINT_FILE_BYTES, decode_checkpoint
from ....store.formats.delay_level import SCHEDULE_TOPIC
from ....store.formats.half_message import QUEUE_ID
from ....store.formats.side_json import encode_side_json
from ....store.log.allocate import UNLOCK_AFTER_MS
from ....store.log.segment import Segment
from ....store.message_store import MessageStore
from ....store.replication.ha_client import CONNECT_MS, RECONNECT_MS
from ....store.services.consumer_offsets import ConsumerOffsetManager
from ....store.services.transaction_check import CHECK_GROUP, TransactionConfig
from ...claims.plan import Plan
from ..evidence import Violation, record_tried, services_text
from ..ledger import HALF_TOPIC, OP_TOPIC
from ..reader import Known, LogRecord, UnreadableError, indexed_keys, read_records
from . import live


class Cursor(NamedTuple):
    """The state of one cursor."""

    name: str
    service: str
    """The task that moves the cursor."""
    at: object
    end: object
    within_ms: int
    """The time limit since the last change of `end`."""
    file: str = ""

    @property
    def is_lagging(self) -> bool:
        return self.at != self.end


def check_cursor(cursor: Cursor, store: MessageStore, detail: str = "") -> Iterator[Violation]:
    assert cursor.is_lagging, cursor
    summary = f"{cursor.name} does not reach its target"
    known = "\n".join(filter(None, (services_text(store, cursor.service), detail)))
    facts = cursor.file, -1 if not cursor.file else 0, cursor.name, str(cursor.end), str(cursor.at)
    yield Violation("QUIET", summary, *facts, known)


# -- the log and the files derived from it ------------------------------------------------------------


def reading_cursors(store: MessageStore, plan: Plan, *, put_end: int, readable_end: int) -> Iterator[Cursor]:
    """Yield the cursors between a put and its readers: commit and dispatch. A position after its target is not late."""
    record_tried("QUIET")
    work_ms = live.work_ms_max(plan, store)
    if store.commit is not None:
        committed, within_ms = store.log.max_offset, work_ms + live.commit_ms_max(plan)
        yield Cursor("commit", store.commit.name, min(committed, put_end), put_end, within_ms)
    dispatched = min(store.dispatch.reput_from.get(), readable_end)
    yield Cursor("dispatch", store.dispatch.name, dispatched, readable_end, work_ms)


def flushing_cursors(store: MessageStore, plan: Plan, readings: Known) -> Iterator[Cursor]:
    """Yield the flush of the log: up to the readable end, or under SYNC_FLUSH to the end of its last record.

    Blank records of refused puts at the end of the log may stay unflushed until the next put.
    """
    end, flushed = store.log.max_offset, store.log.flushed_where.get()
    if store.config.flush_disk_type is FlushDiskType.SYNC_FLUSH and flushed < end:
        last = _last_record(store, readings)
        end = 0 if last is None else last.physical_offset + last.size_bytes
    yield Cursor("flush", store.flush.name, min(flushed, end), end, _durable_ms_max(store, plan))


def _durable_ms_max(store: MessageStore, plan: Plan) -> int:
    config, work_ms = store.config, live.work_ms_max(plan, store)
    if config.flush_disk_type is FlushDiskType.SYNC_FLUSH:
        return work_ms
    committed_ms = 0 if store.commit is None else live.commit_ms_max(plan)
    return committed_ms + config.flush_commit_log_thorough_interval_ms + config.flush_interval_commit_log_ms + work_ms


def derived_file_cursors(store: MessageStore, plan: Plan, disk: Disk, readings: Known) -> Iterator[Cursor]:
    """Yield the cursors of queues, checkpoint and index."""
    config = store.config
    work_ms, interval_ms = live.work_ms_max(plan, store), config.flush_consume_queue_thorough_interval_ms
    queues_ms = interval_ms + config.flush_interval_consume_queue_ms + work_ms
    service = store.flush_queues.name
    for queue in store.queues.all_queues():
        row = queue.queue
        if row.segments:
            name = f"queue {queue.topic}/{queue.queue_id}"
            yield Cursor(name, service, row.flushed_where.get(), row.max_offset, queues_ms)
    last = _last_record(store, readings)
    if last is not None and _is_put_after_load(store, last) and store.dispatch.passed_over is None:
        raw = disk.content(config.checkpoint_path)[:CHECKPOINT_FILE_BYTES]
        log_ms, queues_at_ms, _ = decode_checkpoint(raw, file=config.checkpoint_path)
        known_ms, path = last.store_timestamp_ms, config.checkpoint_path
        within_ms = _durable_ms_max(store, plan) + queues_ms
        # after the log lost its last records, the checkpoint is ahead until new records reach its times
        yield Cursor("physicMsgTimestamp", service, min(log_ms, known_ms), known_ms, within_ms, path)
        yield Cursor("logicsMsgTimestamp", service, min(queues_at_ms, known_ms), known_ms, within_ms, path)
    if store.index is not None:
        keyed = _last_record(store, readings, keyed=True)
        end = 0 if keyed is None else keyed.physical_offset
        indexed = min(store.index.last_update[1], end)  # the record may have been removed, and be after `end`
        yield Cursor("index", store.dispatch.name, indexed, end, 2 * work_ms)


def memory_cursors(store: MessageStore, plan: Plan, disk: Disk) -> Iterator[Cursor]:
    """Yield the locks of a warmed-up store: a segment that is full must not take memory from other segments."""
    locked, within_ms = disk.locked_paths(), UNLOCK_AFTER_MS + live.work_ms_max(plan, store)
    for segment in store.log.segments[:-1] if locked else ():
        path = segment.file.path
        if path in locked:
            yield Cursor(f"lock of {path}", store.allocate.name, "locked", "unlocked", within_ms, path)


def _is_put_after_load(store: MessageStore, record: LogRecord) -> bool:
    """As in RocketMQ, opening a store changes no time in the checkpoint."""
    return store.last_recovery is None or record.physical_offset >= store.last_recovery.end_offset


def _last_record(store: MessageStore, readings: Known, *, keyed: bool = False) -> LogRecord | None:
    for segment in reversed(store.log.segments):
        for record in reversed(list(_records(segment, readings))):
            if not keyed or indexed_keys(record):
                return record
    return None


def _records(segment: Segment, readings: Known) -> Iterator[LogRecord]:
    path, base_offset = segment.file.path, segment.base_offset
    view, end = segment.file.view(0, segment.size_bytes), segment.readable.get()
    try:
        for record, _ in read_records(view, end, file=path, base_offset=base_offset, known=readings):
            yield record
    except UnreadableError:
        return  # `check_log_prefix` reports the error


# -- files next to the log ---------------------------------------------------------------------------


def delivery_cursors(store: MessageStore, plan: Plan, disk: Disk) -> Iterator[Cursor]:
    schedule, work_ms = store.schedule, live.work_ms_max(plan, store)
    for queue in store.queues.all_queues():
        if queue.topic == SCHEDULE_TOPIC and queue.queue_id + 1 in store.delays_ms:
            level = queue.queue_id + 1
            at = max(schedule.offsets.get(level, 0), queue.min_offset)
            due_ms = 2 * store.delays_ms[level] + work_ms  # store times advance at least at half the speed of a clock
            yield Cursor(f"delay level {level}", schedule.name, at, queue.max_offset, due_ms)
    if schedule.offsets:
        path, within_ms = schedule.file.path, _durable_ms_max(store, plan) + work_ms
        wanted, found = (
            _without_white_space(encoded_offsets(schedule.offsets)),
            _without_white_space(disk.content(path)),
        )
        within_ms += store.config.flush_delay_offset_interval_ms
        yield Cursor("progress of delivery", schedule.name, found, wanted, within_ms, path)


def consumer_progress_cursors(
    store: MessageStore, plan: Plan, disk: Disk, offsets: ConsumerOffsetManager, interval_ms: int
) -> Iterator[Cursor]:
    path, found = offsets.file.path, _without_white_space(disk.content(offsets.file.path))
    if any(offsets.json_members.values()):
        within_ms = interval_ms + live.work_ms_max(plan, store)
        wanted = _without_white_space(encode_side_json(offsets.json_members))
        yield Cursor("progress of groups", offsets.name, found, wanted, within_ms, path)


def _without_white_space(raw: bytes) -> bytes:
    """Remove white space, because the store does not repair damage that turns one white space into another."""
    return raw.translate(None, b" \t\n\r")


def transaction_cursors(
    store: MessageStore, plan: Plan, offsets: ConsumerOffsetManager, config: TransactionConfig
) -> Iterator[Cursor]:
    """Yield the cursors of the transaction check in half messages and ops, after the last transaction has ended."""
    within_ms = 2 * config.transaction_check_interval_ms + _durable_ms_max(store, plan) + live.work_ms_max(plan, store)
    within_ms += live.clock_ms_max(plan)
    for topic, name in ((HALF_TOPIC, "half messages"), (OP_TOPIC, "ops")):
        end = store.get_max_offset_in_queue(topic, QUEUE_ID)
        if end and store.log.min_offset == 0:  # otherwise the check may have no message left and not move
            at = offsets.query_offset(CHECK_GROUP, topic, QUEUE_ID)
            yield Cursor(f"check of {name}", "transaction check", at, end, within_ms)


# -- slaves ------------------------------------------------------------------------------------------


def replication_cursors(
    service: str, host: str, slave: MessageStore, master: MessageStore, reports: Sequence[int], within_ms: int
) -> Iterator[Cursor]:
    """Yield the cursors of a slave's log and of its report to the present master.

    A slave does not receive a blank record at the end of the log, which recovery of the master would truncate. The
    slave's log may have such a blank record if a crash lost the records after it.
    """
    end = master.log.max_offset
    has_all = slave.log.max_offset == end
    if not has_all and end % master.log.segment_bytes == 0 and (last := _last_record(master, {})) is not None:
        end = last.physical_offset + last.size_bytes
    if master.log.min_offset == end and not (slave.log.max_offset >= end and slave.log.segments):
        return  # the master has no record to send, for example because all have expired
    yield Cursor(f"log of {host}", service, slave.log.max_offset, end, within_ms)
    yield Cursor(f"report of {host}", service, end if end in reports else -1, end, within_ms)


def following_ms_max(slave: MessageStore, plan: Plan, master_end: int) -> int:
    """Return the time limit for a slave to catch up with its master, or to notice that it cannot.

    If no heartbeat arrives in time, the slave notices a lost connection. The slave connects again after the timeouts of
    the lost connection and of an attempt in progress. Two heartbeats then confirm that the master has no more data.
    Each received frame may be synced.
    """
    config = slave.config
    frames = master_end // plan.cluster.transfer_batch_bytes + len(slave.log.segments)
    noticed_ms = config.ha_housekeeping_interval_ms + CONNECT_MS + RECONNECT_MS
    latency_ms = plan.network.latency_us_max // 1_000
    work_ms = live.work_ms_max(plan, slave) + frames * (plan.sync_ms_max + latency_ms)
    return noticed_ms + 2 * config.ha_send_heartbeat_interval_ms + work_ms
