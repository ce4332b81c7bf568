"""Pull: returns records from a queue offset on, and finds a queue offset by time.

A failed sync may remove bytes from the page cache that readers have already read. After a failed sync, a pull returns
only durable records, and stops before other records and zeroed entries. Only a restart reveals whether the disk
contains the other records.

The search by time follows RocketMQ's getOffsetInQueueByTime. It finds the message *nearest* to the time, not the first
at or after it, and chooses the segment by file mtime. It skips an entry without a record, for which RocketMQ returns 0.
It also skips files that contain no entries or only expired ones.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass

from ..config import StoreConfig
from ..filters.message_filter import MessageFilter, TagFilter
from ..formats.columns import NativeCore
from ..formats.consume_queue import ADDRESS_MAX, BLANK_ENTRY, ENTRY_BYTES, decode_entry, is_valid
from ..formats.messages import GetMessageResult, GetMessageStatus
from ..log.commit_log import CommitLog
from ..log.segment import Segment
from ..marks import count_mark
from ..world import Files
from .consume_queue import ConsumeQueue

_SCAN_BYTES_MIN = 16_000  # RocketMQ DefaultMessageStore.getMessage: minimum of maxFilterMessageCount
_FAR = 1 << 63

_GONE = -1


@dataclass(slots=True, eq=False)
class QueuePuller:
    """Reads the messages that consumers pull."""

    _config: StoreConfig
    _commit_log: CommitLog
    _readable_limit: Callable[[], int]
    _core: NativeCore | None = None

    def get_message(
        self, queue: ConsumeQueue, offset: int, max_messages: int, wanted: MessageFilter
    ) -> GetMessageResult:
        """Return up to max_messages records from a queue offset on.

        Raises OSError if a sync has failed and the first entry may not be durable.
        """
        low, high = queue.min_offset, queue.max_offset
        refused = _answer_outside_queue(offset, low, high)
        if refused is not None:
            status, next_begin_offset = refused
            return GetMessageResult(status, next_begin_offset, low, high)
        raw = queue.entries_from(offset)
        if not raw:
            per_segment = queue.queue.segment_bytes // ENTRY_BYTES
            next_segment = (offset // per_segment + 1) * per_segment
            assert next_segment > offset, (next_segment, offset)  # otherwise the client would pull this offset forever
            return GetMessageResult(GetMessageStatus.OFFSET_FOUND_NULL, next_segment, low, high)
        result = GetMessageResult(GetMessageStatus.NO_MATCHED_MESSAGE, offset, low, high)
        max_messages = max(max_messages, 0)  # the C core accepts only 64 bits
        log = self._commit_log.queue
        has_failed = log.sync_error is not None
        # The limit is read after the entries, so it covers their records even if the log has grown meanwhile.
        self._examine_entries(result, queue, raw, max_messages, wanted, self._readable_limit(), has_failed=has_failed)
        if log.sync_error is not None and not has_failed:  # the scanned records may be lost, so scan again
            result = GetMessageResult(GetMessageStatus.NO_MATCHED_MESSAGE, offset, low, high)
            self._examine_entries(result, queue, raw, max_messages, wanted, self._readable_limit(), has_failed=True)
        return result

    def _examine_entries(
        self,
        result: GetMessageResult,
        queue: ConsumeQueue,
        raw: memoryview,
        max_messages: int,
        wanted: MessageFilter,
        log_limit: int,
        *,
        has_failed: bool,
    ) -> None:
        """Examine entries of one segment, 800 or more, until the result is full.

        has_failed: whether a sync of the log has failed. Skips a single entry if it is blank or its record is
        unreadable, because later records in the same log segment may exist. Skips entries before the start of the log
        without reading the log.
        """
        in_memory_bytes = self._config.access_message_in_memory_max_bytes
        segment_queue, unsure_from = queue.queue, _FAR
        if has_failed:
            unsure_from = log_limit = min(log_limit, self._commit_log.queue.flushed_where.get())
        begin, removed_to, total_bytes, last = result.next_begin_offset, 0, 0, 0
        matches_queue, reads_records = wanted.matches_queue, wanted.reads_records
        scan_bytes = min(len(raw), max(_SCAN_BYTES_MIN, ENTRY_BYTES * max_messages))
        scanned = 0
        if self._core is not None and isinstance(wanted, TagFilter):
            scanned, total_bytes, last = self._read_plain_entries(
                result, raw[:scan_bytes], max_messages, wanted, log_limit
            )
        for at in range(scanned * ENTRY_BYTES, scan_bytes, ENTRY_BYTES):
            physical_offset, size_bytes, tags_code = decode_entry(raw, at)
            is_real = 0 < size_bytes < BLANK_ENTRY.size_bytes
            if (
                physical_offset + size_bytes > unsure_from
                if is_real
                else size_bytes <= 0 and segment_queue.sync_error is not None
            ):
                if not scanned:
                    place = f"{queue.topic}/{queue.queue_id} @ {begin}"
                    raise OSError(errno.EIO, "a sync has failed: only a restart shows which messages remain", place)
                break
            if not is_real:
                if not result.records:
                    result.status = GetMessageStatus.MESSAGE_WAS_REMOVING
            elif physical_offset >= removed_to:
                last = physical_offset
                in_disk = log_limit - physical_offset > in_memory_bytes
                end_bytes = total_bytes + size_bytes
                if self._is_result_full(len(result.records), end_bytes, max_messages, in_disk=in_disk):
                    break
                matched_code: int | None = tags_code
                unit = None
                if tags_code <= ADDRESS_MAX:
                    unit = queue.ext_unit_at(tags_code)
                    matched_code = None if unit is None else unit.tags_code
                if matches_queue(matched_code, unit):
                    record = self._commit_log.record_bytes(physical_offset, size_bytes, log_limit)
                    if record is None:
                        if not result.records:
                            result.status = GetMessageStatus.MESSAGE_WAS_REMOVING
                        log_min_offset = self._commit_log.queue.min_offset
                        if physical_offset < log_min_offset:
                            removed_to = log_min_offset
                    elif reads_records and not wanted.matches_record(record):
                        if not result.records:
                            result.status = GetMessageStatus.NO_MATCHED_MESSAGE
                    else:
                        result.records.append(record)
                        result.queue_offsets.append(begin + at // ENTRY_BYTES)
                        result.physical_offsets.append(physical_offset)
                        total_bytes = end_bytes
                        result.status = GetMessageStatus.FOUND
                elif not result.records:
                    result.status = GetMessageStatus.NO_MATCHED_MESSAGE
            scanned = at // ENTRY_BYTES + 1
        assert scanned * ENTRY_BYTES <= len(raw), (scanned, len(raw))
        result.next_begin_offset = begin + scanned
        result.fall_behind_bytes = log_limit - last
        result.suggest_pulling_from_slave = result.fall_behind_bytes > in_memory_bytes

    def _read_plain_entries(
        self, result: GetMessageResult, raw: memoryview, max_messages: int, wanted: TagFilter, log_limit: int
    ) -> tuple[int, int, int]:
        """With the C core, read records of the first entries as long as they are plain and in one log segment.

        Returns the number of entries, the total size of their records, and the log offset of the last record.
        """
        assert self._core is not None
        config = self._config
        segment = self._commit_log.queue.find(decode_entry(raw, 0).physical_offset)
        if segment is None:
            return 0, 0, 0
        end = max(min(segment.readable.get(), log_limit - segment.base_offset), 0)
        records, offsets, places, scanned, taken_bytes, last = self._core.pull(
            raw,
            segment.file.view(0, end),
            segment.base_offset,
            max(log_limit - config.access_message_in_memory_max_bytes, 0),
            wanted.codes,
            min(max_messages, config.max_transfer_count_on_message_in_memory),
            config.max_transfer_bytes_on_message_in_memory,
        )
        if records:
            result.records = records
            result.physical_offsets = offsets
            result.queue_offsets = [result.next_begin_offset + place for place in places]
            result.status = GetMessageStatus.FOUND
        return scanned, taken_bytes, last

    def _is_result_full(self, count: int, end_bytes: int, max_messages: int, *, in_disk: bool) -> bool:
        """Return whether the next record would exceed a limit. The first record of a pull always fits."""
        if count == 0:
            return False
        if count >= max_messages:
            return True
        config = self._config
        if in_disk:
            bytes_max = config.max_transfer_bytes_on_message_in_disk
            count_max = config.max_transfer_count_on_message_in_disk
        else:
            bytes_max = config.max_transfer_bytes_on_message_in_memory
            count_max = config.max_transfer_count_on_message_in_memory
        return end_bytes > bytes_max or count >= count_max


def _answer_outside_queue(offset: int, low: int, high: int) -> tuple[GetMessageStatus, int] | None:
    if high == 0:
        return GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < low:
        count_mark("pull below minimum offset")
        return GetMessageStatus.OFFSET_TOO_SMALL, low
    if offset == high:
        return GetMessageStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > high:
        count_mark("pull past maximum offset")
        return GetMessageStatus.OFFSET_OVERFLOW_BADLY, high
    return None


def offset_by_time(files: Files, commit_log: CommitLog, queue: ConsumeQueue, timestamp_ms: int, log_limit: int) -> int:
    """Return the offset of the message with the store time nearest to timestamp_ms, or 0."""
    segment = _segment_by_time(files, queue, timestamp_ms)
    if segment is None:
        return 0
    log_min = commit_log.queue.min_offset
    low = max(0, queue.min_logic_offset - segment.base_offset)
    high = segment.wrote.get() - ENTRY_BYTES
    left = right = -1
    left_ms = right_ms = -1
    while high >= low:
        middle = (low + high) // (2 * ENTRY_BYTES) * ENTRY_BYTES
        found = middle
        while (
            record_ms := _store_time_of_entry_ms(commit_log, segment, found, log_min, log_limit)
        ) is None and found < high:
            found += ENTRY_BYTES  # the entry has no record, so the next entry decides the direction
        if record_ms is None:
            high = middle - ENTRY_BYTES
        elif record_ms == _GONE:
            low, left = found + ENTRY_BYTES, found
        elif record_ms == timestamp_ms:
            return (segment.base_offset + found) // ENTRY_BYTES
        elif record_ms > timestamp_ms:
            high, right, right_ms = middle - ENTRY_BYTES, found, record_ms
        else:
            low, left, left_ms = found + ENTRY_BYTES, found, record_ms
    if left_ms == right_ms == -1:
        nearest = low  # no entry has a record, so begin after the expired ones
    elif left_ms == -1:
        nearest = right
    elif right_ms == -1 or timestamp_ms - left_ms <= right_ms - timestamp_ms:
        nearest = left
    else:
        nearest = right
    return (segment.base_offset + nearest) // ENTRY_BYTES


def _store_time_of_entry_ms(
    commit_log: CommitLog, segment: Segment, at: int, log_min: int, log_limit: int
) -> int | None:
    """Return the store time of an entry's record; _GONE if retention removed the record, None if it is missing."""
    entry = decode_entry(segment.file.view(at, at + ENTRY_BYTES), 0)
    if not is_valid(entry):
        return None
    if entry.physical_offset < log_min:
        return _GONE
    record = commit_log.record_at(entry.physical_offset, log_limit)
    return None if record is None else record.store_timestamp_ms


def _segment_by_time(files: Files, queue: ConsumeQueue, timestamp_ms: int) -> Segment | None:
    """Return the first segment with unexpired entries and an mtime at or after the time, else the last segment."""
    ends = [(segment, segment.base_offset + segment.wrote.get()) for segment in queue.queue.segments]
    segments = [segment for segment, end in ends if max(segment.base_offset, queue.min_logic_offset) < end]
    for segment in segments:
        status = files.status(segment.file.path)
        if status is not None and status.mtime_ms >= timestamp_ms:
            return segment
    return segments[-1] if segments else None
