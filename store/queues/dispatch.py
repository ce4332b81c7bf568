"""Dispatch service ("reput"): adds each log record to queues and index.

Under SYNC_FLUSH, dispatch stops at the durable end of the log, so no consumer reads a message that a power cut can
remove. In a queue with an extension, dispatch writes the unit before the entry that refers to it. It adds a message to
the message's own queue, then to its light queues. After all queues, listeners (RocketMQ's MessageArrivingListener)
answer pulls that wait for a message. Listeners must be fast, because they run in the dispatch task. An exception in a
listener is recorded, and affects neither other listeners nor dispatch.

With the C core, plain records are dispatched in batches: each dispatcher processes the whole batch before the next
dispatcher starts.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from ..config import BrokerRole, FlushDiskType, StoreConfig
from ..errors import CorruptFileError, MisplacedRecordError, StoreError, is_disk_full
from ..formats.columns import PlainRecords, Run
from ..formats.consume_queue import ENTRY_BYTES, ExtUnit, decode_entry
from ..formats.delay_level import SCHEDULE_TOPIC, entry_tags_code, record_tags_code
from ..formats.light_queues import LIGHT_MARK, light_records
from ..formats.message import QUEUE_OFFSET_AT, TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from ..formats.messages import is_storable_topic
from ..formats.properties import decode_properties
from ..formats.scan import ScannedRecord, scan_records
from ..log.commit_log import CommitLog
from ..log.segment import Segment
from ..marks import count_mark
from ..running_flags import RefusalReason, RunningFlags
from ..service import Service, do_nothing
from ..world import World
from .consume_queue import ConsumeQueue
from .consume_queue_table import ConsumeQueueTable

UNDISPATCHED = (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)
"""Dispatch adds records of these transaction types to no queue."""

RETRY_MS = 1_000
_RETRIES_MAX = 30
"""Maximum number of failed attempts at one log position, after which the store refuses puts."""


def is_queued(record: ScannedRecord) -> bool:
    return (
        record.sys_flag & TRANSACTION_MASK not in UNDISPATCHED
        and record.queue_id >= 0
        and is_storable_topic(record.topic)
    )


Dispatcher = Callable[[ScannedRecord], None]
"""Adds a record to the queues or the index (RocketMQ's CommitLogDispatcher)."""


PlainDispatcher = Callable[[PlainRecords], None]
"""A Dispatcher for a batch of plain records."""


ArrivingListener = Callable[[ScannedRecord], None]
"""Function to call with each record that consumers can now pull (RocketMQ's MessageArrivingListener)."""


class DispatchService(Service):
    """Passes each log record to all dispatchers, then to the listeners.

    Invariant: one process dispatches each record once, in log order, without gaps.
    """

    name = "dispatch"

    def __init__(
        self,
        world: World,
        config: StoreConfig,
        commit_log: CommitLog,
        queues: ConsumeQueueTable,
        flags: RunningFlags,
        delays_ms: Mapping[int, int],
    ) -> None:
        super().__init__(world)
        self.config = config
        self.reput_from = world.tasks.cell("reput from")
        self.dispatched_store_timestamp_ms = 0
        """Store time of the last dispatched record before the first skipped record. Set after the entry is written."""
        self.last_error: StoreError | OSError | None = None
        self.passed_over: CorruptFileError | None = None
        """Error of the last record that dispatch skipped because of an impossible queueOffset."""
        self.passed_over_count = 0
        self.dispatchers: list[Dispatcher] = [self.dispatch_to_queue]
        """Called in this order for every record, also for records that belong to no queue."""
        self.plain_dispatchers: dict[Dispatcher, PlainDispatcher] = {self.dispatch_to_queue: self._put_runs}
        """Batch versions of dispatchers. A dispatcher without a batch version is called for each record."""
        self.on_arriving: list[ArrivingListener] = []
        """Called after all dispatchers for each record that was added to a queue."""
        self.awaits: Callable[[str, int], bool] = _always_true
        """Whether any listener needs the messages of a topic's queue. Used only for batches."""
        self.waiting_bytes_max = 0
        self.on_scheduled: Callable[[], None] = do_nothing
        """Called after all dispatchers for each record of the schedule topic."""
        self._commit_log = commit_log
        self._queues = queues
        self._flags = flags
        self._is_sync_flush = config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._delays_ms = delays_ms
        self.failures = 0
        """Number of consecutive failures at log offset `failed_at`. A full disk resets the number."""
        self.failed_at = -1
        self._plain = None if world.core is None else PlainRecords(world.core)
        self._run_queues: list[ConsumeQueue] = []

    def readable_limit(self) -> int:
        """Return the log offset up to which consumers may read records."""
        queue = self._commit_log.queue
        if self._is_sync_flush:
            # RocketMQ also dispatches records that a power cut then removes.
            return queue.flushed_where.get()
        return queue.max_offset

    @property
    def behind_bytes(self) -> int:
        return self._commit_log.queue.max_offset - self.reput_from.get()

    def run_once(self) -> None:
        """Dispatch available records. After an error, pause; the next step retries."""
        try:
            moved = self.dispatch_available()
        except (StoreError, OSError) as error:
            count_mark("dispatch fails")
            self.last_error = error
            if is_disk_full(error):  # not counted as a failure, because the disk can get free space again
                self.failures = 0
            else:
                at = self.reput_from.get()
                self.failures = self.failures + 1 if at == self.failed_at else 1
                self.failed_at = at
            if self.failures >= _RETRIES_MAX:
                self._flags.refuse_until_restart(RefusalReason.WRITE_LOGICS_QUEUE_ERROR, f"dispatch failed: {error}")
            self.pause(RETRY_MS)
            return
        if not moved:
            self.signal.wait(None)

    def dispatch_available(self) -> bool:
        """Dispatch records of one segment. Returns whether dispatch advanced."""
        start = self.reput_from.get()
        limit = self.readable_limit()
        if start >= limit:
            return False
        if limit - start > self.waiting_bytes_max:
            self.waiting_bytes_max = limit - start
        log = self._commit_log.queue
        segment = log.segment_at_or_after(start)
        if segment is None:
            return False
        if segment.base_offset > start:  # true after a gap, or if the log of a slave began after offset 0
            self.reput_from.set(segment.base_offset)
            return True
        self._dispatch_segment(segment, start, min(segment.readable.get(), limit - segment.base_offset))
        return True

    def _dispatch_segment(self, segment: Segment, start: int, end: int) -> None:
        at, end_offset = start, segment.base_offset + end
        assert segment.base_offset <= at <= end_offset <= segment.end_offset, (segment.base_offset, at, end)
        read = self._scan_segment_records if self._plain is None else self._record_batches
        dispatchers, on_arriving = self.dispatchers, self.on_arriving
        try:
            for found in read(segment, start - segment.base_offset, end):
                if isinstance(found, ScannedRecord):
                    assert found.physical_offset == at, (found.physical_offset, at)
                    self._dispatch_record(segment, found, dispatchers, on_arriving)
                    at += found.size_bytes
                else:
                    self._dispatch_batch(segment, at - segment.base_offset, found)
                    at = segment.base_offset + found.end
                    # After an error, dispatch repeats the batch. Queues ignore records that they already contain.
                    self.reput_from.set(at)
        finally:
            self.reput_from.set(at)
        if at < end_offset:
            self.reput_from.set(segment.end_offset)  # a blank record closes the segment

    def _record_batches(self, segment: Segment, position: int, end: int) -> Iterator[PlainRecords | ScannedRecord]:
        plain = self._plain
        assert plain is not None
        view = segment.file.view(0, end)
        while position < end:
            count = 1
            if plain.scan(view, position, segment.base_offset, check_crc=False):
                assert position < plain.end <= end, (position, plain.end, end)
                self._run_queues = [self._queues.find_or_create(*plain.queues[run[0]]) for run in plain.runs()]
                if _do_runs_continue_queues(plain.runs(), self._run_queues):
                    yield plain
                    position = plain.end
                    continue
                count = plain.count
            before = position
            for record in islice(self._scan_segment_records(segment, position, end), count):
                yield record
                position += record.size_bytes
            if position == before:
                return

    def _scan_segment_records(self, segment: Segment, begin: int, end: int) -> Iterator[ScannedRecord]:
        view, file, base_offset = segment.file.view(0, segment.size_bytes), segment.file.path, segment.base_offset
        return scan_records(view, begin, end, file=file, base_offset=base_offset, check_crc=False)

    def _dispatch_record(
        self,
        segment: Segment,
        record: ScannedRecord,
        dispatchers: list[Dispatcher],
        on_arriving: list[ArrivingListener],
    ) -> None:
        for dispatch in dispatchers:
            try:
                dispatch(record)
            except MisplacedRecordError as error:
                self._skip_record(record, segment, error)
        if record.topic == SCHEDULE_TOPIC:
            self.on_scheduled()
        elif self._plain is not None and is_queued(record):
            self._plain.register_queue(record.topic, record.queue_id)
        if on_arriving and is_queued(record):
            for listener in on_arriving:
                listener(record)
        if self.passed_over is None:  # otherwise the checkpoint would cover a record that is not in its queue
            self.dispatched_store_timestamp_ms = record.store_timestamp_ms

    def _dispatch_batch(self, segment: Segment, begin: int, batch: PlainRecords) -> None:
        for dispatch in self.dispatchers:
            dispatch_batch = self.plain_dispatchers.get(dispatch)
            if dispatch_batch is not None:
                dispatch_batch(batch)
                continue
            for record in self._scan_segment_records(segment, begin, batch.end):
                try:
                    dispatch(record)
                except MisplacedRecordError as error:
                    self._skip_record(record, segment, error)
        if self.on_arriving:
            self._call_listeners(segment, begin, batch)
        if self.passed_over is None:
            self.dispatched_store_timestamp_ms = batch.column("store_timestamp_ms")[-1]

    def _call_listeners(self, segment: Segment, begin: int, batch: PlainRecords) -> None:
        awaited = {key for queue in self._run_queues if self.awaits(*(key := (queue.topic, queue.queue_id)))}
        for record in self._scan_segment_records(segment, begin, batch.end) if awaited else ():
            if (record.topic, record.queue_id) in awaited and is_queued(record):
                for listener in self.on_arriving:
                    listener(record)

    def _skip_record(self, record: ScannedRecord, segment: Segment, error: MisplacedRecordError) -> None:
        """Skip a record with an impossible queueOffset.

        The checkpoint does not advance past this record, so that the next recovery scans it again.
        """
        count_mark("record skipped by dispatch")
        position = record.physical_offset - segment.base_offset + QUEUE_OFFSET_AT
        field = f"queueOffset in {error.queue}"
        self.passed_over = CorruptFileError(segment.file.path, position, field, error.expected, error.found)
        self.passed_over_count += 1
        before_ms = record.store_timestamp_ms - 1
        self.dispatched_store_timestamp_ms = min(self.dispatched_store_timestamp_ms, before_ms)

    def dispatch_to_queue(self, record: ScannedRecord) -> None:
        if not is_queued(record):
            return
        queue = self._queues.find_or_create(record.topic, record.queue_id)
        code = entry_tags_code(record.topic, record.properties, record.store_timestamp_ms, self._delays_ms)
        queue.put(record.physical_offset, record.size_bytes, code, record.queue_offset)

    def _put_runs(self, plain: PlainRecords) -> None:
        for queue, (_, queue_offset, entries, _) in zip(self._run_queues, plain.runs(), strict=True):
            queue.put_run(queue_offset, entries)

    def finish_remaining_work(self) -> None:
        """Dispatch the remaining records. After an error, the next recovery dispatches them."""
        try:
            while self.dispatch_available():
                pass
        except (StoreError, OSError) as error:
            self.last_error = error


def _do_runs_continue_queues(runs: list[Run], queues: list[ConsumeQueue]) -> bool:
    ends: dict[int, tuple[int, int]] = {}
    for queue, (number, queue_offset, entries, _) in zip(queues, runs, strict=True):
        end, log_end = ends.get(number) or (queue.max_offset, queue.max_physical_offset)
        if queue_offset != end or not queue.queue.segments or decode_entry(entries, 0).physical_offset < log_end:
            return False
        last = decode_entry(entries, len(entries) - ENTRY_BYTES)
        ends[number] = queue_offset + len(entries) // ENTRY_BYTES, last.physical_offset + last.size_bytes
    return True


def _always_true(topic: str, queue_id: int) -> bool:
    return True


class ExtendedQueueDispatcher:
    """Dispatcher for queues with extensions. Replaces `DispatchService.dispatch_to_queue`."""

    def __init__(self, queues: ConsumeQueueTable, delays_ms: Mapping[int, int]) -> None:
        self.bit_map_of: Callable[[ScannedRecord], bytes] = lambda _: b""
        self._queues = queues
        self._delays_ms = delays_ms

    def dispatch(self, record: ScannedRecord) -> None:
        if not is_queued(record):
            return
        queue = self._queues.find_or_create(record.topic, record.queue_id)
        unit = ExtUnit(record_tags_code(record, self._delays_ms), record.store_timestamp_ms, self.bit_map_of(record))
        queue.put_extended(record.physical_offset, record.size_bytes, unit, record.queue_offset)


class LightQueueDispatcher:
    """Adds each record to its light queues."""

    def __init__(self, queues: ConsumeQueueTable, delays_ms: Mapping[int, int], *, lmq: bool) -> None:
        self._queues = queues
        self._delays_ms = delays_ms
        self._lmq = lmq

    def dispatch(self, record: ScannedRecord) -> None:
        if LIGHT_MARK not in record.properties or not is_queued(record):
            return
        code = record_tags_code(record, self._delays_ms)
        for light in light_records(record, lmq=self._lmq):
            queue = self._queues.find_or_create(light.topic, light.queue_id)
            queue.put(record.physical_offset, record.size_bytes, code, light.queue_offset)


class MessageArrival(NamedTuple):
    """A message that consumers can now pull."""

    topic: str
    queue_id: int
    next_offset: int
    tags_code: int
    store_timestamp_ms: int
    properties: Mapping[str, str]


MessageArrivingListener = Callable[[MessageArrival], None]
Awaits = Callable[[str, int], bool]
"""Returns whether a listener needs the messages of a topic's queue."""


class ArrivalNotifier:
    """The arrival listeners of one store. Dispatch calls the notifier only while it has listeners."""

    def __init__(self, config: StoreConfig, on_arriving: list[ArrivingListener], delays_ms: Mapping[int, int]) -> None:
        """on_arriving: `DispatchService.on_arriving`."""
        self.last_error: Exception | None = None
        self._config = config
        self._on_arriving = on_arriving
        self._delays_ms = delays_ms
        self._listeners: tuple[tuple[MessageArrivingListener, Awaits], ...] = ()

    def append(self, listener: MessageArrivingListener, awaits: Awaits = _always_true) -> None:
        """Add a listener. No effect on a slave. While long polling is off, dispatch calls no listener.

        Dispatch calls `awaits` once per batch and queue. It may call a listener even if the listener's `awaits` returns
        False.
        """
        if self._config.broker_role is BrokerRole.SLAVE:
            return
        if not self._listeners:
            self._on_arriving.append(self.notify)
        self._listeners = (*self._listeners, (listener, awaits))

    def remove(self, listener: MessageArrivingListener) -> None:
        listeners = list(self._listeners)
        del listeners[[one for one, _ in listeners].index(listener)]
        self._listeners = tuple(listeners)
        if not listeners:
            self._on_arriving.remove(self.notify)

    def awaits(self, topic: str, queue_id: int) -> bool:
        return self._config.long_polling_enable and any(awaits(topic, queue_id) for _, awaits in self._listeners)

    def notify(self, record: ScannedRecord) -> None:
        if not self._config.long_polling_enable:
            return
        properties = decode_properties(record.properties.decode(errors="surrogateescape"))
        place = record.topic, record.queue_id, record.queue_offset + 1
        code = record_tags_code(record, self._delays_ms)
        arrival = MessageArrival(*place, code, record.store_timestamp_ms, properties)
        arrivals = [arrival]
        if self._config.enable_multi_dispatch:
            arrivals += [
                arrival._replace(topic=light.topic, queue_id=light.queue_id, next_offset=light.queue_offset + 1)
                for light in light_records(record, lmq=self._config.enable_lmq)
            ]
        for each in arrivals:
            for listener, _ in self._listeners:
                try:
                    listener(each)
                except Exception as error:  # a listener's error must not affect dispatch
                    self.last_error = error
