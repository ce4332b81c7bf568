"""Bugs of recovery: truncation of the log, queue entries, and queue offsets."""

from typing import Any

from ....store.directories import directory_of
from ....store.errors import CorruptFileError, is_disk_full
from ....store.formats.consume_queue import ENTRY_BYTES, QueueEntry, decode_entry, is_valid
from ....store.log.checkpoint import StoreCheckpoint
from ....store.log.segment import Segment, first_nonzero
from ....store.log.segment_queue import SegmentQueue
from ....store.message_store import MessageStore
from ....store.queues import consume_queue
from ....store.queues.consume_queue import ConsumeQueue
from ....store.queues.dispatch import DispatchService
from ....store.recovery.queue_replay import QueueReplay, _DoubtfulRecord
from ....store.recovery.recovery import Recovery, RecoveryReport
from ...claims.catalogue import BACKLOG, SCENARIOS
from ...claims.catalogue.recovery import QUEUE_FLUSHES
from ..mutant import bit, bug, needs


# If a new record ends where a truncated record starts, the next recovery also reads the truncated records.
@bug("stale-tail-after-truncate", Recovery, "truncate_log", found_by=("PREFIX", "QOFF"))
@needs(
    sync_flush=(False,),
    disk=("ext4-ordered", "strict-posix"),
    messages={"equal_sizes": (True,), "batch_chance": (0.0,)},
    lives=(2, 3),
    endings=("crash in traffic", "crash at rest"),
)
def cut_without_zeroing(self: Recovery, end_offset: int) -> bool:
    """Truncated records stay on the disk and reappear later."""
    log = self._log
    dirty = False
    while log.segments and log.segments[-1].base_offset > end_offset:
        dirty |= log._remove_last()
    for segment in log.segments[-1:]:
        bit(first_nonzero(segment.file.view(end_offset - segment.base_offset, segment.size_bytes)) is not None)
    return dirty


_ANYWHERE = 1 << 62


def _end_of_entries(queue: ConsumeQueue, log_end: int = _ANYWHERE) -> int:
    """Return the offset after a queue's last consecutive valid entry for a record before the log's end."""
    segments = queue.queue.segments
    end = segments[0].base_offset // ENTRY_BYTES if segments else 0
    while (entry := queue.entry(end)) is not None and is_valid(entry) and entry.physical_offset < log_end:
        end += 1
    return end


def _keep_entries(queue: ConsumeQueue, log_end: int = _ANYWHERE) -> None:
    end = _end_of_entries(queue, log_end)
    queue.truncate(end)
    queue.set_recovered_end(end, 0)


@bug("reput-starts-at-log-end", Recovery, "finish_queues", found_by=("CQ-COMPLETE", "CQ-VALID"))
def finish_with_entries_found(self: Recovery) -> None:
    """After a restart, stored records without queue entries are never dispatched."""
    for queue in self._queues.all_queues():
        _keep_entries(queue, self._report.end_offset)
        replay = self._replays.get((queue.topic, queue.queue_id))
        bit(replay is not None and replay.next > queue.max_offset)
        queue.correct_min_offset(max(self._log.min_offset, 0))


# Queue entries of truncated records then refer to new records at the same log offsets.
@bug("normal-recovery-keeps-dirty-cq", Recovery, "finish_queues", found_by=("CQ-VALID", "CQ-COMPLETE"))
@needs(endings=("stop and damage",))
def finish_without_cutting(self: Recovery) -> None:
    """After a clean stop, recovery truncates damaged records but keeps their queue entries."""
    if self._clean_exit:
        for queue in self._queues.all_queues():
            bit(_end_of_entries(queue, self._report.end_offset) < _end_of_entries(queue))
            _keep_entries(queue)
            queue.correct_min_offset(max(self._log.min_offset, 0))
    else:
        finish_without_cutting.original(self)


# The stop removes the unclean-exit marker before the end of dispatch.
@bug("clean-exit-with-backlog", DispatchService, "finish_remaining_work", found_by=("CQ-COMPLETE",))
@needs(sync_flush=(True,), messages={"no_wait_chance": (0.5,)}, sync_ms_max=(10,), endings=("stop",))
def end_at_once(self: DispatchService) -> None:
    """A stop with undispatched records counts as clean, so the next start does not dispatch the records."""


@end_at_once.also(MessageStore, "is_clean")
def _is_clean_with_backlog(self: MessageStore) -> bool:
    clean = (
        self.flags.is_writeable
        and self.log.flushed_where.get() == self.log.max_offset
        and self.flush_queues.last_error is None
    )
    bit(clean and self.dispatch.behind_bytes > 0)
    return clean


@end_at_once.also(Recovery, "finish_queues")
def _finish_without_backlog(self: Recovery) -> None:
    if self._clean_exit:
        for queue in self._queues.all_queues():
            _keep_entries(queue, self._report.end_offset)
    else:
        _finish_without_backlog.original(self)


@bug("offset-table-rebuilt-early", MessageStore, "recover", found_by=("CQ-COMPLETE", "QOFF", "READ"))
def recover_with_early_offsets(self: MessageStore, *, clean_exit: bool) -> RecoveryReport:
    """After a restart, new messages get queue offsets of existing records."""
    ends = {(queue.topic, queue.queue_id): _end_of_entries(queue) for queue in self.queues.all_queues()}
    report = recover_with_early_offsets.original(self, clean_exit=clean_exit)
    table = self.commit_log.topic_queue_table
    for key, end in table.items():
        bit(end > ends.get(key, 0))
        table[key] = min(end, ends.get(key, 0))
    return report


_WITH_SKIPPED_NUMBERS = SCENARIOS["queue-offset-gap"].ranges


# At a restart RocketMQ 4.9.8 skips queue offsets without a record in the log.
@bug("numbering-gap-refused", QueueReplay, "_index_of_doubted", found_by=("CQ-COMPLETE", "VIS"))
@needs(_WITH_SKIPPED_NUMBERS)
def place_without_gaps(self: QueueReplay, doubted: _DoubtfulRecord, following: int | None) -> int | None:
    """Messages after a gap in the queue offsets lose their entries."""
    entry = self.queue.entry(self.next)
    is_here = entry is not None and entry.physical_offset == doubted.physical_offset
    if is_here or following == self.next + 1:
        return self.next
    place = doubted.queue_offset if doubted.queue_offset > self.next and self._has_room_for_missing(doubted) else None
    bit(place != place_without_gaps.original(self, doubted, following))
    return place


# The checksums of a record do not cover queueOffset.
@bug("wrong-number-blanks-entry", QueueReplay, "_index_of_doubted", found_by=("CQ-COMPLETE", "VIS"))
@needs(_WITH_SKIPPED_NUMBERS)
def place_by_own_number(self: QueueReplay, doubted: _DoubtfulRecord, following: int | None) -> int | None:
    """A flipped bit in a record's queueOffset blanks the correct entry of another message."""
    place = place_by_own_number.original(self, doubted, following)
    if place in (doubted.queue_offset, None):
        return place
    own = doubted.queue_offset if doubted.queue_offset > self.next and self._has_room_for_missing(doubted) else None
    bit(own != place)
    return own


# Found in this store: it accepted a record's queueOffset as the next one even if the entry had another offset.
@bug("single-flipped-offset-trusted", QueueReplay, "_move_last_record", found_by=("CQ-COMPLETE", "VIS"))
@needs(_WITH_SKIPPED_NUMBERS)
def keep_last_record_in_place(self: QueueReplay) -> None:
    """A flipped bit in queueOffset moves a message to the start of the gap before it."""
    if self._pending:
        last = decode_entry(bytes(self._pending[-ENTRY_BYTES:]), 0)
        place = self.queue.index_of(last.physical_offset)
        bit(place is not None and place >= self.next)


# Found in this store: it trusted the queueOffset of the next record more than the entry of the record itself.
@bug("next-number-denies-gap", QueueReplay, "_index_of_doubted", found_by=("CQ-COMPLETE", "VIS"))
@needs(_WITH_SKIPPED_NUMBERS)
def place_by_next_number(self: QueueReplay, doubted: _DoubtfulRecord, following: int | None) -> int | None:
    """A flipped bit in a record's queueOffset moves the previous message to another offset and blanks its entry."""
    place = place_by_next_number.original(self, doubted, following)
    if bit(place == doubted.queue_offset and place != self.next and following == self.next + 1):
        return self.next
    return place


# If the clock was set back, new records have earlier times, so the checkpoint covers them before any sync.
@bug("checkpoint-ahead-of-log", StoreCheckpoint, "limit_to_log_end", found_by=("CKPT",))
@needs(
    endings=("stop and damage",),
    disturbances={"clock_step_chance": (0.1,)},
    lives=(2, 3),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
)
def keep_checkpoint_ahead(self: StoreCheckpoint, store_timestamp_ms: int) -> None:
    """After the loss of the log's end, the checkpoint covers new records that are not durable."""
    bit(max(self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms) > store_timestamp_ms)


# Found in this store: an operator had restored older files, but not the older checkpoint.
@bug("index-time-after-log-kept", StoreCheckpoint, "limit_index_time", found_by=("CKPT", "IDX"))
@needs(
    SCENARIOS["foreign-and-damaged-files"].ranges,
    index={"slots": (5, 40), "entries": (5, 12), "keys_chance": (0.3,)},
    endings=("stop and strays", "crash at rest", "crash in traffic"),
    lives=(2, 3),
)
def keep_index_time_ahead(self: StoreCheckpoint, store_timestamp_ms: int) -> None:
    """A start does not lower an index time after the end of the log, which then covers new index files."""
    if not bit(self.index_msg_timestamp_ms > store_timestamp_ms >= self.physic_msg_timestamp_ms):
        keep_index_time_ahead.original(self, store_timestamp_ms)


# Found in this store: a load that died before the marker existed had written entries without a sync.
@bug("crashed-load-queues-trusted", Recovery, "_scan_needed_segments", found_by=("CKPT", "CQ-COMPLETE"))
@needs(
    recover_whole_log=(False,),
    commit_log_bytes=(1024,),
    index={"keys_chance": (0.0,)},
    messages_each=(16,),
    lives=(3, 4),
    endings=("stop and strays", "stop and strays", "crash in load"),
)
def trust_queues_after_clean_exit(self: Recovery, trusted: int) -> object:
    """Queue entries of a load that died after a clean stop count as durable."""
    if self._clean_exit and not self._queues.lost_entries:
        bit(trusted > 0 and not self._queues_are_durable)
        self._queues_are_durable = True
    return trust_queues_after_clean_exit.original(self, trusted)


# A killed recovery may have removed a segment without a sync of its directory. After a power cut, the truncated records
# of the segment reappear.
@bug("newest-log-directory-synced", SegmentQueue, "make_durable", found_by=("POS",))
@needs(SCENARIOS["crash-in-log-truncation"].ranges, directories={"log_directories": (2, 3)})
def sync_newest_directory(self: SegmentQueue, first: int) -> None:
    """With several log directories, recovery syncs only the directory of the newest segment."""
    self.flush_all()
    for segment in self.segments[first:]:
        self._world.files.sync(segment.file.path)
    bit(len({directory_of(segment.file.path) for segment in self.segments}) > 1)
    for segment in self.segments[-1:]:
        self._world.files.sync_directory(directory_of(segment.file.path))


# apache/kafka PR 8812 (KAFKA-10101). After a failed sync, Linux marks pages as clean that are not on the disk.
@bug("last-segment-written-again", Recovery, "write_again", found_by=("POS", "DUR", "PREFIX", "CKPT"))
@needs(
    disk=("process-kill", "strict-posix"),
    commit_log_bytes=(1024, 2048),
    messages={"body_bytes_max": (300,)},
    messages_each=(16,),
    faults={"failed_sync_chance": (0.1,), "failed_write_back_chance": (0.1,)},
    lives=(3,),
    endings=("crash in traffic", "crash at rest", "stop"),
)
def write_last_again(self: Recovery) -> None:
    """Recovery writes bytes that may not be durable again only in the newest segment."""
    starts = [(segment, max(self._undurable_offset - segment.base_offset, 0)) for segment in self._log.segments]
    bit(any(start < segment.wrote.get() for segment, start in starts[:-1]))
    for segment, start in starts[-1:]:
        segment.write_again(start, segment.wrote.get())


@bug("last-incomplete-queue-counts", Recovery, "_leave_to_dispatch", found_by=("CQ-COMPLETE",))
@needs(
    SCENARIOS["full-disk-space-returns"].ranges,
    endings=("stop and full disk",),
    consume_queue_bytes=(60,),
    topics=(2,),
    queues_per_topic=(2,),
)
def leave_last_queue(self: Recovery, replay: QueueReplay, error: OSError) -> None:
    """If a full disk leaves several queues incomplete, dispatch begins where the last of them ends."""
    report, queue = self._report, replay.queue
    self._checkpoint.reset_queue_time()
    report.lacks_room = error
    begin = min(max(queue.max_physical_offset, report.start_offset), report.end_offset)
    bit(begin > report.dispatched_to)
    report.dispatched_to = begin
    report.counted[queue.topic, queue.queue_id] = replay.next


# After a failed sync, Linux marks pages as clean that are not on the disk.
@bug("equal-entries-not-written-again", QueueReplay, "_overwrite_entries", found_by=("CKPT", "CQ-COMPLETE", "CQ-VALID"))
@needs(lives=(3, 4), **QUEUE_FLUSHES)
def overwrite_changed_entries(self: QueueReplay, queue_offset: int, raw: bytes | bytearray) -> None:
    """After a failed sync and a restart, recovery trusts queue entries that are right in the page cache."""
    if self.lacks_room is not None:
        return
    bit(self.write_again and len(raw) > 0)
    try:
        self.changed += self.queue.overwrite_entries(queue_offset, raw, before_change=self._before_change)
    except OSError as error:
        if not is_disk_full(error):
            raise
        self.lacks_room = error


# RocketMQ's RIP-28: dispatch to light queues depends on enableMultiDispatch (apache/rocketmq#3694).
@bug("light-queues-recover-while-enabled", Recovery, "__init__", found_by=("CQ-COMPLETE", "SCAN"))
@needs(SCENARIOS["settings-switched"].ranges, starts={"switched": ("enable_multi_dispatch",)})
def begin_by_setting(self: Recovery, *given: Any, **named: Any) -> None:
    """Recovery replays light queues only if the setting is on, and truncates existing ones if it is off."""
    begin_by_setting.original(self, *given, **named)
    bit(self._light and not self._config.enable_multi_dispatch)
    self._light = self._config.enable_multi_dispatch


# linkedin/kafka#409, apache/fluss#3009: a torn batch at the start of a segment fails the start.
@bug("torn-first-record-prevents-start", Recovery, "_first_store_time_of_segment_ms", found_by=("START",))
@needs(SCENARIOS["sync-flush-power-cut"].ranges, commit_log_bytes=(1024, 2048), lives=(2, 3))
def read_first_store_time(self: Recovery, segment: Segment) -> int | None:
    """The search for the segment at which recovery begins fails at a damaged first record."""
    try:
        first = next(self._scan_segment_records(segment), None)
    except CorruptFileError:
        bit()
        raise
    return None if first is None else first.store_timestamp_ms


# A power cut can leave half of a new tags code, and no later recovery would read this part of the log.
@bug("replaced-addresses-trusted", QueueReplay, "_overwrite_entries", found_by=("CKPT",))
@needs(SCENARIOS["settings-switched"].ranges, starts={"switched": ("enable_consume_queue_ext",)})
def overwrite_trusted(self: QueueReplay, queue_offset: int, raw: bytes | bytearray) -> None:
    """Recovery replaces addresses of units by tags codes, while the checkpoint still covers the entries."""
    self._before_change = _keep_queue_time
    overwrite_trusted.original(self, queue_offset, raw)


def _keep_queue_time() -> None:
    bit()


# Runs with a backlog found this bug of tornlog. An entry of 20 bytes may span two pages.
@bug("torn-entry-points-to-log-begin", consume_queue, "is_blank", found_by=("CQ-COMPLETE",))
@needs(
    SCENARIOS["async-flush-prefix"].ranges.replace(**BACKLOG),
    consumers=(0,),
    index={"slots": (0,)},
    consume_queue_bytes=(20_000,),
    disk=("strict-posix",),
    endings=("crash at rest",),
    lives=(2, 3),
    messages_each=(3,),
)
def accept_any_entry_before(entry: QueueEntry) -> bool:
    """After a power cut lost pages of a queue, recovery moves the first message of the log to a wrong queue offset."""
    bit(not accept_any_entry_before.original(entry))
    return True
