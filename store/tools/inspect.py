"""Inspection: opens a store with recovery in memory and reports its contents."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..config import StoreConfig
from ..errors import CorruptFileError, StoreError
from ..formats.scan import find_record, scan_records
from ..log.segment import segment_name
from ..log.segment_queue import file_name_of
from ..message_store import MessageStore
from ..recovery.recovery import RecoveryReport
from ..world import Files, FileStatus, World
from .geometry import Geometry, config_of_directory, geometry_fields, log_statuses, segment_statuses
from .observed import Fields, entries_of, observe, records_of
from .verify_files import damaged_side_files
from .violation import is_refusal, relative_to

FORMAT = "tornlog-inspect/1"


@dataclass(slots=True)
class Inspection:
    """A store after recovery in memory, or the reason why the store could not be opened."""

    root: str
    segments: dict[str, FileStatus] = field(default_factory=dict)
    """The status of every segment on disk, by path."""
    findings: list[CorruptFileError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Sentences about unknown files and about damage that the next start repairs."""
    config: StoreConfig | None = None
    store: MessageStore | None = None
    report: RecoveryReport | None = None

    def summary(self) -> Fields:
        """Return all fields of the contract except records and entries."""
        fields: Fields = {
            "format": FORMAT,
            "load": self.store is not None,
            "findings": [finding_fields(finding, self.root) for finding in self.findings],
        }
        store, report = self.store, self.report
        if store is None or report is None:
            return fields
        fields["notes"] = self.notes
        fields["recovery"] = {
            "cleanExit": report.clean_exit,
            "startOffset": report.start_offset,
            "endOffset": report.end_offset,
            "records": report.records,
            "changedEntries": report.changed_entries,
        }
        fields["geometry"] = geometry_fields(store.config) | {"maxMessageSize": store.config.max_message_size}
        extensions = [queue.ext for queue in store.queues.all_queues() if queue.ext is not None]
        fields["consumeQueueExtFiles"] = sum(len(ext.queue.segments) for ext in extensions)
        mtimes_ms = {path: status.mtime_ms for path, status in self.segments.items()}
        return fields | observe(store, report, mtimes_ms)

    def add_note(self, damage: CorruptFileError, consequence: str) -> None:
        place = str(damage).replace(damage.file, relative_to(self.root, damage.file), 1)
        self.notes.append(f"{place}; {consequence}")

    def all_fields(self) -> Fields:
        fields = self.summary()
        if self.store is not None:
            for queue_fields in fields["queues"]:
                queue = self.store.queues.find(queue_fields["topic"], queue_fields["queueId"])
                assert queue is not None, queue_fields
                queue_fields["entries"] = list(entries_of(queue))
            fields["commitLogRecords"] = list(self.records())
        return fields

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield every item of the contract's `commitLogRecords`."""
        return iter(()) if self.store is None else records_of(self.store)


def inspect_directory(
    world: World, root: str, geometry: Geometry, open_files: Callable[[], Files] | None = None
) -> Inspection:
    """Open the store in `root`, an absolute path. `world` must keep changes in memory (`overlay_world`).

    `open_files` returns the files before recovery. With it, a truncated torn tail is a note, not damage. Raises OSError
    for unreadable files.
    """
    found = Inspection(root)
    try:
        found.config = config_of_directory(world.files, root, geometry)
        found.segments = segment_statuses(world.files, found.config)
        store = MessageStore(world, found.config)
        found.report = store.load()
    except CorruptFileError as error:
        found.findings.append(error)
    except (StoreError, OSError) as error:
        if is_refusal(error):
            raise
        found.findings.append(unreadable_file_error(error, root))
    else:
        found.store = store
        found.findings += found.report.findings
        cut_at, is_clean = found.report.cut_at, found.report.clean_exit
        before = None if is_clean or open_files is None else open_files()
        if before is not None and cut_at is not None and not _whole_record_follows(cut_at, before, found.config):
            assert cut_at in found.findings, cut_at
            found.findings.remove(cut_at)  # a torn tail is normal after a crash
            found.add_note(cut_at, "unclean exit: recovery will truncate the log there")
        for entry in found.report.unknown_entries:
            found.add_note(entry, "not part of the store; a start does not change it")
        known = {one.file for one in found.findings}
        found.findings += [one for one in damaged_side_files(world.files, found.config) if one.file not in known]
        if is_clean:
            reported = {(finding.file, finding.field) for finding in found.findings}
            irregular = _irregular_segments(found.segments, store.config)
            found.findings += [one for one in irregular if (one.file, one.field) not in reported]
    return found


def _whole_record_follows(cut_at: CorruptFileError, files: Files, config: StoreConfig) -> bool:
    is_reached = False
    for path, status in log_statuses(files, config):
        is_first = path == cut_at.file
        is_reached |= is_first
        if not is_reached or not status.size_bytes:
            continue
        view = files.map(path, status.size_bytes).view(0, status.size_bytes)
        base_offset, segment_bytes = int(file_name_of(path)), config.mapped_file_size_commit_log
        at = find_record(view, cut_at.offset + 1 if is_first else 0, base_offset, segment_bytes)
        while at is not None:
            if _is_complete_record(view, at, path, base_offset):
                return True
            at = find_record(view, at + 1, base_offset, segment_bytes)  # a body may contain a copy of a record
    return False


def _is_complete_record(view: memoryview, at: int, path: str, base_offset: int) -> bool:
    records = scan_records(view, at, len(view), file=path, base_offset=base_offset, check_crc=True)
    try:
        return next(records, None) is not None
    except CorruptFileError:
        return False


def _irregular_segments(segments: Mapping[str, FileStatus], config: StoreConfig) -> Iterator[CorruptFileError]:
    """Yield an error for each segment of a wrong size and each gap. Recovery repairs both."""
    log_directories = {*config.commit_log_directories, *config.read_only_commit_log_directories}
    last_row, expected = "", 0
    for path, status in segments.items():
        directory, _, name = path.rpartition("/")
        in_log = directory in log_directories
        row = config.commit_log_directory if in_log else directory
        size_bytes = config.mapped_file_size_commit_log if in_log else config.mapped_file_size_consume_queue
        if status.size_bytes != size_bytes:
            yield CorruptFileError(path, 0, "file size", size_bytes, status.size_bytes)
        if row == last_row and int(name) != expected:
            next_name = f"the next segment, {segment_name(expected)}"
            yield CorruptFileError(path, 0, "base offset", next_name, name)
        last_row, expected = row, int(name) + size_bytes


def unreadable_file_error(error: Exception, root: str) -> CorruptFileError:
    file = getattr(error, "filename", None) or root
    reason = getattr(error, "strerror", None) or str(error)
    return CorruptFileError(str(file), 0, "file", "a readable file", reason)


def finding_fields(finding: CorruptFileError, root: str) -> Fields:
    return {
        "file": relative_to(root, finding.file),
        "offset": finding.offset,
        "field": finding.field,
        "expected": finding.expected,
        "found": finding.found,
    }
