"""Rebuild: creates a store directory from the log of another.

The source directory is only read. Segments are copied with their mtimes, never linked, because recovery and puts write
to the last segments. Side files below `config/` are copied unless they are too long.

The store's own recovery builds the new directory. Recovery skips damage that a clean exit (no `abort` file in the
source) or the checkpoint covers, and ends the log at any other damage. The new directory contains an `abort` file until
all files are durable. The new checkpoint contains the recovered times. If the start of the log has expired, blank
entries precede the first remaining message of a queue.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ..config import StoreConfig
from ..directories import make_directory
from ..errors import CorruptFileError
from ..formats.checkpoint import CheckpointValues, encode_checkpoint_file, times_beyond_log
from ..formats.side_json import SIDE_JSON_BYTES_MAX
from ..log.checkpoint import read_checkpoint
from ..log.segment import first_nonzero
from ..log.segment_queue import file_name_of
from ..message_store import MessageStore
from ..world import Files, World
from .dump import read_segment
from .geometry import log_statuses
from .inspect import finding_fields

FORMAT = "tornlog-rebuild/1"
_CHUNK_BYTES = 1 << 20

Advance = Callable[[int], None]


@dataclass(slots=True)
class RebuildResult:
    """The contents of the new directory."""

    root: str
    log_bytes: int
    records: int
    min_phy_offset: int
    max_phy_offset: int
    queues: list[dict[str, Any]]
    findings: list[CorruptFileError] = field(default_factory=list)

    def fields(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "log": "copied",
            "logBytes": self.log_bytes,
            "records": self.records,
            "minPhyOffset": self.min_phy_offset,
            "maxPhyOffset": self.max_phy_offset,
            "queues": self.queues,
            "findings": [finding_fields(finding, self.root) for finding in self.findings],
        }


def rebuild_directory(source: Files, config: StoreConfig, world: World, root: str, advance: Advance) -> RebuildResult:
    """Rebuild the store of `config` in the directory `root`, which must be missing or empty.

    Raises FileExistsError if `root` has entries, CorruptFileError if the log cannot belong to a store, and OSError if a
    disk fails. After an error the `abort` file remains in `root`.
    """
    files = world.files
    if files.status(root) is not None and files.list_directory(root):
        raise FileExistsError(f"{root}: not empty")
    own = replace(config, store_path_root_dir=root, store_path_commit_log="", read_only_commit_log_store_paths="")
    store = MessageStore(world, own)
    make_directory(files, root)
    store.mark_running()  # first, so that a start after an interruption makes a full recovery
    log_bytes = _copy_log(source, config, files, own.commit_log_directory, advance)
    odd_side_files = _copy_tree(source, config.config_directory, files, own.config_directory)
    claims, findings = _copy_checkpoint(source, config, files, own)
    # A power cut could lose new names in `root` but not the removal of `abort`, so all names are synced first.
    make_directory(files, own.consume_queue_directory)
    if own.enable_consume_queue_ext:
        make_directory(files, own.consume_queue_ext_directory)
    try:
        clean_exit = source.status(config.abort_path) is None
        report = store.load(clean_exit=clean_exit)
        findings += report.findings
        findings += _claims_beyond_log(claims, store, report.last_store_timestamp_ms, unclean_exit=not clean_exit)
        findings += odd_side_files
        store.checkpoint.limit_to_log_end(report.last_store_timestamp_ms)
        store.checkpoint.limit_index_time(report.last_store_timestamp_ms)
        store.checkpoint.advance_log_time(report.last_store_timestamp_ms)
        store.flush_queues.flush_thoroughly()
        # The `abort` file is removed last, because without it a start trusts the directory.
        files.unlink(own.abort_path)
        files.sync_directory(root)
        queues = [
            {
                "topic": queue.topic,
                "queueId": queue.queue_id,
                "minOffset": queue.min_offset,
                "maxOffset": queue.max_offset,
            }
            for queue in store.queues.all_queues()
            if queue.queue.segments
        ]
        bounds = store.min_phy_offset, store.max_phy_offset
        return RebuildResult(root, log_bytes, report.records, *bounds, queues, findings)
    finally:
        store.close()


def _copy_log(source: Files, config: StoreConfig, files: Files, directory: str, advance: Advance) -> int:
    """Copy the log durably and sparsely. Returns its number of bytes.

    If a segment is too long, raises CorruptFileError before the first copy.
    """
    segments, size_bytes = list(log_statuses(source, config)), config.mapped_file_size_commit_log
    for path, status in segments:
        if status.size_bytes > size_bytes:
            raise CorruptFileError(path, 0, "file size", size_bytes, status.size_bytes)
    make_directory(files, directory)
    log_bytes = 0
    for path, status in segments:
        _copy_file(source, path, status.size_bytes, files, f"{directory}/{file_name_of(path)}", advance)
        files.set_mtime_ms(f"{directory}/{file_name_of(path)}", status.mtime_ms)
        log_bytes += status.size_bytes
    files.sync_directory(directory)
    return log_bytes


def _copy_file(source: Files, old: str, size_bytes: int, files: Files, new: str, advance: Advance) -> None:
    if not size_bytes:
        files.write(new, b"")
        return
    from_map, to_map = source.map(old, size_bytes), files.map(new, size_bytes)
    for at in range(0, size_bytes, _CHUNK_BYTES):
        chunk = from_map.view(at, min(at + _CHUNK_BYTES, size_bytes))
        if first_nonzero(chunk) is not None:  # a new file is already all zero
            to_map.store(at, chunk)
        advance(len(chunk))
    to_map.msync(0, size_bytes)
    to_map.close()
    from_map.close()
    files.sync(new)  # msync may not make the size durable


def _copy_tree(source: Files, old: str, files: Files, new: str) -> list[CorruptFileError]:
    """Copy a directory tree. Returns an error for each file that is too long."""
    if source.status(old) is None:
        return []
    found = list[CorruptFileError]()
    make_directory(files, new)
    for name in source.list_directory(old):
        status = source.status(f"{old}/{name}")
        if status is not None and status.is_directory:
            found += _copy_tree(source, f"{old}/{name}", files, f"{new}/{name}")
        elif status is not None and status.size_bytes > SIDE_JSON_BYTES_MAX:
            found.append(too_long_side_file(f"{new}/{name}", status.size_bytes))
        elif status is not None:
            files.write(f"{new}/{name}", source.read(f"{old}/{name}"))
            files.sync(f"{new}/{name}")
    files.sync_directory(new)
    return found


def too_long_side_file(path: str, size_bytes: int) -> CorruptFileError:
    return CorruptFileError(path, 0, "file size", f"{SIDE_JSON_BYTES_MAX} or less", size_bytes)


def _copy_checkpoint(
    source: Files, config: StoreConfig, files: Files, own: StoreConfig
) -> tuple[CheckpointValues, list[CorruptFileError]]:
    """Copy the checkpoint. Returns its times and its damage."""
    try:
        values = read_checkpoint(source, config.checkpoint_path)
    except CorruptFileError as error:
        found = CorruptFileError(own.checkpoint_path, error.offset, error.field, error.expected, error.found)
        return CheckpointValues(0, 0, 0), [found]
    if source.status(config.checkpoint_path) is not None:
        files.write(own.checkpoint_path, encode_checkpoint_file(values))
    return values, []


def _claims_beyond_log(
    claims: CheckpointValues, store: MessageStore, last_ms: int, *, unclean_exit: bool
) -> list[CorruptFileError]:
    """Return errors for checkpoint times after the end of the log. last_ms is the last record's store time."""
    path = store.config.checkpoint_path
    if not any(times_beyond_log(claims, last_ms, unclean_exit=unclean_exit, file=path)):
        return []
    newest_ms = max(last_ms, _newest_store_time_ms(store))
    return list(times_beyond_log(claims, newest_ms, unclean_exit=unclean_exit, file=path))


def _newest_store_time_ms(store: MessageStore) -> int:
    """Return the largest store time, which after a clock step need not be the last."""
    newest_ms = 0
    for segment in store.log.segments:
        view = segment.file.view(0, segment.size_bytes)
        for found in read_segment(view, segment.file.path, segment.base_offset, segment.size_bytes):
            if not isinstance(found, CorruptFileError):
                newest_ms = max(newest_ms, found.store_timestamp_ms)
    return newest_ms
