"""Segment times: when each file of log and queues was last changed, as retention and time queries take it, kept."""

from collections.abc import Iterable

from ..formats.consume_queue import ENTRY_BYTES, decode_entry, is_valid
from ..log.commit_log import CommitLog
from ..log.segment import Segment
from ..log.segment_queue import SegmentQueue
from ..queues.consume_queue import ConsumeQueue
from ..world import Files


class SegmentTimes:
    """The times of all segments of some rows, as they were when this was made."""

    def __init__(self, files: Files, rows: Iterable[SegmentQueue]) -> None:
        self._files = files
        segments = [segment for row in rows for segment in row.segments]
        self._before_ms = {segment.file.path: self._mtime_ms(segment) for segment in segments}

    def put_back(self, commit_log: CommitLog, queues: Iterable[ConsumeQueue]) -> None:
        """Give every segment its time back; one of a queue that is new gets the store time of its last message.

        If a gap takes all of that one it is the last message in front of it: no query by time is to be led there.
        """
        for segment in commit_log.queue.segments:
            self._set(segment, self._before_ms.get(segment.file.path))
        for queue in queues:
            last_ms = None
            for segment in queue.queue.segments:
                before_ms = self._before_ms.get(segment.file.path)
                if before_ms is None:
                    before_ms = _last_stored_ms(commit_log, segment) or last_ms
                self._set(segment, before_ms)
                last_ms = before_ms

    def _set(self, segment: Segment, mtime_ms: int | None) -> None:
        if mtime_ms is not None and self._mtime_ms(segment) != mtime_ms:
            self._files.set_mtime_ms(segment.file.path, mtime_ms)

    def _mtime_ms(self, segment: Segment) -> int | None:
        status = self._files.status(segment.file.path)
        return None if status is None else status.mtime_ms


def _last_stored_ms(commit_log: CommitLog, segment: Segment) -> int | None:
    """Return the store time of the last message that a queue's segment leads to, None if it leads to none."""
    for end in range(segment.wrote.get(), 0, -ENTRY_BYTES):
        entry = decode_entry(segment.file.view(end - ENTRY_BYTES, end), 0)
        if is_valid(entry):  # the last ones may be blanks that fill a gap
            record = commit_log.record_at(entry.physical_offset, commit_log.queue.max_offset)
            return None if record is None else record.store_timestamp_ms
    return None
