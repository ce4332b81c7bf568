"""SCAN: recovery reads as much of the log as settings and checkpoint require, and no more.

    state              start of the scan
    recoverWholeLog    the log's beginning
    a clean exit       the last three segments if the checkpoint has a time for queues, otherwise the log's beginning
    a crash            the newest segment that begins before the checkpoint's time, less its margin
    an index, too      the last record of the kept index files, if that is earlier: after a clean exit all files
                       are kept, after a crash the first ones that are full and covered by the checkpoint

After a clean exit, recovery reports damage, and changes queue entries, only if the disk or the test has changed the
files.

Recovery may read the whole log if entries before that start are missing, if a queue's first file is missing, or if
files were changed while the store was off. The caller omits runs with such changes.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ....faults.disk.disk import Disk
from ....store.config import StoreConfig
from ....store.directories import directory_of
from ....store.formats.checkpoint import (
    CHECKPOINT_BYTES,
    SAFETY_MARGIN_MS,
    CheckpointValues,
    decode_checkpoint,
    is_creation_interrupted,
)
from ....store.formats.consume_queue import ENTRY_BYTES, is_blank
from ....store.message_store import MessageStore
from ....store.recovery.recovery import RecoveryReport
from ...claims.disk_models import DISK_MODELS
from ...claims.machine import INDEX_SIZES
from ...claims.plan import DAMAGING, Plan
from ..evidence import Violation, record_tried
from ..reader import UnreadableError, read_records
from ..recovered import first_difference
from . import live

_SEGMENTS_AFTER_CLEAN_EXIT = 3
_DISKS_THAT_CHANGE_DATA = ("dying-disk", "lying-disk")


def check_reported_damage(plan: Plan, report: RecoveryReport | None, killed_load: bool) -> Iterator[Violation]:
    """Yield each damage that a recovery after a clean exit reports although no file was changed.

    killed_load: whether a load since that exit was killed. It may have been adding records to the index, or clearing
    the bytes after the end of the log, of which a power cut keeps some sectors.
    """
    is_altered = any(life.ending in DAMAGING for life in plan.lives) or plan.disk in _DISKS_THAT_CHANGE_DATA
    if report is None or not report.clean_exit or is_altered:
        return
    record_tried("SCAN")
    for finding in report.findings:
        if finding.found == "0" and finding.field == "file size" and plan.faults.failed_removal_chance:
            continue  # the creation of the file failed on a full disk, and then its removal
        has_other_size = finding.field == "file size" and plan.starts.switched in INDEX_SIZES
        if (killed_load or has_other_size) and directory_of(finding.file).endswith("/index"):
            continue
        if killed_load and (finding.field, finding.found) == ("magicCode", f"{0:08x}"):
            continue
        summary = "recovery reports damage after a clean stop"
        place = finding.file, finding.offset, finding.field
        yield Violation("SCAN", summary, *place, f"no damage, not {finding.expected}", str(finding.found))


class ScanBounds(NamedTuple):
    """The state of the disk before a load, which limits how much of the log recovery may read."""

    is_clean: bool
    checkpoint: CheckpointValues
    queue_files: Mapping[str, bytes]
    """Path -> content after a clean exit, otherwise no bytes."""


def can_check_scan(plan: Plan) -> bool:
    """Return whether only crashes and stops have affected the files of a run.

    Skipped queue offsets, and an index that lacks messages, also make recovery read the whole log. After the switch of
    `enable_consume_queue_ext`, recovery replaces addresses by tags codes.
    """
    is_switched = plan.starts.switched in ("message_index_enable", "enable_consume_queue_ext", *INDEX_SIZES)
    if plan.starts.skipped_numbers_max or is_switched:
        return False
    is_left_alone = not any(life.ending in DAMAGING for life in plan.lives)
    return is_left_alone and DISK_MODELS[plan.disk].is_sound and not live.may_slow_operations(plan)


def read_scan_bounds(disk: Disk, config: StoreConfig) -> ScanBounds:
    """Read the state of the disk. Must be called before the store is loaded."""
    raw = disk.content(config.checkpoint_path)
    checkpoint = CheckpointValues(0, 0, 0)
    if len(raw) >= CHECKPOINT_BYTES and not is_creation_interrupted(raw):
        checkpoint = decode_checkpoint(raw, file=config.checkpoint_path)
    is_running = disk.is_durable(config.abort_path, 0, 0)  # an empty range is durable if the file exists
    paths = [path for path in disk.paths if path.startswith(f"{config.consume_queue_directory}/")]
    queue_files = {path: b"" if is_running else disk.content(path) for path in paths}
    return ScanBounds(not is_running, checkpoint, queue_files)


def check_scan_start(store: MessageStore, before: ScanBounds) -> Iterator[Violation]:
    report, segments = store.last_recovery, store.log.segments
    if report is None or not segments:
        return
    record_tried("SCAN")
    wanted = 0 if store.config.recover_whole_log else _first_segment_to_scan(store, before)
    assert wanted < len(segments), (wanted, len(segments))
    begin, ending = segments[wanted].base_offset, "a clean stop" if before.is_clean else "a crash"
    if report.start_offset > begin:
        summary = f"recovery after {ending} reads too little of the log"
        yield Violation("SCAN", summary, "commitlog", 0, "scan from", f"<= {begin}", str(report.start_offset))
    if store.queues.lost_entries or _begins_with_blank_entry(store) or _has_lost_first_file(store, before):
        return
    if report.start_offset < begin:
        summary = f"recovery after {ending} reads more of the log than necessary"
        yield Violation("SCAN", summary, "commitlog", 0, "scan from", f">= {begin}", str(report.start_offset))


def check_entries_kept(disk: Disk, before: ScanBounds) -> Iterator[Violation]:
    """After a clean exit, yield the first queue file with entries that a load changed. Removed files are not checked.

    Without a time for queues, an earlier load that rebuilt queues may have crashed.
    """
    if not before.is_clean or before.checkpoint.logics_msg_timestamp_ms <= 0:
        return
    found = {path: disk.content(path) for path in before.queue_files}
    kept = {path: content for path, content in before.queue_files.items() if content and found[path]}
    if kept:
        record_tried("SCAN")
    different = first_difference(kept, {path: found[path] for path in kept})
    if different is not None:
        file, offset, wanted, changed = different
        summary = "recovery changes queue entries after a clean stop"
        yield Violation("SCAN", summary, file, offset, "entries", wanted, changed)


def _begins_with_blank_entry(store: MessageStore) -> bool:
    """Return whether a queue begins with a blank entry, as on a slave that began with its master's last segments.

    Entries of messages that retention removed do not count as blank.
    """
    rows = [(queue, queue.queue.segments) for queue in store.queues.all_queues() if queue.queue.segments]
    fronts = [queue.entry(segments[0].base_offset // ENTRY_BYTES) for queue, segments in rows]
    return any(front is not None and is_blank(front) for front in fronts)


def _has_lost_first_file(store: MessageStore, before: ScanBounds) -> bool:
    """Return whether a crash removed the name of a queue's first file but not all of its files."""
    fronts = [queue.queue.segments[0].file.path for queue in store.queues.all_queues() if queue.queue.segments]
    made = {directory_of(path) for path in fronts if path not in before.queue_files}
    return any(directory_of(path) in made for path in before.queue_files)


def _first_segment_to_scan(store: MessageStore, before: ScanBounds) -> int:
    segments, number = store.log.segments, 0
    if before.is_clean:
        begun = sum(segment.wrote.get() > 0 for segment in segments)  # segments created in advance do not count
        if before.checkpoint.logics_msg_timestamp_ms > 0:  # otherwise a load that rebuilt queues may have crashed
            number = max(0, begun - _SEGMENTS_AFTER_CLEAN_EXIT)
    else:
        durable_ms = min(before.checkpoint[:2]) - SAFETY_MARGIN_MS
        for each in range(len(segments)):
            stored_ms = _first_stored_ms(store, each)
            if 0 < stored_ms <= durable_ms:
                number = each
    if store.index is None:
        return number
    end = -1
    for file in store.index.table.files:
        is_durable = file.is_full and file.end_timestamp_ms <= before.checkpoint.index_msg_timestamp_ms
        if not before.is_clean and not is_durable:
            break
        end = file.end_physical_offset
    return min(number, max(end - segments[0].base_offset, 0) // store.log.segment_bytes)


def _first_stored_ms(store: MessageStore, number: int) -> int:
    """Return the store time of a segment's first record, 0 if no record can be read."""
    segment = store.log.segments[number]
    view, end = segment.file.view(0, segment.size_bytes), segment.wrote.get()
    try:
        for record, _ in read_records(view, end, file=segment.file.path, base_offset=segment.base_offset):
            return record.store_timestamp_ms
    except UnreadableError:
        return 0
    return 0
