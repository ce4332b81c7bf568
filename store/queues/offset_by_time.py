"""From a store time to a queue offset: RocketMQ's getOffsetInQueueByTime, to the letter.

It is the *nearest* message, not the first at or after the time, and the segment is picked by the file's mtime. An entry
without a record, which ends RocketMQ's search at 0, is passed over, and so is a file that holds none yet.
"""

from ..formats.consume_queue import ENTRY_BYTES, decode_entry, is_valid
from ..log.commit_log import CommitLog
from ..log.segment import Segment
from ..world import Files
from .consume_queue import ConsumeQueue

_GONE = -1


def offset_by_time(
    files: Files, commit_log: CommitLog, queue: ConsumeQueue, timestamp_ms: int, log_limit: int
) -> int:
    """Return the queue offset of the message stored nearest to timestamp_ms; 0 if there is none."""
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
            record_ms := _stored_ms(commit_log, segment, found, log_min, log_limit)
        ) is None and found < high:
            found += ENTRY_BYTES  # a hole: what is behind it says on which side to go on
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
    if left_ms == -1:
        nearest = right
    elif right_ms == -1 or timestamp_ms - left_ms <= right_ms - timestamp_ms:
        nearest = left
    else:
        nearest = right
    return max(0, (segment.base_offset + nearest)) // ENTRY_BYTES


def _stored_ms(commit_log: CommitLog, segment: Segment, at: int, log_min: int, log_limit: int) -> int | None:
    """Return the store time of an entry's record, _GONE if it has left the log, None if there is none."""
    entry = decode_entry(segment.file.view(at, at + ENTRY_BYTES), 0)
    if not is_valid(entry):
        return None
    if entry.physical_offset < log_min:
        return _GONE
    record = commit_log.record_at(entry.physical_offset, log_limit)
    return None if record is None else record.store_timestamp_ms


def _segment_by_time(files: Files, queue: ConsumeQueue, timestamp_ms: int) -> Segment | None:
    """Return the first segment changed at or after a time, or the last one; one without an entry says nothing."""
    segments = [segment for segment in queue.queue.segments if segment.wrote.get()]
    for segment in segments:
        status = files.status(segment.file.path)
        if status is not None and status.mtime_ms >= timestamp_ms:
            return segment
    return segments[-1] if segments else None
