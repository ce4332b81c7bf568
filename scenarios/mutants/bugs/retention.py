"""Bugs of retention: wrong removals, and puts refused for too long."""

from dataclasses import replace

from ....store.errors import CorruptFileError
from ....store.formats.consume_queue import ENTRY_BYTES, decode_entry
from ....store.formats.delay_level import SCHEDULE_TOPIC
from ....store.formats.half_message import HALF_TOPIC, OP_TOPIC
from ....store.formats.scan import scan_records
from ....store.log.segment import Segment
from ....store.log.segment_queue import SegmentDirectories, try_used_ratio, used_ratio
from ....store.queues.consume_queue import ConsumeQueue
from ....store.retention import cleaning
from ....store.retention.cleaning import CleanCommitLog, CleanConsumeQueue, DiskWatermark, RemovalPressure
from ....store.running_flags import RefusalReason
from ....store.world import Files
from ...claims.catalogue import SCENARIOS
from ...claims.ranges import Ranges
from ..mutant import bit, bug, needs

_DELETING = Ranges(
    retention={"deletes_segments": (True,)},
    commit_log_bytes=(1024, 2048),
    consume_queue_bytes=(100,),
    messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
    messages_each=(16, 24),
    pauses={"chance": (0.5,), "ms_max": (300,)},
)


# Scenarios with narrow ranges rarely reach this bug.
@bug(
    "segment-removed-half-dispatched",
    CleanCommitLog,
    "_remove_first",
    found_by=("CKPT", "CLEAN", "DUR", "LIVE", "POS", "QUIET"),
)
@needs(SCENARIOS["retention-oldest-first"].ranges)
def remove_when_begun(self: CleanCommitLog) -> bool:
    """Retention removes a segment although only its first queue entries are durable."""
    first = self._log.segments[0]
    durable_to = self._flush_queues.durable_to.get()
    if durable_to <= first.base_offset or not bit(durable_to < first.end_offset):
        return remove_when_begun.original(self)
    removed = self._log.remove_first()
    self._stuck = None
    return removed


@bug("clean-pass-never-repeated", CleanConsumeQueue, "remove_expired", found_by=("CLEAN",))
@needs(SCENARIOS["retention-oldest-first"].ranges, heals=(True,), faults={"failed_removal_chance": (0.1,)})
def run_once(self: CleanConsumeQueue) -> None:
    """A failed removal of expired queue and index files has no retry."""
    log_min_offset, cleaned_to = self._log.min_offset, self._cleaned_to
    try:
        run_once.original(self)
    except OSError:
        bit(log_min_offset > cleaned_to)
        self._cleaned_to = max(cleaned_to, log_min_offset)
        raise


# The mutant accepts puts again only at the disk usage at which retention stops deleting.
@bug("puts-return-late-after-full", DiskWatermark, "measure_pressure", found_by=("STATUS",))
@needs(
    capacity_bytes=(10_000, 16_000, 24_000),
    commit_log_bytes=(1024, 2048),
    consume_queue_bytes=(100, 200),
    messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
    messages_each=(16, 24),
    pauses={"chance": (0.5,), "ms_max": (300, 3000)},
    lives=(1, 2),
    endings=("stop", "crash at rest"),
)
def measure_below_used_ratio(self: DiskWatermark) -> RemovalPressure:
    """After the disk was full, the store refuses puts for longer than necessary."""
    was_full = self._flags.bits & RefusalReason.DISK_FULL
    pressure = measure_below_used_ratio.original(self)
    if was_full and pressure.delete and not self._flags.bits & RefusalReason.DISK_FULL:
        bit()
        self._flags.add_refusal(RefusalReason.DISK_FULL)
    return pressure


# Command 306 removes the half queue, as in RocketMQ. The new half queue starts at 0, but the old op messages remain.
@bug("transaction-queues-removed", cleaning, "is_numbered_elsewhere", found_by=("TX", "CLEAN"))
@needs(
    transactions={"chance": (0.35,)},
    retention={"deletes_segments": (True,), "deletes_queues": (True,)},
    commit_log_bytes=(1024,),
    consume_queue_bytes=(100,),
    messages={"body_bytes_max": (300,), "property_bytes_max": (0,)},
    messages_each=(16,),
    pauses={"chance": (0.5,), "ms_max": (100,)},
    topics=(1,),
    disk=("nothing-lost",),
    endings=("stop",),
    lives=(3,),
)
def only_delayed_are_numbered_elsewhere(topic: str) -> bool:
    """The removal of the half message queue applies old decisions to new half messages."""
    bit(topic in (HALF_TOPIC, OP_TOPIC))
    return topic == SCHEDULE_TOPIC


# apache/rocketmq issue 8753 and PR 3707.
@bug("single-queue-file-keeps-start", ConsumeQueue, "remove_expired_segments", found_by=("CLEAN",))
@needs(SCENARIOS["queue-file-size-raised"].ranges)
def remove_unless_single(self: ConsumeQueue, log_min_offset: int) -> int:
    """A queue with a single file begins with expired messages."""
    if len(self.queue.segments) > 1:
        return remove_unless_single.original(self, log_min_offset)
    first = self.entry(self.min_offset)
    bit(first is not None and first.physical_offset < log_min_offset)
    return 0


# The store then removes live messages after one error of statvfs. In RocketMQ, too, an unknown usage deletes only
# expired segments.
@bug("unknown-usage-counts-as-full", cleaning, "try_used_ratio", found_by=("CLEAN", "STATUS"))
@needs(
    retention={"deletes_segments": (True, False)},
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    faults={"failed_space_query_chance": (0.3, 1.0)},
)
def full_if_unknown(files: Files, path: str) -> float | None:
    """A disk counts as full if its usage cannot be measured."""
    ratio = full_if_unknown.original(files, path)
    return 1.0 if bit(ratio is None) else ratio


# Found in this store.
@bug("unmeasured-directory-ends-creation", SegmentDirectories, "_has_room", found_by=("STATUS", "LIVE", "QUIET"))
@needs(
    directories={"log_directories": (2, 3)},
    commit_log_bytes=(1024, 2048),
    faults={"failed_space_query_chance": (0.3, 1.0)},
)
def has_measured_room(self: SegmentDirectories, directory: str) -> bool:
    """A put is refused if the usage of one of several log directories cannot be measured."""
    if self._files.status(directory) is None:
        return True
    bit(try_used_ratio(self._files, directory) is None)
    return used_ratio(self._files.space(directory)) <= self._used_ratio_max


# KIP-33: the age of a segment is that of its newest message.
@bug("segment-expires-with-first-message", CleanCommitLog, "_has_expired", found_by=("CLEAN",))
@needs(_DELETING, retention={"hours_off": (100,)}, lives=(2, 3))
def has_first_message_expired(self: CleanCommitLog, segment: Segment) -> bool:
    """A segment that was filled slowly expires with its first message."""
    if has_first_message_expired.original(self, segment):
        return True
    view, file = segment.file.view(0, segment.size_bytes), segment.file.path
    try:
        records = scan_records(
            view, 0, segment.readable.get(), file=file, base_offset=segment.base_offset, check_crc=False
        )
        first = next(records, None)
    except CorruptFileError:
        return False
    reserved_ms = self._config.file_reserved_time_hours * 3_600_000
    now_ms = self._world.clock.now_ms()
    return bit(first is not None and 0 < first.store_timestamp_ms <= now_ms - reserved_ms)


# RocketMQ's MappedFileQueue.deleteExpiredFileByOffset reads the last entry of each file.
@bug("blank-entry-expires-queue-file", ConsumeQueue, "has_expired_segment", found_by=("CLEAN",))
@needs(_DELETING, starts={"skipped_numbers_max": (2, 9)}, lives=(2, 3), endings=("stop", "crash at rest"))
def has_expired_last_entry(self: ConsumeQueue, log_min_offset: int) -> bool:
    """Retention removes a queue file that ends in a blank entry, although earlier entries point into the log."""
    segments = self.queue.segments
    if len(segments) < 2:
        return False
    end = segments[0].size_bytes
    last = decode_entry(segments[0].file.view(end - ENTRY_BYTES, end), 0)
    has_expired = last.physical_offset < log_min_offset
    bit(has_expired and not has_expired_last_entry.original(self, log_min_offset))
    return has_expired


# apache/rocketmq#143 (ROCKETMQ-256): a manual deletion loses messages.
@bug("manual-deletion-ignores-age", CleanCommitLog, "remove_expired", found_by=("CLEAN",))
@needs(_DELETING)
def remove_also_unexpired(self: CleanCommitLog) -> int:
    """A deletion that an operator requests also removes segments that have not expired."""
    manual = self._manual.get() > 0
    if not manual:
        removed: int = remove_also_unexpired.original(self)
        return removed
    self._manual.add(-1)
    pressure, segments = self._watermark.measure_pressure(), self._log.segments
    bit(not pressure.at_once and len(segments) > 1 and not self._has_expired(segments[0]))
    return self._delete_segments(pressure._replace(at_once=True))


@bug("first-hour-of-deletion-only", CleanCommitLog, "_is_delete_time", found_by=("CLEAN",))
@needs(SCENARIOS["retention-oldest-first"].ranges, retention={"delete_when": ("00;12;13",), "deletes_queues": (False,)})
def is_first_hour(self: CleanCommitLog) -> bool:
    """Retention deletes files only in the first of several hours of deletion."""
    return is_first_hour.original(self) and not bit(";" in self._config.delete_when)


@bug("forbidden-forced-deletion", CleanCommitLog, "_delete_segments", found_by=("CLEAN",))
@needs(SCENARIOS["full-disk-space-returns"].ranges, retention={"deletes_segments": (True,), "forcibly": (False,)})
def delete_forcibly(self: CleanCommitLog, pressure: RemovalPressure) -> int:
    """A full disk loses unexpired segments although cleanFileForciblyEnable is off."""
    bit(pressure.at_once)
    self._config = replace(self._config, clean_file_forcibly_enable=True)
    return delete_forcibly.original(self, pressure)
