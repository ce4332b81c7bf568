"""Recovery: truncates the log at its valid end and restores queues from the log.

Data is *trusted* if it was durable according to the checkpoint or a clean exit. A crash cannot damage trusted data, so
recovery reports and skips damage there. Elsewhere recovery truncates the log at the first invalid record, because no
acknowledged record can follow a record that is not acknowledged. After a crash the next recovery can repeat each step.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from ..config import BrokerRole, StoreConfig
from ..errors import CorruptFileError
from ..formats.columns import NEVER_MS, NativeCore, PlainRecords
from ..formats.delay_level import entry_tags_code
from ..formats.index_key import MAYBE_KEYED
from ..formats.light_queues import LIGHT_MARK, LIGHT_PREFIX, light_records
from ..formats.message import BLANK_BYTES, QUEUE_OFFSET_AT, TRANSACTION_MASK
from ..formats.scan import ScannedRecord, find_record_after_damage, scan_records
from ..log.checkpoint import StoreCheckpoint
from ..log.segment import Segment
from ..log.segment_queue import SegmentQueue
from ..marks import count_mark
from ..queues.consume_queue_table import ConsumeQueueTable
from ..queues.dispatch import UNDISPATCHED, is_queued
from .index_recovery import IndexRecovery
from .queue_replay import (
    EarlierEntriesMissing,
    MisplacedCallback,
    QueueReplay,
    RecordMisplaced,
    SkippedRanges,
    can_record_be_first,
    index_of_first_record,
    truncate_to_trusted_entries,
)

_NOWHERE = 1 << 63  # larger than every log offset: log offsets are signed 64-bit integers
_SEGMENTS_AFTER_CLEAN_EXIT = 3  # RocketMQ CommitLog.recoverNormally
"""Number of last segments that are not trusted after a clean exit, because another system may have caused the exit."""


@dataclass(slots=True)
class RecoveryReport:
    """The result of recovery."""

    clean_exit: bool
    start_offset: int = 0
    """Log offset at which the scan began."""
    end_offset: int = 0
    records: int = 0
    last_store_timestamp_ms: int = 0
    changed_entries: int = 0
    """Number of queue entries that were written or removed."""
    findings: list[CorruptFileError] = field(default_factory=list)
    """Damage that recovery found."""
    cut_at: CorruptFileError | None = None
    lacks_room: OSError | None = None
    """Error of a full disk that left queues or index incomplete."""
    dispatched_to: int = 0
    """Log offset up to which queues and index are complete. Dispatch adds later records."""
    counted: dict[tuple[str, int], int] = field(default_factory=dict)
    """The next queueOffset of each incomplete queue. The key is topic and queue id."""
    unknown_entries: list[CorruptFileError] = field(default_factory=list)
    """Ignored directory entries that are not part of the store."""


def trusted_after_clean_exit(begun_segments: int) -> int:
    """Return how many of the segments with records are trusted after a clean exit."""
    return max(0, begun_segments - _SEGMENTS_AFTER_CLEAN_EXIT)


def trusted_by_checkpoint(durable_ms: int, first_times_ms: Iterable[tuple[int, int | None]]) -> int:
    """Return the number of segments before the segment that contains the checkpoint's store time.

    first_times_ms contains, newest first, the number of each segment and its first store time.
    """
    if durable_ms == 0:
        return 0
    # Source: CommitLog.isMappedFileMatchedRecover. A store time of 0 means that the field was lost.
    for number, first_ms in first_times_ms:
        if first_ms is not None and 0 < first_ms <= durable_ms:
            return number
    return 0


class Recovery:
    """Recovers a store before its services start."""

    def __init__(
        self,
        config: StoreConfig,
        log: SegmentQueue,
        queues: ConsumeQueueTable,
        checkpoint: StoreCheckpoint,
        delays_ms: Mapping[int, int],
        *,
        clean_exit: bool,
        core: NativeCore | None = None,
    ) -> None:
        self._config = config
        self._log = log
        self._queues = queues
        self._checkpoint = checkpoint
        self._delays_ms = delays_ms
        self._clean_exit = clean_exit
        self._report = RecoveryReport(clean_exit)
        self._replays: dict[tuple[str, int], QueueReplay] = {}
        self._plain = None if core is None or queues.ext_directory is not None else PlainRecords(core)
        """Scans records with the C core, or None for Python."""
        self._skipped = SkippedRanges()
        has_light = any(queue.topic.startswith(LIGHT_PREFIX) for queue in queues.all_queues())
        self._light = config.enable_multi_dispatch or has_light
        """Whether settings or existing queues show that the store can have light queues."""
        self._lmq = config.enable_lmq or not config.enable_multi_dispatch
        self._durable_ms = NEVER_MS if clean_exit else checkpoint.trusted_timestamp_ms
        """Records and queue entries up to this store time are certainly durable."""
        self._queues_are_durable = checkpoint.has_queue_time
        """Whether the checkpoint proves that existing queue entries are durable.

        A clean exit is not enough: a later load may have written entries and crashed before it synced them.
        """
        self._undurable_offset = _NOWHERE
        """Log offset of the first record with a store time after `_durable_ms`."""
        self.index: IndexRecovery | None = None

    def run(self) -> RecoveryReport:
        """Recover the store durably.

        Raises OSError if the disk fails; a new process can then repeat the recovery. Raises CorruptFileError if the
        segment size, which a truncated file may have determined, is too small for a blank record.
        """
        size_bytes = self._config.mapped_file_size_commit_log
        if size_bytes < BLANK_BYTES and self._log.segments:
            expected = f"{BLANK_BYTES} or more, the size of a blank record"
            raise CorruptFileError(self._log.segments[0].file.path, 0, "file size", expected, size_bytes)
        trusted = self.trusted_segments()
        odd_in_index = [] if self.index is None else self.index.keep_valid_files()
        stopped_by = self._scan_needed_segments(trusted)
        report = self._report
        report.findings = [*self._log.gaps, *report.findings, *odd_in_index]
        if self.truncate_log(report.end_offset) and stopped_by is not None:
            report.findings.append(stopped_by)
            report.cut_at = stopped_by
        if self._config.broker_role is BrokerRole.SLAVE:
            self._cut_last_blank()
        report.dispatched_to = report.end_offset
        self._set_log_positions(trusted)
        self.write_again()
        self.finish_queues()
        self._log.make_durable(trusted)
        if self.index is not None:
            self.index.make_index_durable()
            if self.index.lacks_room is not None:
                report.lacks_room = self.index.lacks_room
                report.dispatched_to = min(report.dispatched_to, self.index.room_ends_at)
        assert report.dispatched_to <= report.end_offset, (report.dispatched_to, report.end_offset)
        return report

    def trusted_segments(self) -> int:
        """Return how many segments are durable, so that damage in them is not the end of the log.

        This needs only the log's time in the checkpoint. A recovery that has changed queue entries leaves no time of
        the queues; if the store is killed then, the next recovery must not take older damage for the log's end.
        """
        return self._segments_up_to(self._checkpoint.trusted_log_timestamp_ms)

    def segments_with_entries(self) -> int:
        """Return how many segments are durable together with the queue entries of their records."""
        return self._segments_up_to(self._checkpoint.trusted_timestamp_ms)

    def _segments_up_to(self, durable_ms: int) -> int:
        if self._clean_exit:
            return trusted_after_clean_exit(self._begun_segments())
        return trusted_by_checkpoint(durable_ms, self._first_store_times_ms())

    def _begun_segments(self) -> int:
        """Return the number of segments up to the last one that contains a record.

        Recovery removes later segments, and a repeated recovery must get the same number.
        """
        count = len(self._log.segments)
        while count and not any(self._log.segments[count - 1].file.view(0, BLANK_BYTES)):
            count -= 1
        return count

    def _first_store_times_ms(self) -> Iterator[tuple[int, int | None]]:
        for number in reversed(range(len(self._log.segments))):
            yield number, self._first_store_time_of_segment_ms(self._log.segments[number])

    def _first_store_time_of_segment_ms(self, segment: Segment) -> int | None:
        try:
            first = next(self._scan_segment_records(segment), None)
        except CorruptFileError:
            return None
        return None if first is None else first.store_timestamp_ms

    def _scan_segment_records(self, segment: Segment, start: int = 0) -> Iterator[ScannedRecord]:
        view, end, file = segment.file.view(0, segment.size_bytes), segment.size_bytes, segment.file.path
        base_offset, check_crc = segment.base_offset, self._config.check_crc_on_recover
        return scan_records(view, start, end, file=file, base_offset=base_offset, check_crc=check_crc)

    def _scan_needed_segments(self, trusted: int) -> CorruptFileError | None:
        """Scan the part of the log that queues and index need. Returns the result of `_scan_from`."""
        scans_all = self._config.recover_whole_log or not self._queues_are_durable
        first = 0 if scans_all else self.segments_with_entries()
        while True:
            if self.index is not None:
                first = min(first, self._log.segment_index_of(self.index.start_offset))
            try:
                stopped_by = self._scan_from(first, trusted)
            except EarlierEntriesMissing:
                self._checkpoint.reset_queue_time()  # a later load must not trust entries that are not synced
                first = 0
                continue
            if self.index is None or not self.index.drop_files_beyond(self._report.end_offset):
                return stopped_by

    # -- scanning ----------------------------------------------------------------------------------

    def _scan_from(self, first: int, trusted: int) -> CorruptFileError | None:
        """Scan from segment number `first` on. Returns the error that ended the scan, or None."""
        self._report = RecoveryReport(self._clean_exit)
        self._replays = {}
        if self._plain is not None:
            self._plain.forget_queues()
        self._skipped = SkippedRanges()
        self._undurable_offset = _NOWHERE
        segments = self._log.segments
        if not segments:
            return None
        assert 0 <= first < len(segments), (first, len(segments))
        report = self._report
        report.start_offset = report.end_offset = segments[first].base_offset
        for number, segment in enumerate(segments[first:], first):
            if number > first and segments[number - 1].end_offset < segment.base_offset:
                # A crash cannot cause a gap, so a gap does not end the log. Queue entries that point into the gap are
                # kept, because an operator may restore the missing segments.
                self._skipped.add(segments[number - 1].end_offset, segment.base_offset)
            at: int | None = 0
            while at is not None:
                report.end_offset = segment.base_offset + at
                try:
                    self._scan_segment(segment, at, whole_log=first == 0)
                    at = None
                except CorruptFileError as error:
                    if number >= trusted:
                        return error
                    count_mark("damaged record skipped")
                    report.findings.append(error)
                    at = self._skip_damage(segment, report.end_offset)
        return None

    def _skip_damage(self, segment: Segment, offset: int) -> int | None:
        """Skip damage at a log offset. Returns the next record's position in the segment, or None."""
        view, at = segment.file.view(0, segment.size_bytes), offset - segment.base_offset
        following = find_record_after_damage(view, at, segment.base_offset)
        assert following is None or following > at, (following, at)
        end = segment.size_bytes if following is None else following
        self._skipped.add(offset, segment.base_offset + end)
        return following

    def _scan_segment(self, segment: Segment, start: int, *, whole_log: bool) -> None:
        """Replay the records of a segment from position `start` on. Raises CorruptFileError at an invalid record."""
        if self._plain is None:
            self._replay_records(segment, start, None, whole_log=whole_log)
            return
        report, at, more = self._report, start, True
        while more:
            at = self._replay_plain(self._plain, segment, at)
            before = report.records
            # The C core stopped before a record that is not plain, or before the first record of a queue.
            self._replay_records(segment, at, 1, whole_log=whole_log)
            at = report.end_offset - segment.base_offset
            more = report.records > before

    def _replay_plain(self, plain: PlainRecords, segment: Segment, start: int) -> int:
        """Replay plain records in batches. Returns the position after the last replayed record."""
        report, view = self._report, segment.file.view(0, segment.size_bytes)
        durable_ms = self._durable_ms if self._undurable_offset == _NOWHERE else NEVER_MS
        check_crc = self._config.check_crc_on_recover
        while plain.scan(view, start, segment.base_offset, check_crc=check_crc, stored_ms_max=durable_ms):
            assert plain.end > start, (plain.end, start)
            if self.index is not None and plain.key_count:
                self.index.put_plain(plain)
            for number, queue_offset, entries, _ in plain.runs():
                self._replays[plain.queues[number]].add_run(queue_offset, entries)
            report.records += plain.count
            report.end_offset = segment.base_offset + plain.end
            report.last_store_timestamp_ms = plain.column("store_timestamp_ms")[-1]
            start = plain.end
        return start

    def _replay_records(self, segment: Segment, start: int, limit: int | None, *, whole_log: bool) -> None:
        report, replays = self._report, self._replays
        delays_ms, durable_ms = self._delays_ms, self._durable_ms
        extended, light = self._queues.ext_directory is not None, self._light
        index_from, index_record = _NOWHERE, _ignore_record
        if self.index is not None:
            index_from, index_record = self.index.start_offset, self.index.dispatch
        if self._undurable_offset != _NOWHERE:
            durable_ms = NEVER_MS  # `_undurable_offset` is already known
        offset, size_bytes = segment.base_offset + start, 0
        records, stored_ms = 0, report.last_store_timestamp_ms
        try:
            for record in islice(self._scan_segment_records(segment, start), limit):
                offset, size_bytes, topic, queue_id, queue_offset, sys_flag, stored_ms, properties = record
                if stored_ms > durable_ms:
                    self._end_durability_at(offset)
                    durable_ms = NEVER_MS
                if offset >= index_from and MAYBE_KEYED in properties:
                    index_record(record)
                transaction = sys_flag & TRANSACTION_MASK
                if not transaction or transaction not in UNDISPATCHED:  # most records have no transaction
                    replay = replays.get((topic, queue_id))
                    if replay is None and is_queued(record):
                        replay = self._begin_replay(record, whole_log=whole_log)
                    tags_code = plain_code = entry_tags_code(topic, properties, stored_ms, delays_ms)
                    if extended and replay is not None:
                        tags_code = replay.tags_code_to_keep(record, plain_code)
                    if replay is not None:
                        replay.add(queue_offset, offset, size_bytes, tags_code)
                    if light and LIGHT_MARK in properties and is_queued(record):
                        self._replay_light_queues(record, plain_code, whole_log=whole_log)
                records += 1
        finally:  # after an error the scan ends after the last replayed record
            report.records += records
            report.end_offset = offset + size_bytes
            report.last_store_timestamp_ms = stored_ms

    def _replay_light_queues(self, record: ScannedRecord, tags_code: int, *, whole_log: bool) -> None:
        for light in light_records(record, lmq=self._lmq):
            replay = self._replays.get((light.topic, light.queue_id))
            if replay is None:
                replay = self._begin_replay(light, whole_log=whole_log)
            if replay is not None:
                code = replay.tags_code_to_keep(light, tags_code)
                replay.add(light.queue_offset, light.physical_offset, light.size_bytes, code)

    def _end_durability_at(self, physical_offset: int) -> None:
        self._undurable_offset = physical_offset
        for replay in self._replays.values():
            replay.begin_rewriting()

    def _begin_replay(self, record: ScannedRecord, *, whole_log: bool) -> QueueReplay | None:
        """Start the replay of a queue with its first record, or report an impossible queueOffset."""
        place = index_of_first_record(record, self._queues)
        try:
            if place == record.queue_offset and not can_record_be_first(record, self._queues):
                raise RecordMisplaced
            replay = QueueReplay(
                self._queues.find_or_create(record.topic, record.queue_id),
                record._replace(queue_offset=place),
                whole_log=whole_log,
                write_again=not self._queues_are_durable or self._undurable_offset != _NOWHERE,
                skipped=self._skipped,
                scanned_from=self._report.start_offset,
                before_change=self._checkpoint.reset_queue_time,
            )
        except RecordMisplaced:
            self._report_misplaced(record.physical_offset, "an offset that the earlier log allows", place)
            return None
        self._replays[record.topic, record.queue_id] = replay
        if self._plain is not None:
            self._plain.register_queue(record.topic, record.queue_id)
        return replay

    def _report_misplaced(self, physical_offset: int, expected: object, found: int) -> None:
        segment = self._log.find(physical_offset)
        assert segment is not None, physical_offset
        at = physical_offset - segment.base_offset + QUEUE_OFFSET_AT
        self._report.findings.append(CorruptFileError(segment.file.path, at, "queueOffset", expected, found))

    # -- results -----------------------------------------------------------------------------------

    def truncate_log(self, end_offset: int) -> bool:
        """Truncate the log durably. Returns whether any removed byte was not zero."""
        segments = self._log.segments
        dirty = self._log.truncate(end_offset)
        if dirty and len(self._log.segments) < len(segments):
            count_mark("whole segments truncated")
        return dirty

    def _cut_last_blank(self) -> None:
        """Truncate the blank record at the end of a slave's log, if the segment after it has lost its records.

        The slave's master may have lost the blank record too, and would then have the shorter log.
        """
        segment = self._log.find(self._report.end_offset - 1)
        if segment is None or segment.end_offset != self._report.end_offset:
            return
        try:
            found = deque(self._scan_segment_records(segment), maxlen=1)
        except CorruptFileError:  # recovery has skipped this damage
            return
        for last in found:
            self._report.end_offset = last.physical_offset + last.size_bytes
            self.truncate_log(self._report.end_offset)

    def _set_log_positions(self, trusted: int) -> None:
        """Set the positions of all segments. Only trusted segments count as durable."""
        segments = self._log.segments
        assert 0 <= trusted <= len(segments), (trusted, len(segments))
        for number, segment in enumerate(segments):
            wrote = min(self._report.end_offset - segment.base_offset, segment.size_bytes)
            # RocketMQ marks the whole log as flushed, and so never syncs pages that are only in the page cache.
            segment.set_positions(wrote, wrote if number < trusted else 0)
        if segments:
            self._log.flushed_where.set(segments[min(trusted, len(segments) - 1)].base_offset)

    def write_again(self) -> None:
        """Write all bytes again that may not be durable, so that the next sync writes them to the disk.

        After a failed sync of an earlier process, Linux marks pages as clean although they are not on the disk.
        """
        for segment in self._log.segments:
            start = max(self._undurable_offset - segment.base_offset, 0)
            segment.write_again(start, segment.wrote.get())

    def finish_queues(self) -> None:
        """Write missing queue entries, remove wrong ones, and set the positions of all queues."""
        report, misplaced = self._report, list[MisplacedCallback]()
        log_begin = max(self._log.min_offset, 0)  # min_offset is -1 if the log has no segment
        syncs_zeros = not self._clean_exit  # an earlier recovery may have been killed during a truncation
        for queue in self._queues.all_queues():
            replay = self._replays.get((queue.topic, queue.queue_id))
            if replay is None:
                report.changed_entries += truncate_to_trusted_entries(
                    queue,
                    report.start_offset,
                    self._skipped,
                    log_begin=log_begin,
                    before_change=self._checkpoint.reset_queue_time,
                    syncs_zeros=syncs_zeros,
                )
                if queue.queue.max_offset == queue.queue.min_offset and self._log.min_offset <= 0:
                    # No segment of the log has expired, so the queue's counter belongs to truncated records.
                    queue.remove_all_segments()
            else:
                replay.finish_replay(log_begin=log_begin, syncs_zeros=syncs_zeros)
                misplaced += replay.misplaced
                if replay.lacks_room is not None:
                    self._leave_to_dispatch(replay, replay.lacks_room)
                report.changed_entries += replay.changed
            queue.correct_min_offset(log_begin)
        for one in sorted(misplaced):
            self._report_misplaced(*one)

    def _leave_to_dispatch(self, replay: QueueReplay, error: OSError) -> None:
        """Let dispatch add the entries that are missing because of a full disk, and count them already."""
        report, queue = self._report, replay.queue
        self._checkpoint.reset_queue_time()  # the checkpoint must not cover missing entries
        report.lacks_room = error
        report.dispatched_to = min(report.dispatched_to, max(queue.max_physical_offset, report.start_offset))
        report.counted[queue.topic, queue.queue_id] = replay.next


def _ignore_record(record: ScannedRecord) -> None:
    """No-op for a store without an index."""
