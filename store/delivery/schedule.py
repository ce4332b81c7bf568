"""Delayed delivery: RocketMQ's ScheduleMessageService. Level n waits in queue n - 1 of the schedule topic.

An entry's tagsCode there is the time of delivery in ms. When it has come, a copy of the record is put to the topic and
queue it was meant for, as any message is. Progress, a queue offset per level, is in `config/delayOffset.json`:

    {"offsetTable": {<level>: <offset of the next entry to deliver>}}

Delivery is at least once and never early. Progress moves when a copy is stored, and is persisted only as far as the
copies are durable, so that a power cut cannot take a copy and leave the progress. The time is the log's (`log_time`),
as a copy is stored under no earlier one than it was due at. One task serves all levels and sleeps until the first
of their entries is due, or dispatch shows it a new one. Pipelined delivery (`enable_schedule_async_deliver`) is not
needed here, since a copy's put waits for no disk.
Source: RocketMQ ScheduleMessageService and its DeliverDelayedMessageTimerTask.
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
"""How long delivery waits after an error before it tries again."""
_SLEEP_MS_MAX = 1_000
"""How long the wall clock is not looked at while something waits: it may step forward."""


class ScheduleMessageService(Service):
    """The task that delivers, and its progress.

    Invariant: while it delivers, no level's progress moves back, nor does what of it is durable. What waits for the
    disk is in the order of the log.
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
        """Level -> queue offset of the next entry to deliver; levels that never had one are not in it."""
        self.passed_over = 0
        """Entries left undelivered: no record can be read there, it does not say where to, or fits nowhere any more."""
        self.last_answer = PutMessageStatus.PUT_OK
        """To the last copy that was put. One that cannot be stored now is put again, and holds back those behind it."""
        self.last_error: StoreError | OSError | None = None
        """What the last attempt to deliver or persist met; it is tried again."""
        self.file = SideFile(world.files, f"{config.config_directory}/delayOffset.json")
        self._config = config
        self._commit_log = commit_log
        self._queues = queues
        self._readable_limit = readable_limit
        self._delays_ms = delays_ms
        self._put = put
        self._durable: dict[int, int] = {}
        """What `offsets` was when the copies that were durable at the last look were the last."""
        self._undurable: deque[tuple[int, int, int]] = deque()
        """Log offset behind a copy, level, offset behind its entry: progress that waits for the disk, in log order."""
        self._is_persisted = True
        """Whether the last attempt to persist has succeeded: what it was about has left `_undurable`."""
        self._delivered_end = 0
        """Log offset behind the last copy."""
        self._corrected = False
        self._persist_due_ns = 0

    # -- progress ----------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the progress, brought into what recovery left of the queues. CorruptFileError if it cannot be read."""
        loaded = self.file.load(decoded_offsets)
        offsets = loaded or {}
        # RocketMQ does not clamp. If the queue lost messages, an offset beyond its end stops the level until as many
        # messages are put, and then skips them.
        self.offsets = {level: self._within_queue(level, offset) for level, offset in offsets.items()}
        self._corrected = self.offsets != offsets
        if self._corrected:
            hit("delivery progress clamped")
        self._durable = dict(self.offsets)
        if self.file.damage is not None:
            self._take_from_log()
        self._is_persisted = loaded is None or self.file.is_current  # what only the backup has is to be in both again

    def _take_from_log(self) -> None:
        """Take the progress that the copies in the log show, where the file or its backup shows less."""
        hit("delivery progress from the log")
        found = delivered_levels(self._commit_log, self._queues, self._delays_ms, self.offsets)
        for level, (offset, copy_end) in sorted(found.items(), key=lambda item: item[1].copy_end):
            if offset > self.offsets.get(level, 0):
                self.offsets[level] = offset
                self._delivered_end = copy_end  # never falls: the loop is in the order of the copies
                self._undurable.append((copy_end, level, offset))

    def _within_queue(self, level: int, offset: int) -> int:
        queue = self._queues.find(SCHEDULE_TOPIC, level - 1)
        if queue is None:
            return 0
        end = self._commit_log.topic_queue_table.get((SCHEDULE_TOPIC, level - 1), 0)  # files may lack entries up to it
        return min(max(offset, queue.min_offset), end)

    def persist_correction(self) -> None:
        """Make durable what `load` brought back. Raises OSError if the disk fails.

        Before any put: a queue that grew past the uncorrected offset would have entries in front that a crash skips.
        """
        if self._corrected:
            self.persist()
            self._corrected = False

    def persist(self) -> bool:
        """Make durable the progress whose copies are; return False if it is already. Raises OSError."""
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
        """Make durable the progress of the master, on a slave, which delivers nothing itself. Raises OSError."""
        self.offsets = dict(offsets)
        self._durable = dict(offsets)
        self.file.store(encoded_offsets(self._durable))

    def _persist_now_and_then(self) -> int:
        """Persist if the interval is over; return for how many ms it is not."""
        now_ns = self.world.clock.monotonic_ns()
        if now_ns >= self._persist_due_ns:
            self._persist_due_ns = now_ns + self._config.flush_delay_offset_interval_ms * 1_000_000
            self.try_to_persist()
        return -(-(self._persist_due_ns - now_ns) // 1_000_000)

    def try_to_persist(self) -> None:
        """Persist, or note why that failed: the progress is not lost, only delivered again after a crash."""
        try:
            self.persist()
        except OSError as error:
            self.last_error = error

    # -- delivering --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to deliver. The first interval of persisting begins too."""
        interval_ns = self._config.flush_delay_offset_interval_ms * 1_000_000
        self._persist_due_ns = self.world.clock.monotonic_ns() + interval_ns
        super().start()

    def step(self) -> None:
        """Deliver what is due, then sleep until something is, or the progress is to be persisted."""
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
        """Deliver every entry whose time has come; return in how many ms to look again, None if none waits."""
        waits_ms = [self._deliver_level(level) for level in self._delays_ms]
        return min((wait_ms for wait_ms in waits_ms if wait_ms is not None), default=None)

    def _deliver_level(self, level: int) -> int | None:
        queue = self._queues.find(SCHEDULE_TOPIC, level - 1)
        if queue is None:
            return None
        while not self.is_stopping:
            offset = max(self.offsets.get(level, 0), queue.min_offset)
            raw = queue.entries_from(offset)
            if not raw:  # or retention has removed them, and has not said yet where the queue begins
                return None if offset >= queue.max_offset else _RETRY_MS
            for at in range(0, len(raw), ENTRY_BYTES):
                entry = decode_entry(raw, at)
                is_there = is_valid(entry) or is_blank(entry)
                wait_ms = self._deliver_entry(level, entry) if is_there else self._pass_over_hole(queue, offset)
                if wait_ms:
                    return wait_ms
                offset += 1
                self._move_to(level, offset)  # not before: after a failed delivery the entry is tried again
                if self.is_stopping:
                    break
        return None

    def _move_to(self, level: int, offset: int) -> None:
        assert offset > self.offsets.get(level, 0), (level, offset, self.offsets)
        assert not self._undurable or self._undurable[-1][0] <= self._delivered_end, self._delivered_end
        self.offsets[level] = offset
        self._undurable.append((self._delivered_end, level, offset))

    def _deliver_entry(self, level: int, entry: QueueEntry) -> int:
        """Deliver one entry or pass it over, and return 0; else return in how many ms to look at it again."""
        record = None
        deliver_at_ms = entry.tags_code
        if deliver_at_ms < 0:  # leads to an extension of the queue; the record knows it as well
            record = self._record_of(entry)
            deliver_at_ms = 0 if record is None else self._delivery_time_of(record)
        now_ms = self._commit_log.time.now_ms()
        # What lies further ahead is no time that this level gives.
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
            return 0  # it waits for its decision by then, and what is committed is delayed by itself
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
        """Pass a message over that no record can hold, and return 0; else return in how many ms to put it again.

        It was put only because its copy could be, too: so the disk has changed it since. But if it is the body that is
        too long, so are the settings, and a later start may have others.
        """
        if not self.last_answer.is_final or len(message.body) > self._config.max_message_size:
            return _RETRY_MS
        self.passed_over += 1
        return 0

    def _pass_over_hole(self, queue: ConsumeQueue, offset: int) -> int:
        """Pass over a place without an entry, not even a blank one, and return 0; else as `_deliver_entry` does.

        If a sync has failed, recovery will find the entry. So it is asked first whether one fails that nobody has
        waited for; raises OSError if so. Else the disk has lost the entry, and no load is known to find it.
        """
        row = queue.queue
        if row.sync_error is None and not self._log_has_failed():
            row.sync_page(offset * ENTRY_BYTES)
        if row.sync_error is not None or self._log_has_failed():
            return _RETRY_MS
        self.passed_over += 1
        return 0

    def _log_has_failed(self) -> bool:
        """Return whether a failed sync may have taken records out of the page cache: then no more are put."""
        return self._commit_log.flush_service.flags.has_failed

    def _record_of(self, entry: QueueEntry) -> MessageRecord | None:
        if not is_valid(entry):
            return None
        return self._commit_log.record_at(entry.physical_offset, self._readable_limit())

    def _delivery_time_of(self, record: MessageRecord) -> int:
        properties = record.properties.encode(errors="surrogateescape")
        return entry_tags_code(record.topic, properties, record.store_timestamp_ms, self._delays_ms)


def encoded_offsets(offsets: Mapping[int, int]) -> bytes:
    """Return the bytes of `delayOffset.json`."""
    return encode_side_json({_TABLE: dict(sorted(offsets.items()))})


def decoded_offsets(raw: bytes, file: str) -> dict[int, int]:
    """Return what the bytes of `delayOffset.json` say. CorruptFileError names what is wrong with them."""
    return numbered_offsets(table_of(decode_side_json(raw, file=file), _TABLE, file=file), _TABLE, file=file)
