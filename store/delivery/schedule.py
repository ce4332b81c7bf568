"""Delayed delivery: puts a copy of each delayed message when it is due.

RocketMQ's ScheduleMessageService. Level n waits in queue n - 1 of the schedule topic, where an entry's tagsCode is the
delivery time in ms. When due, a copy of the record is put to its original topic and queue like any message. Progress, a
queue offset per level, is in `config/delayOffset.json`:

    {"offsetTable": {<level>: <offset of the next entry to deliver>}}

Delivery is at least once and never early. Progress advances when a copy is stored, but is persisted only up to the
durable copies: otherwise a power cut could remove a copy and keep the progress. The clock is log time (`log_time`), so
that a copy's store time is not before its due time. One task serves all levels and sleeps until an entry is due or
dispatch reports a new one. Pipelined delivery (`enable_schedule_async_deliver`) is not needed, because the put of a
copy does not wait for the disk. Source: RocketMQ ScheduleMessageService and its DeliverDelayedMessageTimerTask.
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
from ..formats.redirect import delivered
from ..formats.side_json import decode_side_json, encode_side_json, numbered_offsets, table_of
from ..log.commit_log import CommitLog
from ..marks import forces, hit
from ..queues.consume_queue import ConsumeQueue
from ..queues.consume_queue_table import ConsumeQueueTable
from ..service import Service
from ..side_file import SideFile
from ..world import World
from .delivered_copies import delivered_levels

_TABLE = "offsetTable"
_RETRY_MS = 100  # RocketMQ ScheduleMessageService.DELAY_FOR_A_WHILE
RETRY_AFTER_ERROR_MS = 10_000  # RocketMQ ScheduleMessageService.DELAY_FOR_A_PERIOD
"""Pause after an error."""
_SLEEP_MS_MAX = 1_000
"""Longest sleep while an entry waits, because the wall clock may step forward."""


class ScheduleMessageService(Service):
    """The delivery task and its progress.

    Invariant: during delivery neither a level's progress nor its durable progress decreases. Progress that waits for
    the disk is in log order.
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
        """Level -> queue offset of the next entry to deliver. Unused levels are missing."""
        self.passed_over = 0
        """Skipped entries: the record is unreadable, has no valid target, or does not fit any more."""
        self.last_answer = PutMessageStatus.PUT_OK
        """Answer to the last put of a copy. A refused copy is retried and blocks its level."""
        self.last_error: StoreError | OSError | None = None
        """Last error of delivery or persisting; both are retried."""
        self.file = SideFile(world.files, f"{config.config_directory}/delayOffset.json")
        self._config = config
        self._commit_log = commit_log
        self._queues = queues
        self._readable_limit = readable_limit
        self._delays_ms = delays_ms
        self._put = put
        self._durable: dict[int, int] = {}
        """Progress up to the copies that were durable at the last check."""
        self._undurable: deque[tuple[int, int, int]] = deque()
        """Progress that waits for the disk, in log order: end of the copy in the log, level, next queue offset."""
        self._is_persisted = True
        """Whether the last persist succeeded. Its progress is no longer in `_undurable`."""
        self._delivered_end = 0
        self._corrected = False
        self._persist_due_ns = 0

    # -- progress ----------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the progress and clamp it to the recovered queues. Raises CorruptFileError if it is unreadable."""
        loaded = self.file.load(decoded_offsets)
        offsets = loaded or {}
        # RocketMQ does not clamp. If a queue lost messages, an offset beyond its end blocks the level until as many
        # messages are put, and then skips them.
        self.offsets = {level: self._within_queue(level, offset) for level, offset in offsets.items()}
        self._corrected = self.offsets != offsets
        if self._corrected:
            hit("delivery progress clamped")
        self._durable = dict(self.offsets)
        if self.file.damage is not None:
            self._take_from_log()
        self._is_persisted = loaded is None or self.file.is_current  # the backup's progress goes into both files

    def _take_from_log(self) -> None:
        """Advance progress to what the copies in the log prove."""
        hit("delivery progress from the log")
        found = delivered_levels(self._commit_log, self._queues, self._delays_ms, self.offsets)
        for level, (offset, copy_end) in sorted(found.items(), key=lambda item: item[1].copy_end):
            if offset > self.offsets.get(level, 0):
                self.offsets[level] = offset
                self._delivered_end = copy_end  # never decreases, because copies are sorted
                self._undurable.append((copy_end, level, offset))

    def _within_queue(self, level: int, offset: int) -> int:
        queue = self._queues.find(SCHEDULE_TOPIC, level - 1)
        if queue is None:
            return 0
        end = self._commit_log.topic_queue_table.get((SCHEDULE_TOPIC, level - 1), 0)  # files may lack the last entries
        return min(max(offset, queue.min_offset), end)

    def persist_correction(self) -> None:
        """Persist progress that `load` clamped. Raises OSError if the disk fails.

        Must precede all puts: if a queue grew past the old offset, a crash would skip entries.
        """
        if self._corrected:
            self.persist()
            self._corrected = False

    def persist(self) -> bool:
        """Persist the progress of durable copies. Returns False if the file is current. May raise OSError."""
        flushed_where = self._commit_log.queue.flushed_where.get()
        while self._undurable and self._undurable[0][0] <= flushed_where:
            _, level, offset = self._undurable.popleft()
            assert offset >= self._durable.get(level, 0), (level, offset, self._durable)
            self._durable[level] = offset
            self._is_persisted = False
        stored = self.file.store(encoded_offsets(self._durable))
        self._is_persisted = True
        return stored

    def take_over(self, offsets: Mapping[int, int]) -> None:
        """Persist the master's progress on a slave, which does not deliver. May raise OSError."""
        self.offsets = dict(offsets)
        self._durable = dict(offsets)
        self.file.store(encoded_offsets(self._durable))

    def _persist_now_and_then(self) -> int:
        """Persist if the interval has passed. Returns the ms until the next time."""
        now_ns = self.world.clock.monotonic_ns()
        if now_ns >= self._persist_due_ns:
            self._persist_due_ns = now_ns + self._config.flush_delay_offset_interval_ms * 1_000_000
            self.try_to_persist()
        return -(-(self._persist_due_ns - now_ns) // 1_000_000)

    def try_to_persist(self) -> None:
        """Persist, or record the error. Unpersisted progress only means repeated delivery after a crash."""
        try:
            self.persist()
        except OSError as error:
            self.last_error = error

    # -- delivering --------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the task and the first persist interval."""
        interval_ns = self._config.flush_delay_offset_interval_ms * 1_000_000
        self._persist_due_ns = self.world.clock.monotonic_ns() + interval_ns
        super().start()

    def step(self) -> None:
        """Deliver due entries, then sleep until the next delivery or persist."""
        try:
            wait_ms = self.deliver_due()
        except (StoreError, OSError) as error:
            self.last_error = error
            wait_ms = RETRY_AFTER_ERROR_MS
        if self._undurable or not self._is_persisted:
            until_persist_ms = self._persist_now_and_then()
            wait_ms = until_persist_ms if wait_ms is None else min(wait_ms, until_persist_ms)
        self.signal.wait(wait_ms)

    def deliver_due(self) -> int | None:
        """Deliver all due entries. Returns the ms until the next check, None if no entry waits."""
        waits_ms = [self._deliver_level(level) for level in self._delays_ms]
        return min((wait_ms for wait_ms in waits_ms if wait_ms is not None), default=None)

    def _deliver_level(self, level: int) -> int | None:
        queue = self._queues.find(SCHEDULE_TOPIC, level - 1)
        if queue is None:
            return None
        while not self.is_stopping:
            offset = max(self.offsets.get(level, 0), queue.min_offset)
            raw = queue.entries_from(offset)
            if not raw:  # or retention removed them and has not yet moved the queue's start
                return None if offset >= queue.max_offset else _RETRY_MS
            for at in range(0, len(raw), ENTRY_BYTES):
                entry = decode_entry(raw, at)
                is_there = is_valid(entry) or is_blank(entry)
                wait_ms = self._deliver_entry(level, entry) if is_there else self._pass_over_hole(queue, offset)
                if wait_ms:
                    return wait_ms
                offset += 1
                self._move_to(level, offset)  # not earlier: after a failed delivery the entry is tried again
                if self.is_stopping:
                    break
        return None

    def _move_to(self, level: int, offset: int) -> None:
        assert offset > self.offsets.get(level, 0), (level, offset, self.offsets)
        assert not self._undurable or self._undurable[-1][0] <= self._delivered_end, self._delivered_end
        self.offsets[level] = offset
        self._undurable.append((self._delivered_end, level, offset))

    def _deliver_entry(self, level: int, entry: QueueEntry) -> int:
        """Deliver or skip one entry and return 0, else return the ms until the next attempt."""
        record = None
        deliver_at_ms = entry.tags_code
        if deliver_at_ms < 0:  # an address in the queue's extension; the record has the time too
            record = self._record_of(entry)
            deliver_at_ms = 0 if record is None else self._delivery_time_of(record)
        now_ms = self._commit_log.time.now_ms()
        # A time further ahead than the level's delay is corrupt.
        if now_ms < deliver_at_ms <= now_ms + self._delays_ms[level]:  # else correctDeliverTimestamp
            return min(deliver_at_ms - now_ms, _SLEEP_MS_MAX)
        record = record or self._record_of(entry)
        message = None if record is None else delivered(record)
        if message is None:
            if self._log_has_failed():
                return _RETRY_MS
            self.passed_over += 1
            return 0
        if message.topic == HALF_TOPIC:
            return 0  # it already waits for its decision; the committed message is delayed separately
        if forces("delivery fails"):
            hit("delivery fails")
            return _RETRY_MS
        self.last_answer, stored = self._put(message)
        if stored is None:
            hit("delivery fails")
            return self._after_refusal(message)
        end_offset = stored.wrote_offset + stored.wrote_bytes
        assert stored.wrote_bytes > 0, stored.wrote_bytes
        assert end_offset > self._delivered_end, (end_offset, self._delivered_end)
        self._delivered_end = end_offset
        return 0

    def _after_refusal(self, message: Message) -> int:
        """Skip a message that no record can hold and return 0, else return the ms until the next put.

        The message was accepted only because its copy fitted, so the disk has changed it since. A body that is too long
        may be due to changed settings, which a later start may undo, so it is retried.
        """
        if not self.last_answer.is_final or len(message.body) > self._config.max_message_size:
            return _RETRY_MS
        self.passed_over += 1
        return 0

    def _pass_over_hole(self, queue: ConsumeQueue, offset: int) -> int:
        """Skip an index without any entry and return 0, else return the ms until the next attempt.

        After a failed sync, recovery will restore the entry. To detect an unreported failure, the page is synced first;
        this may raise OSError. Otherwise the disk has lost the entry and no load can restore it.
        """
        row = queue.queue
        if row.sync_error is None and not self._log_has_failed():
            row.sync_page(offset * ENTRY_BYTES)
        if row.sync_error is not None or self._log_has_failed():
            return _RETRY_MS
        self.passed_over += 1
        return 0

    def _log_has_failed(self) -> bool:
        """Return whether a failed sync may have removed records from the page cache. The store then refuses puts."""
        return self._commit_log.flush_service.flags.has_failed

    def _record_of(self, entry: QueueEntry) -> MessageRecord | None:
        if not is_valid(entry):
            return None
        return self._commit_log.record_at(entry.physical_offset, self._readable_limit())

    def _delivery_time_of(self, record: MessageRecord) -> int:
        properties = record.properties.encode(errors="surrogateescape")
        return entry_tags_code(record.topic, properties, record.store_timestamp_ms, self._delays_ms)


def encoded_offsets(offsets: Mapping[int, int]) -> bytes:
    """Encode `delayOffset.json`."""
    return encode_side_json({_TABLE: dict(sorted(offsets.items()))})


def decoded_offsets(raw: bytes, file: str) -> dict[int, int]:
    """Decode `delayOffset.json`. CorruptFileError names the error."""
    return numbered_offsets(table_of(decode_side_json(raw, file=file), _TABLE, file=file), _TABLE, file=file)
