"""Delayed delivery: puts a copy of each delayed message when it is due.

RocketMQ's ScheduleMessageService. Messages of delay level n are in queue n - 1 of the schedule topic. There the
tagsCode of an entry is the delivery time in ms. When a message is due, the service puts a copy to the message's
original topic and queue. `config/delayOffset.json` contains the progress, a queue offset per level:

    {"offsetTable": {<level>: <offset of the next entry to deliver>}}

Each message is delivered at least once and never early. Progress advances when a copy is in the log, but the file gets
only progress up to the last durable copy. Otherwise a power cut could remove a copy that the file counts as delivered.
The clock is log time (`log_time`), so a copy's store time is never before its delivery time. One task serves all
levels. Source: RocketMQ ScheduleMessageService and its DeliverDelayedMessageTimerTask.
"""

from collections import deque
from collections.abc import Callable, Mapping

from ..config import StoreConfig
from ..errors import StoreError
from ..formats.consume_queue import ENTRY_BYTES, QueueEntry, decode_entry, is_blank, is_valid
from ..formats.delay_level import SCHEDULE_TOPIC, entry_tags_code
from ..formats.half_message import HALF_TOPIC
from ..formats.message import MessageRecord
from ..formats.messages import Message, PutMessageResult, PutMessageStatus
from ..formats.redirect import message_to_deliver
from ..formats.side_json import decode_side_json, encode_side_json, numbered_offsets, table_of
from ..log.commit_log import CommitLog
from ..marks import count_mark, is_forced
from ..queues.consume_queue import ConsumeQueue
from ..queues.consume_queue_table import ConsumeQueueTable
from ..service import Service
from ..side_file import SideFile
from ..world import World
from .delivered_copies import delivered_levels

_TABLE = "offsetTable"
_RETRY_MS = 100  # RocketMQ ScheduleMessageService.DELAY_FOR_A_WHILE
RETRY_AFTER_ERROR_MS = 10_000  # RocketMQ ScheduleMessageService.DELAY_FOR_A_PERIOD
_SLEEP_MS_MAX = 1_000
"""Maximum sleep while an entry waits. The sleep is short because the wall clock may step forward."""


class ScheduleMessageService(Service):
    """Delivers delayed messages, and keeps the progress.

    Invariant: delivery never decreases a level's progress or durable progress. `_undurable` is in log order.
    """

    name = "schedule"

    def __init__(
        self,
        world: World,
        config: StoreConfig,
        commit_log: CommitLog,
        queues: ConsumeQueueTable,
        readable_limit: Callable[[], int],
        delays_ms: Mapping[int, int],
        put: Callable[[Message], PutMessageResult],
    ) -> None:
        super().__init__(world)
        self.offsets: dict[int, int] = {}
        """Queue offset of the next entry to deliver, by delay level. Unused levels are missing."""
        self.passed_over = 0
        """Number of skipped entries: the record is unreadable, has no valid target or became too large."""
        self.last_answer = PutMessageStatus.PUT_OK
        """Status of the last put of a copy. A refused copy is retried before later copies of the same level."""
        self.last_error: StoreError | OSError | None = None
        """Last error of a delivery or a write of the progress, both of which are retried."""
        self.file = SideFile(world.files, f"{config.config_directory}/delayOffset.json")
        self._config = config
        self._commit_log = commit_log
        self._queues = queues
        self._readable_limit = readable_limit
        self._delays_ms = delays_ms
        self._put = put
        self._durable: dict[int, int] = {}
        """Progress by delay level up to the last copy that was durable at the last check."""
        self._undurable: deque[tuple[int, int, int]] = deque()
        """(end offset in the log, level, next queue offset) of each copy that is not durable yet, in log order."""
        self._is_persisted = True
        self._delivered_end = 0
        self._corrected = False
        self._persist_due_ns = 0

    # -- progress ----------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the progress, and limit it to the recovered queues. Raises CorruptFileError for an unreadable file."""
        loaded = self.file.load(decoded_offsets)
        offsets = loaded or {}
        # RocketMQ does not limit the progress. If a queue lost messages, an offset after its end blocks the level until
        # the queue reaches this offset, and the new messages before it are skipped.
        self.offsets = {level: self._limit_offset_to_queue(level, offset) for level, offset in offsets.items()}
        self._corrected = self.offsets != offsets
        if self._corrected:
            count_mark("delivery progress clamped")
        self._durable = dict(self.offsets)
        if self.file.damage is not None:
            self._advance_to_logged_copies()
        # Progress from the backup must be written again, so that both files contain it.
        self._is_persisted = loaded is None or self.file.is_current

    def _advance_to_logged_copies(self) -> None:
        count_mark("delivery progress rebuilt")
        found = delivered_levels(self._commit_log, self._queues, self._delays_ms, self.offsets)
        for level, (offset, copy_end) in sorted(found.items(), key=lambda item: item[1].copy_end):
            if offset > self.offsets.get(level, 0):
                self.offsets[level] = offset
                self._delivered_end = copy_end  # the copies are sorted, so this offset increases
                self._undurable.append((copy_end, level, offset))

    def _limit_offset_to_queue(self, level: int, offset: int) -> int:
        queue = self._queues.find(SCHEDULE_TOPIC, level - 1)
        if queue is None:
            return 0
        # The end is from the counter, because queue files may lack the last entries.
        end = self._commit_log.topic_queue_table.get((SCHEDULE_TOPIC, level - 1), 0)
        return min(max(offset, queue.min_offset), end)

    def persist_correction(self) -> None:
        """Persist progress that `load` reduced. Call this before the first put.

        Otherwise the old offset could skip entries after a put and a crash, or after a read of the backup. Raises
        OSError if the disk fails.
        """
        if self._corrected:
            self.persist()
            self._corrected = False

    def persist(self) -> bool:
        """Persist the progress up to the last durable copy. Returns False if the file is current. May raise OSError."""
        flushed_where = self._commit_log.queue.flushed_where.get()
        while self._undurable and self._undurable[0][0] <= flushed_where:
            _, level, offset = self._undurable.popleft()
            assert offset >= self._durable.get(level, 0), (level, offset, self._durable)
            self._durable[level] = offset
            self._is_persisted = False
        store = self.file.store_alone if self._corrected else self.file.store
        stored = store(encoded_offsets(self._durable))
        self._is_persisted = True
        return stored

    def take_over(self, offsets: Mapping[int, int]) -> None:
        """On a slave, which does not deliver, persist the master's progress. May raise OSError."""
        self.offsets = dict(offsets)
        self._durable = dict(offsets)
        self.file.store(encoded_offsets(self._durable))

    def _persist_if_due(self) -> int:
        """Persist the progress if due. Returns the ms until it is due again."""
        now_ns = self.world.clock.monotonic_ns()
        if now_ns >= self._persist_due_ns:
            self._persist_due_ns = now_ns + self._config.flush_delay_offset_interval_ms * 1_000_000
            self.try_to_persist()
        return -(-(self._persist_due_ns - now_ns) // 1_000_000)

    def try_to_persist(self) -> None:
        """Persist the progress; record an error instead of raising it. A crash then causes repeated deliveries."""
        try:
            self.persist()
        except OSError as error:
            self.last_error = error

    # -- delivering --------------------------------------------------------------------------------

    def start(self) -> None:
        interval_ns = self._config.flush_delay_offset_interval_ms * 1_000_000
        self._persist_due_ns = self.world.clock.monotonic_ns() + interval_ns
        super().start()

    def run_once(self) -> None:
        try:
            wait_ms = self.deliver_due()
        except (StoreError, OSError) as error:
            self.last_error = error
            wait_ms = RETRY_AFTER_ERROR_MS
        if self._undurable or not self._is_persisted:
            until_persist_ms = self._persist_if_due()
            wait_ms = until_persist_ms if wait_ms is None else min(wait_ms, until_persist_ms)
        self.signal.wait(wait_ms)

    def deliver_due(self) -> int | None:
        """Deliver all due messages. Returns the ms until the next check, None if no entry waits."""
        waits_ms = [self._deliver_level(level) for level in self._delays_ms]
        return min((wait_ms for wait_ms in waits_ms if wait_ms is not None), default=None)

    def _deliver_level(self, level: int) -> int | None:
        queue = self._queues.find(SCHEDULE_TOPIC, level - 1)
        if queue is None:
            return None
        while not self.is_stopping:
            offset = max(self.offsets.get(level, 0), queue.min_offset)
            raw = queue.entries_from(offset)
            if not raw:  # also true if retention removed the entries and has not moved the queue's start yet
                return None if offset >= queue.max_offset else _RETRY_MS
            for at in range(0, len(raw), ENTRY_BYTES):
                entry = decode_entry(raw, at)
                exists = is_valid(entry) or is_blank(entry)
                wait_ms = self._deliver_entry(level, entry) if exists else self._skip_or_retry_hole(queue, offset)
                if wait_ms:
                    return wait_ms
                offset += 1
                self._advance_level(level, offset)  # the progress advances last, so a failed delivery is retried
                if self.is_stopping:
                    break
        return None

    def _advance_level(self, level: int, offset: int) -> None:
        assert offset > self.offsets.get(level, 0), (level, offset, self.offsets)
        assert not self._undurable or self._undurable[-1][0] <= self._delivered_end, self._delivered_end
        self.offsets[level] = offset
        self._undurable.append((self._delivered_end, level, offset))

    def _deliver_entry(self, level: int, entry: QueueEntry) -> int:
        """Deliver or skip one entry. Returns 0, or else the ms until the next attempt."""
        record = None
        deliver_at_ms = entry.tags_code
        if deliver_at_ms < 0:  # an address in the extension, so the record gives the time
            record = self._record_of(entry)
            deliver_at_ms = 0 if record is None else self._delivery_time_of(record)
        now_ms = self._commit_log.time.now_ms()
        # A delivery time after now plus the delay of the level is corrupt.
        if now_ms < deliver_at_ms <= now_ms + self._delays_ms[level]:  # else RocketMQ's correctDeliverTimestamp
            return min(deliver_at_ms - now_ms, _SLEEP_MS_MAX)
        record = record or self._record_of(entry)
        message = None if record is None else message_to_deliver(record)
        if message is None:
            if self._has_log_failed():
                return _RETRY_MS
            self.passed_over += 1
            return 0
        if message.topic == HALF_TOPIC:
            return 0  # a half message waits for the commit, which delays it again
        if is_forced("delivery fails"):
            count_mark("delivery fails")
            return _RETRY_MS
        self.last_answer, stored = self._put(message)
        if stored is None:
            count_mark("delivery fails")
            return self._skip_or_retry_refused(message)
        end_offset = stored.wrote_offset + stored.wrote_bytes
        assert stored.wrote_bytes > 0, stored.wrote_bytes
        assert end_offset > self._delivered_end, (end_offset, self._delivered_end)
        self._delivered_end = end_offset
        return 0

    def _skip_or_retry_refused(self, message: Message) -> int:
        """Skip a message that fits into no record and return 0; otherwise return the ms until the next attempt.

        The original put checked that the copy fits, so the record was corrupted on the disk. A too long body is
        retried, because a later start may raise a reduced size limit again.
        """
        if not self.last_answer.is_final or len(message.body) > self._config.max_message_size:
            return _RETRY_MS
        self.passed_over += 1
        return 0

    def _skip_or_retry_hole(self, queue: ConsumeQueue, offset: int) -> int:
        """Skip a missing entry and return 0; after a failed sync, return the ms until the next attempt.

        After a failed sync, recovery will restore the entry. Without a failed sync, the disk has lost it permanently.
        To detect a failure that was not reported yet, this method syncs the page, which may raise OSError.
        """
        segment_queue = queue.queue
        if segment_queue.sync_error is None and not self._has_log_failed():
            segment_queue.sync_page(offset * ENTRY_BYTES)
        if segment_queue.sync_error is not None or self._has_log_failed():
            return _RETRY_MS
        self.passed_over += 1
        return 0

    def _has_log_failed(self) -> bool:
        """Return whether a failed sync may have removed records from the page cache."""
        return self._commit_log.flush_service.flags.has_failed

    def _record_of(self, entry: QueueEntry) -> MessageRecord | None:
        if not is_valid(entry):
            return None
        return self._commit_log.record_at(entry.physical_offset, self._readable_limit())

    def _delivery_time_of(self, record: MessageRecord) -> int:
        properties = record.properties.encode(errors="surrogateescape")
        return entry_tags_code(record.topic, properties, record.store_timestamp_ms, self._delays_ms)


def encoded_offsets(offsets: Mapping[int, int]) -> bytes:
    return encode_side_json({_TABLE: dict(sorted(offsets.items()))})


def decoded_offsets(raw: bytes, file: str) -> dict[int, int]:
    return numbered_offsets(table_of(decode_side_json(raw, file=file), _TABLE, file=file), _TABLE, file=file)
