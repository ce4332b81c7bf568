"""FILES: a store leaves exactly its own files, each in its directory, with its size and its time.

    file                directory                                          size
    log segment         a log directory, which POS checks                  mappedFileSizeCommitLog
    queue segment       consumequeue/TOPIC/ID                              mappedFileSizeConsumeQueue, whole entries
    its extension       consumequeue_ext/TOPIC/ID                          mappedFileSizeConsumeQueueExt
    index file          index                                              header, slots and entries
    checkpoint          the root                                           4096
    lock, abort         the root                                           4 and 0; abort only until a clean stop
    progress            config, with one earlier version in .bak           any

Each file is one that the store has open, so a file that a crash left, or that no record needs, must be gone after a
load. A load writes to segments, but leaves their modification times, by which retention and searches by time choose.
A log begins at offset 0 until retention removes its first segment, because segments are created in order.

The caller omits runs with altered files, and stores that met a disk error: a failed removal leaves a file.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress

from ....faults.disk.disk import Disk
from ....store.config import StoreConfig
from ....store.log.segment import Segment
from ....store.message_store import MessageStore
from ...claims.disk_models import DISK_MODELS
from ...claims.plan import DAMAGING, LifeEnding, Plan
from ..evidence import Violation, record_tried
from ..reader import ENTRY, UnreadableError, points_at_record, read_records, valid_record_at_position

_CHECKPOINT_BYTES = 4096
_LOCK = b"lock"
_PROGRESS = ("delayOffset.json", "consumerOffset.json", "lmqConsumerOffset.json")


def can_check_files(plan: Plan) -> bool:
    """Return whether the run has a single store on a sound disk, and no file of the store was altered.

    A load also completes a short checkpoint or queue file, and reports foreign files.
    """
    altered = any(life.ending in DAMAGING - {LifeEnding.STOP_AND_STRAYS} for life in plan.lives)
    return plan.is_alone and DISK_MODELS[plan.disk].is_sound and not altered


def check_files(store: MessageStore, disk: Disk, *, is_stopped: bool = False) -> Iterator[Violation]:
    """Yield each file that the store should not have, lacks, or has with another size.

    Call this while no service runs. is_stopped: whether the store was stopped cleanly.
    """
    record_tried("FILES")
    sizes, config = _sizes_by_path(store), store.config
    optional = {f"{config.config_directory}/{name}{end}" for name in _PROGRESS for end in ("", ".bak")}
    if not is_stopped:
        optional.add(config.abort_path)
    tops = tuple(f"{top}/" for top in (config.store_path_root_dir, *config.commit_log_directories))
    there = {path for path in disk.paths if path.startswith(tops)}
    ignored = (*_named_foreign(store), *_unused_directories(store))
    for path in sorted(there - sizes.keys() - optional):
        if not f"{path}/".startswith(ignored):
            yield _violation("a file that is neither needed nor reported", path, "file", "none", "there")
    for path, size_bytes in sizes.items():
        found = len(disk.content(path)) if path in there else "none"
        if found != size_bytes:
            yield _violation("a file of the store is missing or has a wrong size", path, "size", size_bytes, found)
    if disk.content(config.lock_path) != _LOCK:
        yield _violation("a wrong lock file", config.lock_path, "content", _LOCK, disk.content(config.lock_path))


def _named_foreign(store: MessageStore) -> tuple[str, ...]:
    """Return the foreign files and directories that the load reported, each with a slash at its end."""
    report = store.last_recovery
    assert report is not None, "the store is loaded"
    return tuple(f"{error.file}/" for error in (*report.unknown_entries, *report.findings))


def _unused_directories(store: MessageStore) -> Iterator[str]:
    """Yield the directories of features that are off. They stay for the start that switches the feature on again."""
    if store.index is None:
        yield f"{store.config.index_directory}/"
    if store.queues.ext_directory is None:
        yield f"{store.config.consume_queue_ext_directory}/"


def _sizes_by_path(store: MessageStore) -> dict[str, int]:
    config = store.config
    rows = [store.log, *(queue.queue for queue in store.queues.all_queues())]
    rows += [queue.ext.queue for queue in store.queues.all_queues() if queue.ext is not None]
    sizes = {segment.file.path: row.segment_bytes for row in rows for segment in row.segments}
    if store.index is not None:
        sizes |= {file.file.path: store.index.table.file_bytes for file in store.index.table.files}
    return sizes | {config.checkpoint_path: _CHECKPOINT_BYTES, config.lock_path: len(_LOCK)}


def check_first_segment(store: MessageStore, expired_to: int) -> Iterator[Violation]:
    """Yield a log that begins at a later offset than retention has removed segments, even if it has no record.

    expired_to: the end of the last removed segment.
    """
    record_tried("FILES")
    if store.log.min_offset > expired_to:
        summary = "a log does not begin with its first segment"
        yield _violation(summary, store.log.segments[0].file.path, "base offset", expired_to, store.log.min_offset)


def read_times(disk: Disk, config: StoreConfig) -> dict[str, int | None]:
    """Return the modification times of all files of log and queues. Call this before a load."""
    tops = tuple(f"{top}/" for top in (*config.commit_log_directories, config.consume_queue_directory))
    return {path: disk.mtime_ms(path) for path in disk.paths if path.startswith(tops)}


def check_times(before: Mapping[str, int | None], disk: Disk, store: MessageStore) -> Iterator[Violation]:
    """After a load, yield each segment file with another modification time than before the load.

    A queue file that the load has made has the store time of its last message.
    """
    for segment in store.log.segments:
        record_tried("FILES")
        yield from _check_time(disk, segment, before.get(segment.file.path))
    for queue in store.queues.all_queues():
        for segment in queue.queue.segments:
            if disk.mtime_ms(segment.file.path) != before.get(segment.file.path):
                yield from _check_time(disk, segment, _last_stored_ms(store, segment))


def check_report(store: MessageStore) -> Iterator[Violation]:
    """After a load without damage, yield each fact about the log that the report of the recovery gets wrong."""
    report, log = store.last_recovery, store.log
    if report is None or not log.segments:
        return
    records, last_ms = 0, 0
    for segment in log.segments:
        view, base = segment.file.view(0, segment.size_bytes), segment.base_offset
        with suppress(UnreadableError):  # PREFIX reports the error
            for record, _ in read_records(view, segment.wrote.get(), file=segment.file.path, base_offset=base):
                records += record.physical_offset >= report.start_offset
                last_ms = record.store_timestamp_ms
    facts = (("end", report.end_offset, log.max_offset), ("records", report.records, records))
    for field, found, wanted in (*facts, ("last store time", report.last_store_timestamp_ms, last_ms)):
        if found != wanted:
            yield _violation("a recovery reports a wrong fact", "commitlog", field, wanted, found)


def _check_time(disk: Disk, segment: Segment, wanted_ms: int | None) -> Iterator[Violation]:
    path, found_ms = segment.file.path, disk.mtime_ms(segment.file.path)
    if wanted_ms is not None and found_ms != wanted_ms:
        yield _violation("a load changed the modification time of a file", path, "mtime", wanted_ms, found_ms)


def _last_stored_ms(store: MessageStore, segment: Segment) -> int | None:
    """Return the store time of the last message in a queue file, None if the file has only blank entries."""
    for entry in reversed(list(ENTRY.iter_unpack(segment.file.view(0, segment.wrote.get())))):
        if points_at_record(*entry) and (log_segment := store.log.find(entry[0])) is not None:
            end = log_segment.wrote.get()
            at, view = entry[0] - log_segment.base_offset, log_segment.file.view(0, end)
            reading = valid_record_at_position(view, at, end, entry[0])
            return None if reading is None else reading.record.store_timestamp_ms
    return None


def _violation(summary: str, file: str, field: str, expected: object, found: object) -> Violation:
    return Violation("FILES", summary, file, 0, field, str(expected), str(found))
