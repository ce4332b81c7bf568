"""Segment times: restores the mtimes of segment files after recovery.

Recovery writes to segment files and so changes their mtimes, which retention and searches by time use.
"""

from collections.abc import Iterable

from ..formats.consume_queue import ENTRY_BYTES, decode_entry, is_valid
from ..log.commit_log import CommitLog
from ..log.segment import Segment
from ..log.segment_queue import SegmentQueue
from ..queues.consume_queue import ConsumeQueue
from ..world import Files


class SegmentTimes:
    """The mtimes of segment files before recovery."""

    def __init__(self, files: Files, segment_queues: Iterable[SegmentQueue]) -> None:
        self._files = files
        segments = [segment for segment_queue in segment_queues for segment in segment_queue.segments]
        self._before_ms = {segment.file.path: self._mtime_ms(segment) for segment in segments}

    def restore_mtimes(self, commit_log: CommitLog, queues: Iterable[ConsumeQueue]) -> None:
        """Restore all mtimes. A new queue segment gets the store time of the last message in the segment.

        A segment of only blank entries gets the previous segment's mtime, so that a search by time does not select it.
        """
        for segment in commit_log.queue.segments:
            self._set_mtime(segment, self._before_ms.get(segment.file.path))
        for queue in queues:
            last_ms = None
            for segment in queue.queue.segments:
                before_ms = self._before_ms.get(segment.file.path)
                if before_ms is None:
                    before_ms = _last_stored_ms(commit_log, segment) or last_ms
                self._set_mtime(segment, before_ms)
                last_ms = before_ms

    def _set_mtime(self, segment: Segment, mtime_ms: int | None) -> None:
        if mtime_ms is not None and self._mtime_ms(segment) != mtime_ms:
            self._files.set_mtime_ms(segment.file.path, mtime_ms)

    def _mtime_ms(self, segment: Segment) -> int | None:
        status = self._files.status(segment.file.path)
        return None if status is None else status.mtime_ms


def _last_stored_ms(commit_log: CommitLog, segment: Segment) -> int | None:
    for end in range(segment.wrote.get(), 0, -ENTRY_BYTES):
        entry = decode_entry(segment.file.view(end - ENTRY_BYTES, end), 0)
        if is_valid(entry):  # blank entries at the end are skipped
            record = commit_log.record_at(entry.physical_offset, commit_log.queue.max_offset)
            return None if record is None else record.store_timestamp_ms
    return None
