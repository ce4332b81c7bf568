"""Bugs of files: not removed, in a wrong directory or with a wrong time; and untrue reports of a load."""

from collections.abc import Callable, Iterable

from ....store.config import StoreConfig
from ....store.directories import directory_of
from ....store.formats.consume_queue import ENTRY_BYTES, decode_entry, is_valid
from ....store.index.index_service import IndexFiles
from ....store.log.allocate import AllocateMappedFileService
from ....store.log.commit_log import CommitLog
from ....store.log.segment import Segment, segment_name
from ....store.log.segment_queue import SegmentDirectories, SegmentQueue
from ....store.queues.consume_queue import ConsumeQueue
from ....store.recovery import segment_times
from ....store.recovery.recovery import Recovery, RecoveryReport
from ....store.recovery.segment_times import SegmentTimes
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

_READ_ONLY = SCENARIOS["log-directory-read-only"].ranges.replace(
    log_directories={"read_only_from": (1,)}, retention={"deletes_segments": (False,)}
)


# Each restart leaves a file more, until the disk is full.
@bug("dropped-index-files-stay", IndexFiles, "_remove_files", found_by=("FILES", "IDX"))
@needs(index={"slots": (5,), "keys_chance": (0.3,)}, endings=("crash at rest",), lives=(2,))
def forget_files(self: IndexFiles, paths: list[str]) -> None:
    """Recovery does not remove the index files that it builds again."""
    bit(bool(paths))


@bug("expired-index-files-stay", IndexFiles, "delete_expired", found_by=("FILES",))
@needs(
    retention={"deletes_segments": (True,)},
    index={"slots": (5,), "entries": (5,)},
    commit_log_bytes=(1024,),
    messages={"body_bytes_max": (300,), "property_bytes_max": (0,)},
    messages_each=(16, 24),
    endings=("stop",),
)
def forget_expired(self: IndexFiles, log_min_offset: int) -> int:
    """Retention closes expired index files, but does not remove them from the disk."""
    count = 0
    with self._syncing:
        while len(self.files) > 1 and bit(self.files[0].end_physical_offset < log_min_offset):
            self.files[0].file.close()
            self.files, count = self.files[1:], count + 1
    return count


@bug("spare-segments-stay", AllocateMappedFileService, "finish_remaining_work", found_by=("FILES",))
@needs(commit_log_bytes=(1024, 2048), endings=("stop",))
def leave_spare_segments(self: AllocateMappedFileService) -> None:
    """A clean stop leaves the segments that were created in advance."""
    for request in self._requests.values():
        if bit(request.segment is not None) and request.segment is not None:
            self._close_file(request.base_offset, request.segment.file)
    self._requests.clear()


@bug("log-directories-unused", SegmentDirectories, "path", found_by=("POS",))
@needs(directories={"log_directories": (2, 3)}, commit_log_bytes=(1024, 2048))
def path_in_first(self: SegmentDirectories, base_offset: int, segment_bytes: int) -> str:
    """All new segments go to the first of several log directories."""
    found = path_in_first.original(self, base_offset, segment_bytes)
    first = f"{self.writable[0]}/{segment_name(base_offset)}"
    return first if bit(found != first and self._files.status(found) is None) else found


# A power cut then removes a segment with acknowledged messages.
@bug(
    "first-log-directory-synced", AllocateMappedFileService, "make_durable", found_by=("DUR", "START", "PREFIX", "CKPT")
)
@needs(
    directories={"log_directories": (2, 3)},
    disk=("strict-posix",),
    sync_flush=(True,),
    commit_log_bytes=(1024, 2048),
    messages={"body_bytes_max": (300, 700)},
    messages_each=(16,),
    endings=("crash at rest", "crash in traffic"),
)
def sync_first_directory(self: AllocateMappedFileService, path: str) -> None:
    """With several log directories, a new segment's name is synced in the first one instead of its own."""
    self.world.files.sync(path)
    first = self._queue._directories.writable[0]
    bit(directory_of(path) != first)
    self.world.files.sync_directory(first)


# Retention then keeps old messages for days more, and a search by time begins in a wrong file.
@bug("load-renews-times", SegmentTimes, "restore_mtimes", found_by=("FILES",))
@needs(endings=("crash at rest", "crash in traffic"), lives=(1, 2), messages_each=(8, 16))
def keep_new_times(self: SegmentTimes, commit_log: CommitLog, queues: Iterable[ConsumeQueue]) -> None:
    """Recovery renews the modification times of the segments that it writes."""
    bit(any(self._mtime_ms(one) != self._before_ms.get(one.file.path) for one in commit_log.queue.segments))


@bug("rebuilt-queues-look-new", SegmentTimes, "restore_mtimes", found_by=("FILES",))
@needs(disk=("strict-posix",), pauses={"chance": (0.5,)}, endings=("crash at rest", "crash in traffic"), lives=(1, 2))
def keep_new_times_of_queues(self: SegmentTimes, commit_log: CommitLog, queues: Iterable[ConsumeQueue]) -> None:
    """A queue file that recovery builds has the time of the recovery instead of that of its last message."""
    known = [queue for queue in queues if all(one.file.path in self._before_ms for one in queue.queue.segments)]
    bit(len(known) < len(list(queues)))
    keep_new_times_of_queues.original(self, commit_log, known)


@bug("foreign-files-unnamed", SegmentQueue, "load", found_by=("FILES",))
@needs(endings=("stop and strays",), lives=(2,))
def load_silently(self: SegmentQueue, *, before_loss: Callable[[], None] | None = None) -> None:
    """A load does not report foreign files."""
    load_silently.original(self, before_loss=before_loss)
    bit(bool(self.unknown_entries))
    self.unknown_entries = []


@bug("report-misses-last-record", Recovery, "run", found_by=("FILES",))
@needs(lives=(1, 2))
def run_and_count_short(self: Recovery) -> RecoveryReport:
    """The report of a recovery counts one record too few."""
    report = run_and_count_short.original(self)
    report.records -= bit(report.records > 0)
    return report


@bug("read-only-directory-gets-segments", StoreConfig, "writable_commit_log_directories", found_by=("POS",))
@needs(_READ_ONLY)
def every_directory(self: StoreConfig) -> tuple[str, ...]:
    """A store creates segments in a directory that its operator has made read-only."""
    bit(bool(self.read_only_commit_log_directories))
    return self.commit_log_directories


@bug("read-only-directory-not-loaded", SegmentDirectories, "existing_directories", found_by=("DUR", "PREFIX", "START"))
@needs(_READ_ONLY)
def writable_directories(self: SegmentDirectories) -> list[str]:
    """A load does not look for segments in read-only directories, so their messages are lost."""
    found = writable_directories.original(self)
    bit(any(each not in self.writable for each in found))
    return [each for each in found if each in self.writable]


# ROCKETMQ-239. A search by time reads the times of queue files.
@bug("rebuilt-queue-dated-by-first", segment_times, "_last_stored_ms", found_by=("FILES",))
@needs(
    disk=("strict-posix",),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    endings=("crash at rest", "crash in traffic"),
    lives=(1, 2),
    messages_each=(8, 16),
)
def first_stored_ms(commit_log: CommitLog, segment: Segment) -> int | None:
    """A queue file that recovery builds has the time of its first message instead of that of its last."""
    entries = (
        decode_entry(segment.file.view(at, at + ENTRY_BYTES), 0) for at in range(0, segment.wrote.get(), ENTRY_BYTES)
    )
    first = next(filter(is_valid, entries), None)
    record = None if first is None else commit_log.record_at(first.physical_offset, commit_log.queue.max_offset)
    found = None if record is None else record.store_timestamp_ms
    bit(found != first_stored_ms.original(commit_log, segment))
    return found
