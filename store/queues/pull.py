"""The read path: from a queue offset to records, through the queue's entries and the tag filter."""

from collections.abc import Callable

from ..config import StoreConfig
from ..filters.message_filter import MessageFilter
from ..formats.consume_queue import BLANK_ENTRY, ENTRY_BYTES, decode_entry
from ..formats.consume_queue_ext import ADDRESS_MAX
from ..get_result import GetMessageResult, GetMessageStatus
from ..log.commit_log import CommitLog
from ..marks import hit
from .consume_queue import ConsumeQueue

_SCAN_BYTES_MIN = 16_000


class Puller:
    """Answers pulls over one log."""

    def __init__(self, config: StoreConfig, commit_log: CommitLog, readable_limit: Callable[[], int]) -> None:
        self._config = config
        self._commit_log = commit_log
        self._readable_limit = readable_limit

    def get_message(
        self, queue: ConsumeQueue, offset: int, max_messages: int, wanted: MessageFilter
    ) -> GetMessageResult:
        """Return up to max_messages records from a queue offset on."""
        low, high = queue.min_offset, queue.max_offset
        refused = _refusal(offset, low, high)
        if refused is not None:
            status, next_begin_offset = refused
            return GetMessageResult(status, next_begin_offset, low, high)
        raw = queue.entries_from(offset)
        if not raw:
            per_segment = queue.queue.segment_bytes // ENTRY_BYTES
            next_segment = (offset // per_segment + 1) * per_segment
            return GetMessageResult(GetMessageStatus.OFFSET_FOUND_NULL, next_segment, low, high)
        result = GetMessageResult(GetMessageStatus.NO_MATCHED_MESSAGE, offset, low, high)
        # Asked after the entries were read: what they point at is below it, however far the log has grown since.
        self._scan(result, queue, raw, max_messages, wanted, self._readable_limit())
        return result

    def _scan(
        self,
        result: GetMessageResult,
        queue: ConsumeQueue,
        raw: memoryview,
        max_messages: int,
        wanted: MessageFilter,
        log_limit: int,
    ) -> None:
        """Walk the entries of one segment, at least 800 of them, until the answer is full.

        An entry without a record, be it blank or one whose record is gone, costs nothing but itself: what lies behind
        it in the same segment of the log is there. Only of what retention has removed, all that the log no longer
        begins with is passed over without a look.
        """
        in_memory_bytes = self._config.access_message_in_memory_max_bytes
        begin, removed_to, total_bytes, last = result.next_begin_offset, 0, 0, 0
        matches_queue, reads_records = wanted.matches_queue, wanted.reads_records
        scan_bytes = min(len(raw), max(_SCAN_BYTES_MIN, ENTRY_BYTES * max_messages))
        scanned = 0
        for at in range(0, scan_bytes, ENTRY_BYTES):
            physical_offset, size_bytes, tags_code = decode_entry(raw, at)
            if not 0 < size_bytes < BLANK_ENTRY.size_bytes:
                if not result.records:
                    result.status = GetMessageStatus.MESSAGE_WAS_REMOVING
            elif physical_offset >= removed_to:
                last = physical_offset
                in_disk = log_limit - physical_offset > in_memory_bytes
                end_bytes = total_bytes + size_bytes
                if self._is_full(len(result.records), end_bytes, max_messages, in_disk=in_disk):
                    break
                matched_code: int | None = tags_code
                unit = None
                if tags_code <= ADDRESS_MAX:
                    unit = queue.unit_at(tags_code)
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
        result.next_begin_offset = begin + scanned
        result.fall_behind_bytes = log_limit - last
        result.suggest_pulling_from_slave = result.fall_behind_bytes > in_memory_bytes

    def _is_full(self, count: int, end_bytes: int, max_messages: int, *, in_disk: bool) -> bool:
        """Return whether the answer must end before an entry that would make it end_bytes; never before the first."""
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


def _refusal(offset: int, low: int, high: int) -> tuple[GetMessageStatus, int] | None:
    """Return the answer to an offset outside of the queue, with where to go on; None if it is inside."""
    if high == 0:
        return GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < low:
        hit("pull before the queue")
        return GetMessageStatus.OFFSET_TOO_SMALL, low
    if offset == high:
        return GetMessageStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > high:
        hit("pull beyond the queue")
        return GetMessageStatus.OFFSET_OVERFLOW_BADLY, high
    return None
