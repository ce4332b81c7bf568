"""Removes segments of the log whose time is over: RocketMQ's CleanCommitLogService.

Nobody is asked whether the messages were consumed. But a segment stays, however full the disk is, until it is durable,
dispatched, and what its records added to their queues is durable too: from then on nothing needs it, not even a
recovery, which without it could not tell how far a queue had counted.
"""

from collections.abc import Callable

from ..config import StoreConfig
from ..log.segment import Segment
from ..log.segment_queue import SegmentQueue
from ..marks import hit
from ..queues.flush_queues import FlushConsumeQueueService
from ..world import World
from .watermark import DiskWatermark, Pressure

SEGMENTS_PER_PASS = 10
_HOUR_MS = 3_600_000
_MANUAL_PASSES = 20


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
        self._hours = frozenset(int(hour) for hour in config.delete_when.split(";"))
        self._manual = world.tasks.cell("manual deletions")
        self._stuck: int | None = None
        """Where the segment begins whose file would not go."""
        self._stuck_since_ns = 0

    def delete_manually(self) -> None:
        """Have the next passes delete what has expired, whatever the hour."""
        self._manual.set(_MANUAL_PASSES)

    def run(self) -> int:
        """Do one pass; return how many segments went. Raises OSError if one did not, and a later pass goes on there."""
        pressure = self._watermark.measure()
        manual = self._manual.get() > 0
        if manual:
            self._manual.add(-1)
        if manual or pressure.delete or self._is_time():
            return self._delete(pressure)
        return self._retry_stuck()

    def _is_time(self) -> bool:
        clock = self._world.clock
        return (clock.now_ms() + clock.utc_offset_ms()) // _HOUR_MS % 24 in self._hours

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
        first = self._log.segments[0]
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
