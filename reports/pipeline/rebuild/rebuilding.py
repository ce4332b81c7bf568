"""Parallel rebuild: rebuilds a store in Spark tasks, byte for byte as `tornlog rebuild`.

First, one task per segment copies and reads the segment. Then one task per file writes the queues and the index. This
module joins the results of the first tasks. The module keeps one `QueueRecordRun` per queue and segment in memory.

A log with a torn end is truncated at the same record as by recovery. The log before the checkpoint (after a clean exit,
the whole log) must be undamaged, and the queue offsets of each queue must rise. For any other log the rebuild fails
with a list of the damage; the local command `tornlog rebuild` can rebuild such a log, because it scans the whole log.
While a store is incomplete, its directory has an `abort` file.
"""

import errno
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from pyarrow import fs

from ....store.errors import CorruptFileError
from ....store.formats.checkpoint import CheckpointValues, encode_checkpoint_file, times_beyond_log
from ....store.formats.consume_queue import ENTRY_BYTES
from ....store.formats.index import index_file_bytes, index_file_name
from ....store.formats.message import records_max_in
from ....store.formats.side_json import SIDE_JSON_BYTES_MAX
from ....store.log.checkpoint import read_checkpoint, trusted_timestamp_ms
from ....store.log.segment import segment_name
from ....store.log.segment_queue import file_name_of
from ....store.queues.consume_queue import GAP_ENTRIES_MAX
from ....store.recovery.recovery import trusted_after_clean_exit, trusted_by_checkpoint
from ....store.tools.geometry import Geometry, config_of_directory, log_statuses
from ....store.tools.rebuild import RebuildResult, too_long_side_file
from ....store.world import Files
from ..audit.place_files import EngineSpread, files_at
from ..place import make_directory, open_place, sync_names, whole_file
from ..spark.engine import Engine
from .parts import (
    BETWEEN,
    IndexFileWriter,
    KeyRange,
    LogSegment,
    NewIndexFile,
    NewQueueFile,
    NewStore,
    QueueFileWriter,
    QueueKey,
    QueueRecordRun,
    SegmentCopy,
    SegmentFacts,
)

_EPOCH = datetime(1970, 1, 1)


class UnsoundStoreError(ValueError):
    """The store has damage that only the local command can repair."""


def rebuild_with(
    engine: Engine, source: str, target: str, geometry: Geometry | None = None, now: datetime | None = None
) -> RebuildResult:
    """Make a store in `target`, which is empty or absent, from the log of the store in `source`.

    now: the local time that names the index files. Raises FileExistsError if target is not empty, UnsoundStoreError or
    CorruptFileError if only the local command can rebuild the store, OSError if a file operation fails. After an error
    the new files are removed.
    """
    _, root = open_place(source)
    files = files_at(source)
    config = config_of_directory(files, root.rstrip("/"), geometry or Geometry())
    new = NewStore(target, config)
    system, path = new.open()
    if system.get_file_info(fs.FileSelector(path, allow_not_found=True)):
        raise FileExistsError(f"{target}: not empty")
    local_ms = int(((now or datetime.now()) - _EPOCH).total_seconds() * 1000)
    try:
        return _StoreRebuild(EngineSpread(engine, source), files, new).run(local_ms)
    except BaseException:
        if system.get_file_info(path).type == fs.FileType.Directory:
            system.delete_dir(path)
        raise


class _StoreRebuild:
    def __init__(self, spread: EngineSpread, files: Files, new: NewStore) -> None:
        self._spread = spread
        self._files = files
        self._new = new
        self._config = new.config
        self._runs: dict[QueueKey, list[QueueRecordRun]] = {}
        self._rebuilt = RebuildResult(new.place, 0, 0, 0, 0, [])
        self._checkpoint = CheckpointValues(0, 0, 0)
        """The values of the old checkpoint; all 0 if the checkpoint is damaged or missing, as in the local command."""
        self._is_unclean = files.status(new.config.abort_path) is not None
        self._last_ms = self._newest_ms = 0

    def run(self, local_ms: int) -> RebuildResult:
        segments = self._old_segments()
        self._create_store()
        self._read_checkpoint()
        facts = list(self._spread(SegmentCopy(self._new), segments))
        facts = facts[: self._truncate_log(segments, facts)]
        path = self._config.checkpoint_path
        for error in times_beyond_log(self._checkpoint, self._newest_ms, unclean_exit=self._is_unclean, file=path):
            self._record_damage(error)
        for of_segment in facts:
            self._join_queues(of_segment)
        self._require_rising_queue_offsets()
        list(self._spread(QueueFileWriter(self._new), list(self._new_queue_files())))
        index_files = self._new_index_files(segments[: len(facts)], facts, local_ms)
        ends_ms = list(self._spread(IndexFileWriter(self._new), index_files))
        self._write_checkpoint(sum(one.keys for one in facts), ends_ms)
        self._copy_tree(self._config.config_directory, "config")
        self._write_file(file_name_of(self._config.lock_path), b"lock")
        self._require_whole_files()
        self._mark_complete()
        self._rebuilt.queues = [
            {"topic": topic, "queueId": number, "minOffset": runs[0].first, "maxOffset": runs[-1].end}
            for (topic, number), runs in sorted(self._runs.items())
        ]
        return self._rebuilt

    def _read_checkpoint(self) -> None:
        try:
            self._checkpoint = read_checkpoint(self._files, self._config.checkpoint_path)
        except CorruptFileError as error:
            self._record_damage(error)

    def _old_segments(self) -> list[LogSegment]:
        found = list(log_statuses(self._files, self._config))
        if not found:
            raise UnsoundStoreError("commitlog: no segment")
        size_bytes = self._config.mapped_file_size_commit_log
        begin = int(file_name_of(found[0][0]))
        for number, (path, status) in enumerate(found):
            expected = segment_name(begin + number * size_bytes)
            if file_name_of(path) != expected or begin % size_bytes:
                raise UnsoundStoreError(f"{path} @ 0: base offset: expected {expected}, found {file_name_of(path)}")
            if status.size_bytes != size_bytes:
                raise UnsoundStoreError(f"{path} @ 0: file size: expected {size_bytes}, found {status.size_bytes}")
        self._rebuilt.log_bytes = size_bytes * len(found)
        self._rebuilt.min_phy_offset = begin
        return [
            LogSegment(path, int(file_name_of(path)), size_bytes, status.mtime_ms, number == len(found))
            for number, (path, status) in enumerate(found, 1)
        ]

    def _create_store(self) -> None:
        system, root = self._new.open()
        make_directory(system, root)
        names = ["commitlog", BETWEEN, "consumequeue", *(["index"] if self._config.message_index_enable else [])]
        for name in names:
            make_directory(*self._new.open(name), below=root)
        self._write_file(file_name_of(self._config.abort_path), b"")

    def _write_file(self, name: str, content: bytes) -> None:
        with whole_file(*self._new.open(name)) as stream:
            stream.write(content)

    def _truncate_log(self, segments: list[LogSegment], facts: list[SegmentFacts]) -> int:
        """Return the number of remaining segments. Raises UnsoundStoreError for damage in a trusted segment."""
        rebuilt, trusted = self._rebuilt, self._count_trusted_segments(facts)
        for number, (segment, found) in enumerate(zip(segments, facts, strict=True)):
            rebuilt.max_phy_offset = segment.base_offset + found.end
            rebuilt.records += found.records
            self._last_ms = found.last_store_timestamp_ms or self._last_ms
            self._newest_ms = max(self._newest_ms, found.newest_store_timestamp_ms)
            if found.stopped_by is None:
                continue
            if number < trusted:
                raise UnsoundStoreError(str(found.stopped_by))
            later_facts = facts[number + 1 :]
            if found.is_dirty or any(one.is_begun or one.is_dirty for one in later_facts):
                self._record_damage(found.stopped_by, "commitlog")
            for later in segments[number + 1 :]:
                system, path = self._new.open("commitlog", segment_name(later.base_offset))
                system.delete_file(path)
            sync_names(*self._new.open("commitlog"))  # otherwise a power cut could restore truncated records
            return number + 1
        return len(facts)

    def _count_trusted_segments(self, facts: list[SegmentFacts]) -> int:
        if not self._is_unclean:
            return trusted_after_clean_exit(max((n for n, one in enumerate(facts, 1) if one.is_begun), default=0))
        trusted_ms = trusted_timestamp_ms(self._checkpoint.physic_msg_timestamp_ms)
        newest_first = reversed(list(enumerate(one.first_store_timestamp_ms for one in facts)))
        return trusted_by_checkpoint(trusted_ms, newest_first)

    def _record_damage(self, error: CorruptFileError, *directory: str) -> None:
        file = "/".join((self._new.place, *directory, file_name_of(error.file)))
        self._rebuilt.findings.append(CorruptFileError(file, error.offset, error.field, error.expected, error.found))

    def _join_queues(self, facts: SegmentFacts) -> None:
        for queue, runs in facts.runs.items():
            self._runs.setdefault(queue, []).extend(runs)

    def _require_rising_queue_offsets(self) -> None:
        for (topic, number), runs in self._runs.items():
            where = f"queueOffset in {topic}/{number}"
            if not 0 <= runs[0].first <= 1 + records_max_in(runs[0].physical_offset):
                raise UnsoundStoreError(
                    f"record {runs[0].physical_offset}: {where}: expected an offset that the earlier log allows, found"
                    f" {runs[0].first}"
                )
            for position in range(1, len(runs)):
                run, expected = runs[position], runs[position - 1].end
                following = runs[position + 1].first if position + 1 < len(runs) else None
                if run.first != expected and not _is_accepted_gap(expected, run, following):
                    raise UnsoundStoreError(
                        f"record {run.physical_offset}: {where}: expected {expected}, found {run.first}"
                    )

    def _new_queue_files(self) -> Iterator[NewQueueFile]:
        file_entries = self._config.mapped_file_size_consume_queue // ENTRY_BYTES
        for (topic, number), runs in sorted(self._runs.items()):
            position, last, end = 0, runs[0], runs[-1].end
            for begin in range(runs[0].first - runs[0].first % file_entries, end, file_entries):
                file_end = min(begin + file_entries, end)
                inside: list[QueueRecordRun] = []
                while position < len(runs) and runs[position].first < file_end:
                    inside.append(_cut_run(runs[position], begin, file_end))
                    if runs[position].end > file_end:
                        break
                    position += 1
                assert all(one.end <= other.first for one, other in pairwise(inside)), inside
                last = inside[-1] if inside else last
                yield NewQueueFile(topic, number, begin * ENTRY_BYTES, file_end - begin, tuple(inside), last)

    def _new_index_files(
        self, segments: list[LogSegment], facts: list[SegmentFacts], local_ms: int
    ) -> list[NewIndexFile]:
        """Divide the keys into index files. All files except the last are full."""
        made: list[NewIndexFile] = []
        room, inside, before = self._config.max_index_num - 1, list[KeyRange](), None
        left = room
        for segment, found in zip(segments, facts, strict=True):
            begin = 0
            while begin < found.keys:
                if not left:
                    made.append(NewIndexFile(index_file_name(local_ms + len(made)), before, tuple(inside)))
                    last = inside[-1]
                    before, inside, left = last._replace(begin=last.end - 1), [], room
                end = min(begin + left, found.keys)
                inside.append(KeyRange(segment.base_offset, begin, end))
                left -= end - begin
                assert 0 <= left < room, (left, room)
                begin = end
        if inside:
            made.append(NewIndexFile(index_file_name(local_ms + len(made)), before, tuple(inside)))
        return made

    def _write_checkpoint(self, keys: int, ends_ms: list[int]) -> None:
        index_ms = min(self._checkpoint.index_msg_timestamp_ms, self._last_ms)
        if self._config.message_index_enable:
            if self._is_unclean:
                index_ms = 0
            index_ms = max(index_ms, self._index_durable_ms(keys, ends_ms))
        values = CheckpointValues(self._last_ms, self._last_ms, index_ms)
        self._write_file(file_name_of(self._config.checkpoint_path), encode_checkpoint_file(values))

    def _index_durable_ms(self, keys: int, ends_ms: list[int]) -> int:
        """Compute `IndexFiles.durable_timestamp_ms` from the end times of the index files."""
        full, odd = divmod(keys, self._config.max_index_num - 1)
        durable_ms = ends_ms[full - 1] if full else 0
        return durable_ms if odd and ends_ms[-1] > durable_ms else durable_ms - 1

    def _copy_tree(self, old: str, new: str) -> None:
        status = self._files.status(old)
        if status is None:
            return
        make_directory(*self._new.open(new), below=self._new.open()[1])
        for name in self._files.list_directory(old):
            status = self._files.status(f"{old}/{name}")
            if status is not None and status.is_directory:
                self._copy_tree(f"{old}/{name}", f"{new}/{name}")
            elif status is not None and status.size_bytes > SIDE_JSON_BYTES_MAX:
                self._record_damage(too_long_side_file(name, status.size_bytes), new)
            elif status is not None:
                self._write_file(f"{new}/{name}", self._files.read(f"{old}/{name}"))

    def _require_whole_files(self) -> None:
        """A lost task may have left a shorter file."""
        config = self._config
        index_bytes = index_file_bytes(config.max_hash_slot_num, config.max_index_num)
        sizes = {"commitlog": config.mapped_file_size_commit_log, "index": index_bytes}
        sizes["consumequeue"] = config.mapped_file_size_consume_queue
        for name, size_bytes in sizes.items():
            system, path = self._new.open(name)
            selector = fs.FileSelector(path, allow_not_found=True, recursive=True)
            for found in system.get_file_info(selector):
                if found.type == fs.FileType.File and found.size != size_bytes:
                    raise OSError(errno.EIO, f"expected {size_bytes} bytes, found {found.size}", found.path)

    def _mark_complete(self) -> None:
        system, between = self._new.open(BETWEEN)
        system.delete_dir(between)
        sync_names(*self._new.open())
        system, abort = self._new.open(file_name_of(self._config.abort_path))
        system.delete_file(abort)
        sync_names(*self._new.open())


def _is_accepted_gap(expected: int, run: QueueRecordRun, following: int | None) -> bool:
    """Return whether recovery treats the unexpected first queue offset of a run as the end of a gap.

    If no old entry contradicts the gap (`QueueReplay`), recovery accepts the gap in three cases: the next run, which
    starts at the queue offset `following`, continues this run; no run follows; or another gap precedes the next run.
    """
    if not 0 < run.first - expected <= GAP_ENTRIES_MAX:
        return False
    goes_on = run.records > 1 or following in (None, run.end)
    return goes_on or (following is not None and run.end < following <= expected + GAP_ENTRIES_MAX)


def _cut_run(run: QueueRecordRun, begin: int, end: int) -> QueueRecordRun:
    first = max(run.first, begin)
    return run._replace(first=first, records=min(run.end, end) - first, number=run.number + first - run.first)
