"""Retention service: removes log segments whose time is over, then what leads to their messages.

One task keeps the store from outgrowing its disk. It does not matter whether messages were consumed. But a segment
stays, however full the disk is, until it is durable, dispatched, and what its records added to their queues is durable
too: from then on nothing needs it, not even a recovery, which without it could not know how far a queue had counted.
Queues and index follow the log and never lead it: entries go only after the removal of their records is durable.

How full the disks are, and what follows:

    used                                   what follows
    over disk_space_warning_level_ratio    puts are refused until it is back under the next mark; delete at once
    over disk_space_clean_forcibly_ratio   delete at once, whatever its age
    over disk_max_used_space_ratio         delete what has expired, whatever the hour

The log may lie on several disks: the one with the most room counts. The queues' disk counts on its own.
Source: RocketMQ CleanCommitLogService, isSpaceToDelete, CleanConsumeQueueService.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from ..config import StoreConfig
from ..formats.consume_queue import is_valid
from ..formats.delay_level import SCHEDULE_TOPIC
from ..formats.half_message import HALF_TOPIC, OP_TOPIC
from ..log.commit_log import CommitLog
from ..log.segment import Segment
from ..log.segment_queue import SegmentQueue, used_ratio_if_known
from ..marks import hit
from ..queues.consume_queue import ConsumeQueue
from ..queues.consume_queue_table import ConsumeQueueTable
from ..queues.flush_queues import FlushConsumeQueueService
from ..running_flags import Refusal, RunningFlags
from ..service import Service
from ..world import Files, World

SEGMENTS_PER_PASS = 10  # RocketMQ MappedFileQueue.DELETE_FILES_BATCH_MAX
_HOUR_MS = 3_600_000
MANUAL_PASSES = 20  # RocketMQ CleanCommitLogService.MAX_MANUAL_DELETE_FILE_TIMES
"""How many passes a request to delete lasts for, be they in vain."""

# The periods of DefaultMessageStore.addScheduleTask.
FIRST_CHECK_MS = 1_000
CHECK_INTERVAL_MS = 10_000
FIRST_CLEAN_MS = 60_000

_NUMBERED_ELSEWHERE = (SCHEDULE_TOPIC, HALF_TOPIC, OP_TOPIC)
"""Topics whose queues never begin again at 0: progress goes by their numbers, and ops name half messages by them."""
_PERCENT_MIN, _PERCENT_MAX = 10, 95  # RocketMQ MessageStoreConfig.getDiskMaxUsedSpaceRatio


class Pressure(NamedTuple):
    """What the disks ask for."""

    delete: bool
    """To delete what has expired, now."""
    at_once: bool
    """To delete whatever there is, the oldest first."""


class DiskWatermark:
    """Measures, and sets and takes back DISK_FULL. A commit or a load that meets no room sets it, too."""

    def __init__(self, files: Files, config: StoreConfig, flags: RunningFlags) -> None:
        self._files = files
        self._config = config
        self._flags = flags
        self._log_directories = config.commit_log_directories
        self._queue_directory = config.consume_queue_directory

    def measure(self) -> Pressure:
        """Measure once. A disk that does not say how full it is asks for what has expired, and for no more.

        Nor does it take DISK_FULL back: that is for all of them to do.
        """
        config = self._config
        of_log = [used_ratio_if_known(self._files, path) for path in self._log_directories]
        of_queues = used_ratio_if_known(self._files, self._queue_directory)
        is_known = of_queues is not None and None not in of_log
        log_ratio = min((ratio for ratio in of_log if ratio is not None), default=0.0)
        most = max(log_ratio, of_queues or 0.0)
        if most > config.disk_space_warning_level_ratio:
            self._flags.refuse(Refusal.DISK_FULL)
        elif is_known and most <= config.disk_space_clean_forcibly_ratio:
            self._flags.allow(Refusal.DISK_FULL)
        percent = min(max(config.disk_max_used_space_ratio, _PERCENT_MIN), _PERCENT_MAX)
        return Pressure(
            delete=not is_known or most > percent / 100, at_once=most > config.disk_space_clean_forcibly_ratio
        )


class CleanCommitLog:
    """Decides when, and removes the oldest segments, one after the other, each durably before the next."""

    def __init__(
        self,
        world: World,
        config: StoreConfig,
        log: SegmentQueue,
        watermark: DiskWatermark,
        flush_queues: FlushConsumeQueueService,
        pause: Callable[[int], bool],
    ) -> None:
        """pause waits, and says False if there is to be an end."""
        self._world = world
        self._config = config
        self._log = log
        self._watermark = watermark
        self._flush_queues = flush_queues
        self._pause = pause
        self._manual = world.tasks.cell("manual deletions")
        self._stuck: int | None = None
        """Where the segment begins whose file would not go."""
        self._stuck_since_ns = 0

    def delete_manually(self) -> None:
        """Have the next passes delete what has expired, whatever the hour."""
        self._manual.set(MANUAL_PASSES)

    def run(self) -> int:
        """Do one pass; return how many segments went. Raises OSError if one did not, and a later pass goes on there."""
        pressure = self._watermark.measure()
        manual = self._manual.get() > 0
        if manual:
            left = self._manual.add(-1)  # `set` could lose a request that came since
            assert 0 <= left < MANUAL_PASSES, left
        if manual or pressure.delete or self._is_time():
            return self._delete(pressure)
        return self._retry_stuck()

    def _is_time(self) -> bool:
        clock = self._world.clock
        hours = map(int, self._config.delete_when.split(";"))
        return (clock.now_ms() + clock.utc_offset_ms()) // _HOUR_MS % 24 in hours

    def _delete(self, pressure: Pressure) -> int:
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
        """Return whether a file was last changed that long ago; one that is gone already has."""
        status = self._world.files.status(segment.file.path)
        reserved_ms = self._config.file_reserved_time_hours * _HOUR_MS
        return status is None or self._world.clock.now_ms() >= status.mtime_ms + reserved_ms

    def _remove_first(self) -> bool:
        """Remove the first segment unless it is still needed; a later pass then finds that it is not."""
        first, *others = self._log.segments
        assert others, "the last segment stays"
        # Not before its queue entries are durable: after a crash no file would say how far the queues had counted.
        if self._flush_queues.durable_to.get() < first.end_offset:
            self._flush_queues.hurry()
            return False
        try:
            removed = self._log.remove_first()
        except OSError:
            hit("stuck segment")
            self._stuck, self._stuck_since_ns = first.base_offset, self._world.clock.monotonic_ns()
            raise
        self._stuck = None
        if removed:
            hit("segment expired")
        return removed

    def _retry_stuck(self) -> int:
        """Try again, every so often, to remove the segment that would not go: RocketMQ's retryDeleteFirst."""
        if self._stuck is None or self._stuck != self._log.min_offset:
            return 0
        waited_ns = self._world.clock.monotonic_ns() - self._stuck_since_ns
        if waited_ns < self._config.redelete_hanged_file_interval_ms * 1_000_000:
            return 0
        return int(self._remove_first())


Expirer = Callable[[int], object]
"""Removes what leads to log offsets below the one it is given. Raises OSError if it cannot."""


class CleanConsumeQueue:
    """Removes expired segments of queues, and whole queues when asked to."""

    def __init__(
        self,
        config: StoreConfig,
        log: SegmentQueue,
        commit_log: CommitLog,
        queues: ConsumeQueueTable,
        pause: Callable[[int], bool],
    ) -> None:
        """pause waits, and says False if there is to be an end."""
        self.expirers: list[Expirer] = []
        """Who else has something that leads into the log, to be called after the queues."""
        self._config = config
        self._log = log
        self._commit_log = commit_log
        self._queues = queues
        self._pause = pause
        self._cleaned_to = 0

    def run(self) -> None:
        """Do one pass if the log has lost something since the last whole one.

        Raises the last OSError there was after all else is done, and the next pass tries again.
        """
        log_min_offset = self._log.min_offset
        if log_min_offset <= self._cleaned_to:
            return
        failure: OSError | None = None
        whole = True
        for queue in self._queues.all():
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
        if whole:  # otherwise the next pass looks again, although the log's start has not moved
            self._cleaned_to = log_min_offset

    def remove_expired_queues(self) -> None:
        """Remove the queues whose newest message has left the log; the next message in one begins it at 0 again.

        A queue that a message is on its way to stays, and so do those of delayed messages and of transactions. Raises
        OSError if a file does not go.
        """
        log_min_offset = self._log.min_offset
        for queue in self._queues.all():
            end = queue.max_offset  # before the look at what is in front of it: there may be more by then
            newest = queue.entry(end - 1)
            if newest is None or not is_valid(newest) or is_numbered_elsewhere(queue.topic):
                continue
            if newest.physical_offset >= log_min_offset:
                continue
            self._remove(queue, end)

    def _remove(self, queue: ConsumeQueue, end: int) -> None:
        """Remove one queue if it ends there, all of it under the put lock.

        A put in between would be dispatched to what is forgotten. Raises OSError if a file does not go, or nobody knows
        whether the last one is gone for good: without it the queue begins again at any rate.
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
            self._queues.forget(queue)
            return True

        # The lock keeps a sync of the directories from finding one that is gone.
        with self._queues.names_lock:
            gone = self._commit_log.forget_queue(queue.topic, queue.queue_id, end, remove)
        if failure is not None:
            raise failure
        if gone:
            hit("queue removed")
            with suppress(OSError):  # an empty directory, or one that fills again, does no harm
                self._queues.remove_directories(queue)


def is_numbered_elsewhere(topic: str) -> bool:
    """Return whether something beside the log goes by the queue offsets of a topic."""
    return topic in _NUMBERED_ELSEWHERE


class RetentionService(Service):
    """Looks at the disk every so often, and cleans the log and what leads into it at intervals of its own."""

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
        """What last kept a file from being removed."""
        self.watermark = DiskWatermark(world.files, config, flags)
        log = commit_log.queue
        self.log = CleanCommitLog(world, config, log, self.watermark, flush_queues, self._pause_or_end)
        self.queues = CleanConsumeQueue(config, log, commit_log, queues, self._pause_or_end)
        self._interval_ns = config.clean_resource_interval_ms * 1_000_000
        self._pass_lock = world.tasks.lock("retention pass")
        self._check_ns = self._clean_ns = 0
        """When to look at the disk next, and when to clean."""

    def start(self) -> None:
        """Begin: the first look at the disk is a second away, the first cleaning a minute."""
        now_ns = self.world.clock.monotonic_ns()
        self._check_ns = now_ns + FIRST_CHECK_MS * 1_000_000
        self._clean_ns = now_ns + FIRST_CLEAN_MS * 1_000_000
        super().start()

    def delete_manually(self) -> None:
        """Delete what has expired whatever the hour, now and in some passes to come: RocketMQ's admin command."""
        self.log.delete_manually()
        self._clean_ns = 0
        self.wake()

    def step(self) -> None:
        """Wait for what is due first, and do it."""
        clock = self.world.clock
        left_ns = min(self._check_ns, self._clean_ns) - clock.monotonic_ns()
        if left_ns > 0:
            self.signal.wait(-(-left_ns // 1_000_000))  # rounded up, or the last partial ms would be a busy loop
        if self.is_stopping:
            return
        now_ns = clock.monotonic_ns()
        if now_ns >= self._clean_ns:
            self._clean_ns = now_ns + self._interval_ns  # first: `delete_manually` may reset it during the pass
            self.clean()
        if now_ns >= self._check_ns:
            self._check_ns = now_ns + CHECK_INTERVAL_MS * 1_000_000
            self.watermark.measure()

    def clean(self) -> None:
        """Do one pass. What goes wrong in it is noted, and tried again in a later one."""
        with self._pass_lock:
            for run in (self.log.run, self.queues.run):
                try:
                    run()
                except OSError as error:
                    self.last_error = error

    def remove_expired_queues(self) -> None:
        """Remove the queues all of whose messages have left the log. Raises OSError if a file does not go."""
        with self._pass_lock:
            self.queues.remove_expired_queues()

    def _pause_or_end(self, ms: int) -> bool:
        """Let ms pass; return False if the service is to end."""
        self.pause(ms)
        return not self.is_stopping
