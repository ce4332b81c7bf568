"""Retention service: removes expired log segments, then queue and index files.

Messages are removed even if no consumer has read them. Even if the disk is full, a segment is removed only after it is
dispatched and the segment and its queue entries are durable. Without these entries, recovery could not restore the
counters of the queues. Queue and index files are removed only after the removal of their records is durable.

Reaction to disk usage:

    used                                   reaction
    over disk_space_warning_level_ratio    refuse puts until usage is below the next ratio; delete at once
    over disk_space_clean_forcibly_ratio   delete at once, regardless of age
    over disk_max_used_space_ratio         delete expired segments at any hour

If the log uses several disks, the disk with the most free space counts. The disk of the queues is measured separately.
Source: RocketMQ CleanCommitLogService, isSpaceToDelete, CleanConsumeQueueService.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from ..config import StoreConfig
from ..formats.consume_queue import is_valid
from ..formats.delay_level import SCHEDULE_TOPIC
from ..formats.half_message import HALF_TOPIC, OP_TOPIC
from ..log.commit_log import CommitLog
from ..log.segment import Segment
from ..log.segment_queue import SegmentQueue, try_used_ratio
from ..marks import count_mark
from ..queues.consume_queue import ConsumeQueue
from ..queues.consume_queue_table import ConsumeQueueTable
from ..queues.flush_queues import FlushConsumeQueueService
from ..running_flags import RefusalReason, RunningFlags
from ..service import Service
from ..world import Cell, Files, World

SEGMENTS_PER_PASS = 10  # RocketMQ MappedFileQueue.DELETE_FILES_BATCH_MAX
_HOUR_MS = 3_600_000
MANUAL_PASSES = 20  # RocketMQ CleanCommitLogService.MAX_MANUAL_DELETE_FILE_TIMES
"""Number of passes that a manual request affects, whether or not they remove files."""

# The intervals of DefaultMessageStore.addScheduleTask.
FIRST_CHECK_MS = 1_000
CHECK_INTERVAL_MS = 10_000
FIRST_CLEAN_MS = 60_000

_NUMBERED_ELSEWHERE = (SCHEDULE_TOPIC, HALF_TOPIC, OP_TOPIC)
"""Topics with queues that never restart at offset 0: delivery progress and op messages contain their offsets."""
_PERCENT_MIN, _PERCENT_MAX = 10, 95  # RocketMQ MessageStoreConfig.getDiskMaxUsedSpaceRatio


class RemovalPressure(NamedTuple):
    """The removals that the disk usage requires."""

    delete: bool
    """Delete expired segments at any hour."""
    at_once: bool
    """Delete segments of any age, oldest first."""


class DiskWatermark:
    """Measures disk usage, and sets and clears DISK_FULL, which commit and load also set."""

    def __init__(self, files: Files, config: StoreConfig, flags: RunningFlags) -> None:
        self._files = files
        self._config = config
        self._flags = flags
        self._log_directories = config.commit_log_directories
        self._queue_directory = config.consume_queue_directory

    def measure_pressure(self) -> RemovalPressure:
        """Measure all disks once. If the usage of a disk is unknown, only expired segments are deleted.

        DISK_FULL is cleared only if the usage of all disks is known.
        """
        config = self._config
        of_log = [try_used_ratio(self._files, path) for path in self._log_directories]
        of_queues = try_used_ratio(self._files, self._queue_directory)
        is_known = of_queues is not None and None not in of_log
        log_ratio = min((ratio for ratio in of_log if ratio is not None), default=0.0)
        highest = max(log_ratio, of_queues or 0.0)
        assert 0 <= highest <= 1, (of_log, of_queues)
        if highest > config.disk_space_warning_level_ratio:
            self._flags.add_refusal(RefusalReason.DISK_FULL)
        elif is_known and highest <= config.disk_space_clean_forcibly_ratio:
            self._flags.clear_refusal(RefusalReason.DISK_FULL)
        percent = min(max(config.disk_max_used_space_ratio, _PERCENT_MIN), _PERCENT_MAX)
        return RemovalPressure(
            delete=not is_known or highest > percent / 100, at_once=highest > config.disk_space_clean_forcibly_ratio
        )


@dataclass(slots=True, eq=False)
class CleanCommitLog:
    """Removes expired segments, oldest first. Each removal is durable before the next one starts."""

    _world: World
    _config: StoreConfig
    _log: SegmentQueue
    _watermark: DiskWatermark
    _flush_queues: FlushConsumeQueueService
    _pause: Callable[[int], bool]
    """Sleeps for the given ms, and returns False if the service is stopping."""
    _manual: Cell = field(init=False)
    _stuck: int | None = field(default=None, init=False)
    _stuck_since_ns: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._manual = self._world.tasks.cell("manual deletions")

    def delete_manually(self) -> None:
        self._manual.set(MANUAL_PASSES)

    def remove_expired(self) -> int:
        """Do one pass. Returns the number of removed segments. After an OSError, a later pass retries."""
        pressure = self._watermark.measure_pressure()
        manual = self._manual.get() > 0
        if manual:
            left = self._manual.add(-1)  # `set` could overwrite a concurrent request
            assert 0 <= left < MANUAL_PASSES, left
        if manual or pressure.delete or self._is_delete_time():
            return self._delete_segments(pressure)
        return self._retry_failed_removals()

    def _is_delete_time(self) -> bool:
        clock = self._world.clock
        hours = map(int, self._config.delete_when.split(";"))
        return (clock.now_ms() + clock.utc_offset_ms()) // _HOUR_MS % 24 in hours

    def _delete_segments(self, pressure: RemovalPressure) -> int:
        at_once = pressure.at_once and self._config.clean_file_forcibly_enable
        removed = 0
        while removed < SEGMENTS_PER_PASS:
            segments = self._log.segments
            if len(segments) < 2 or not (at_once or self._has_expired(segments[0])):
                break
            if removed and not self._pause(self._config.delete_commit_log_files_interval_ms):
                break
            if not self._remove_first():
                break
            removed += 1
        return removed

    def _has_expired(self, segment: Segment) -> bool:
        """Return whether a segment has expired. A missing file counts as expired."""
        status = self._world.files.status(segment.file.path)
        reserved_ms = self._config.file_reserved_time_hours * _HOUR_MS
        return status is None or self._world.clock.now_ms() >= status.mtime_ms + reserved_ms

    def _remove_first(self) -> bool:
        first, *others = self._log.segments
        assert others, "the last segment must stay"
        if self._flush_queues.durable_to.get() < first.end_offset:
            self._flush_queues.request_full_flush()
            return False
        try:
            removed = self._log.remove_first()
        except OSError:
            count_mark("expired segment not removed")
            self._stuck, self._stuck_since_ns = first.base_offset, self._world.clock.monotonic_ns()
            raise
        self._stuck = None
        if removed:
            count_mark("segment expired")
        return removed

    def _retry_failed_removals(self) -> int:
        """Retry a failed removal after the retry interval (RocketMQ's retryDeleteFirst)."""
        if self._stuck is None or self._stuck != self._log.min_offset:
            return 0
        waited_ns = self._world.clock.monotonic_ns() - self._stuck_since_ns
        if waited_ns < self._config.redelete_hanged_file_interval_ms * 1_000_000:
            return 0
        return int(self._remove_first())


Expirer = Callable[[int], object]
"""Removes data that refers to log offsets before the argument. May raise OSError."""


@dataclass(eq=False)
class CleanConsumeQueue:
    """Removes expired segments of queues, and on request whole queues."""

    _config: StoreConfig
    _log: SegmentQueue
    _commit_log: CommitLog
    _queues: ConsumeQueueTable
    _pause: Callable[[int], bool]
    """See `CleanCommitLog`."""
    expirers: list[Expirer] = field(default_factory=list, init=False)
    """Called after the removal of queue segments, to remove other data that refers to the log."""
    _cleaned_to: int = field(default=0, init=False)

    def remove_expired(self) -> None:
        """Do one pass if the start of the log has moved since the last complete pass.

        After an OSError the pass continues with other files, then raises the last error. The next pass retries.
        """
        log_min_offset = self._log.min_offset
        if log_min_offset <= self._cleaned_to:
            return
        failure: OSError | None = None
        whole = True
        for queue in self._queues.all_queues():
            try:
                removed = queue.remove_expired_segments(log_min_offset)
            except OSError as error:
                failure = error
                continue
            whole = whole and not queue.has_expired_segment(log_min_offset)
            if removed and not self._pause(self._config.delete_consume_queue_files_interval_ms):
                return
        for expire in self.expirers:
            try:
                expire(log_min_offset)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure
        if whole:  # otherwise the next pass repeats the work, even if the start of the log does not move
            self._cleaned_to = log_min_offset

    def remove_expired_queues(self) -> None:
        """Remove the queues without messages in the log. The next message of such a queue gets offset 0.

        Keeps queues with a message that is not dispatched yet, and queues of delayed messages and transactions. Raises
        OSError if a removal fails.
        """
        log_min_offset = self._log.min_offset
        for queue in self._queues.all_queues():
            end = queue.max_offset  # read before the newest entry, because other tasks may add entries
            newest = queue.entry(end - 1)
            if newest is None or not is_valid(newest) or is_numbered_elsewhere(queue.topic):
                continue
            if newest.physical_offset >= log_min_offset:
                continue
            self._remove_queue(queue, end)

    def _remove_queue(self, queue: ConsumeQueue, end: int) -> None:
        """Under the put lock, remove one queue if it still ends at `end`.

        Without the lock, a concurrent put could be dispatched to the removed queue. Raises OSError if a removal fails
        or may not be durable. If the error left no file, the queue still restarts at offset 0.
        """
        failure: OSError | None = None

        def remove() -> bool:
            nonlocal failure
            try:
                queue.remove()
            except OSError as error:
                failure = error
                if queue.queue.segments:
                    return False
            self._queues.forget_queue(queue)
            return True

        # During this removal, no other task may sync the directories.
        with self._queues.names_lock:
            gone = self._commit_log.forget_queue(queue.topic, queue.queue_id, end, remove)
        if failure is not None:
            raise failure
        if gone:
            count_mark("queue removed")
            with suppress(OSError):  # a directory that is empty or has new files does no harm
                self._queues.remove_directories(queue)


def is_numbered_elsewhere(topic: str) -> bool:
    return topic in _NUMBERED_ELSEWHERE


class RetentionService(Service):
    """Measures the disks and removes expired files, each at its own interval."""

    name = "retention"

    def __init__(
        self,
        world: World,
        config: StoreConfig,
        commit_log: CommitLog,
        queues: ConsumeQueueTable,
        flags: RunningFlags,
        flush_queues: FlushConsumeQueueService,
    ) -> None:
        super().__init__(world)
        self.last_error: OSError | None = None
        self.watermark = DiskWatermark(world.files, config, flags)
        log = commit_log.queue
        self.log = CleanCommitLog(world, config, log, self.watermark, flush_queues, self._pause_or_end)
        self.queues = CleanConsumeQueue(config, log, commit_log, queues, self._pause_or_end)
        self._interval_ns = config.clean_resource_interval_ms * 1_000_000
        self._pass_lock = world.tasks.lock("retention pass")
        self._check_ns = self._clean_ns = 0

    def start(self) -> None:
        """Start the service. It measures the disks first after 1 s, and removes files first after 60 s."""
        now_ns = self.world.clock.monotonic_ns()
        self._check_ns = now_ns + FIRST_CHECK_MS * 1_000_000
        self._clean_ns = now_ns + FIRST_CLEAN_MS * 1_000_000
        super().start()

    def delete_manually(self) -> None:
        """Start a pass. MANUAL_PASSES passes, including this one, delete at any hour (RocketMQ's admin command)."""
        self.log.delete_manually()
        self._clean_ns = 0
        self.wake()

    def run_once(self) -> None:
        clock = self.world.clock
        left_ns = min(self._check_ns, self._clean_ns) - clock.monotonic_ns()
        if left_ns > 0:
            self.signal.wait(-(-left_ns // 1_000_000))  # rounded up, because a wait of 0 ms would make a busy loop
        if self.is_stopping:
            return
        now_ns = clock.monotonic_ns()
        if now_ns >= self._clean_ns:
            self._clean_ns = now_ns + self._interval_ns  # set first, because `delete_manually` may reset it
            self.run_clean_pass()
        if now_ns >= self._check_ns:
            self._check_ns = now_ns + CHECK_INTERVAL_MS * 1_000_000
            self.watermark.measure_pressure()

    def run_clean_pass(self) -> None:
        with self._pass_lock:
            for run in (self.log.remove_expired, self.queues.remove_expired):
                try:
                    run()
                except OSError as error:
                    self.last_error = error

    def remove_expired_queues(self) -> None:
        """Raises OSError if a removal fails."""
        with self._pass_lock:
            self.queues.remove_expired_queues()

    def _pause_or_end(self, ms: int) -> bool:
        self.pause(ms)
        return not self.is_stopping
