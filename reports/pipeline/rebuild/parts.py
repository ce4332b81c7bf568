"""Parts of a rebuild: tasks that each process a log segment, a queue file or an index file.

A task writes its file in one pass, so file systems without random writes suffice. Later tasks read two files per
segment in the directory `.rebuild` of the new store:

    <segment>.entries   queue entries of 20 bytes, grouped by queue; each group is in log order
    <segment>.keys      one `KEY` per key in log order: hash, log offset, store time in ms
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from struct import Struct
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pyarrow import fs

from ....store.config import StoreConfig
from ....store.errors import CorruptFileError
from ....store.formats.columns import NativeCore, PlainRecords
from ....store.formats.consume_queue import BLANK_ENTRY_BYTES, ENTRY_BYTES, decode_entry, encode_entry
from ....store.formats.delay_level import entry_tags_code, parse_delay_levels
from ....store.formats.index import HEADER, index_file_bytes
from ....store.formats.index_key import key_hashes, may_have_keys
from ....store.formats.light_queues import LIGHT_MARK, light_records
from ....store.formats.message import BLANK_BYTES, RECORD_BYTES_MIN
from ....store.formats.scan import ScannedRecord, store_timestamp_ms_at
from ....store.index.index_file import IndexFile
from ....store.log.segment import first_nonzero, segment_name
from ....store.queues.dispatch import is_queued
from ....store.real.world import real_world
from ....store.tools.verify_files import RawSegment
from ....store.world import Files
from ..place import is_local, make_directory, open_place, streamed_file, whole_file

BETWEEN = ".rebuild"
KEY = Struct(">iqq")
_PIECE_BYTES = 16 << 20
_PAGE_BYTES = 64 << 10
_KEYS_AT_ONCE = 64 << 10
QueueKey = tuple[str, int]


class LogSegment(NamedTuple):
    """A segment of the old log."""

    path: str
    base_offset: int
    size_bytes: int
    mtime_ms: int
    is_last: bool


class QueueRecordRun(NamedTuple):
    """Records of one queue with consecutive queue offsets in one segment."""

    first: int
    records: int
    physical_offset: int
    """Physical offset of the first record."""
    base_offset: int
    """Base offset of the segment. The name of the segment's entries file is made of this number."""
    number: int
    """Number of this run's first entry in the entries file."""

    @property
    def end(self) -> int:
        """Queue offset after the last record."""
        return self.first + self.records


@dataclass(slots=True)
class SegmentFacts:
    """The result of reading one segment."""

    is_begun: bool = False
    """Whether the head of the first record has a nonzero byte."""
    end: int = 0
    """Position after the segment's last record."""
    stopped_by: CorruptFileError | None = None
    """Why the bytes after the last record are no record; None if records or a final blank record fill the segment."""
    is_dirty: bool = False
    """Whether any byte after the last record is nonzero."""
    records: int = 0
    first_store_timestamp_ms: int | None = None
    last_store_timestamp_ms: int = 0
    newest_store_timestamp_ms: int = 0
    """The latest store time of any record. After a clock step the last record may have an earlier one."""
    keys: int = 0
    runs: dict[QueueKey, list[QueueRecordRun]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewStore:
    """The path or URI of the new store, and the settings of the old store."""

    place: str
    config: StoreConfig
    """Settings of the old store, including its paths."""

    def open(self, *names: str) -> tuple[fs.FileSystem, str]:
        system, root = open_place(self.place)
        return system, "/".join((root.rstrip("/"), *names))


@dataclass(frozen=True, slots=True)
class SegmentCopy:
    """Copies a log segment, and writes its entries file and its keys file."""

    to: NewStore

    def __call__(self, files: Files, core: NativeCore | None, item: LogSegment) -> SegmentFacts:
        segment = RawSegment(item.path, item.base_offset, files.map(item.path, item.size_bytes))
        scan = _SegmentScan(segment, self.to.config, core)
        scan.read()
        self._write_results(scan, segment.base_offset)
        is_whole = scan.facts.stopped_by is None and not item.is_last
        self._copy_segment(segment, item.size_bytes if is_whole else scan.facts.end, item.mtime_ms)
        return scan.facts

    def _write_results(self, scan: "_SegmentScan", base_offset: int) -> None:
        name, number = segment_name(base_offset), 0
        if scan.entries:
            system, path = self.to.open(BETWEEN, f"{name}.entries")
            with whole_file(system, path) as stream:
                for queue, entries in scan.entries.items():
                    for position, run in enumerate(scan.facts.runs[queue]):
                        scan.facts.runs[queue][position] = run._replace(number=number)
                        number += run.records
                    stream.write(entries)
        if scan.facts.keys:
            system, path = self.to.open(BETWEEN, f"{name}.keys")
            with whole_file(system, path) as stream:
                stream.write(scan.keys)

    def _copy_segment(self, segment: RawSegment, end: int, mtime_ms: int) -> None:
        """Copy the bytes before `end`, then append zeros. On a local disk the zeros are a hole of a sparse file."""
        system, path = self.to.open("commitlog", segment_name(segment.base_offset))
        with streamed_file(system, path) as stream:
            for at in range(0, segment.size_bytes, _PIECE_BYTES):
                piece_end = min(at + _PIECE_BYTES, segment.size_bytes)
                piece = segment.view[at : max(at, min(piece_end, end))]
                if not is_local(system):
                    stream.write(piece)
                    stream.write(bytes(piece_end - at - len(piece)))
                else:
                    _write_without_zeros(stream, at, piece)
                segment.file.advise_dont_need(at, piece_end)
            if is_local(system):
                stream.truncate(segment.size_bytes)
        if is_local(system):
            os.utime(path, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))


def _write_without_zeros(stream: Any, begin: int, piece: memoryview) -> None:
    for at in range(0, len(piece), _PAGE_BYTES):
        page = piece[at : at + _PAGE_BYTES]
        if first_nonzero(page) is not None:
            stream.seek(begin + at)
            stream.write(page)


class _SegmentScan:
    """One pass over a segment. The pass accepts the same records as recovery."""

    def __init__(self, segment: RawSegment, config: StoreConfig, core: NativeCore | None) -> None:
        self.facts = SegmentFacts()
        self.entries: dict[QueueKey, bytearray] = {}
        self.keys = bytearray()
        self._segment = segment
        self._check_crc = config.check_crc_on_recover
        self._delays_ms = parse_delay_levels(config.message_delay_level)
        self._light = config.enable_multi_dispatch
        self._lmq = config.enable_lmq
        self._has_index = config.message_index_enable
        self._plain = None if core is None else PlainRecords(core)

    def read(self) -> None:
        facts, segment = self.facts, self._segment
        facts.is_begun = any(segment.bytes_at(0, BLANK_BYTES))
        try:
            more = True
            while more and facts.end < segment.size_bytes:
                if self._plain is not None:
                    self._scan_plain_records(self._plain)
                before = facts.records
                records = segment.records_from(facts.end, segment.size_bytes, check_crc=self._check_crc)
                for record in islice(records, None if self._plain is None else 1):
                    self._scan_record(record)
                more = self._plain is not None and facts.records > before
        except CorruptFileError as error:
            facts.stopped_by = error
            facts.is_dirty = not segment.zeros_from(facts.end)

    def _scan_plain_records(self, plain: PlainRecords) -> None:
        facts, segment = self.facts, self._segment
        while plain.scan(segment.view, facts.end, segment.base_offset, check_crc=self._check_crc):
            for number, first, entries, _ in plain.runs():
                self._add_entries(plain.queues[number], first, entries)
            if self._has_index and plain.key_count:
                names = ("key_hash", "physical_offset", "store_timestamp_ms")
                for key in zip(*map(plain.key_column, names), strict=True):
                    self.keys += KEY.pack(*key)
                facts.keys += plain.key_count
            if not facts.records:
                facts.first_store_timestamp_ms = plain.column("store_timestamp_ms")[0]
            facts.records += plain.count
            times_ms = plain.column("store_timestamp_ms")
            facts.last_store_timestamp_ms = times_ms[-1]
            facts.newest_store_timestamp_ms = max(facts.newest_store_timestamp_ms, max(times_ms))
            segment.file.advise_dont_need(facts.end, plain.end)
            facts.end = plain.end

    def _scan_record(self, record: ScannedRecord) -> None:
        facts, offset, stored_ms = self.facts, record.physical_offset, record.store_timestamp_ms
        if is_queued(record):
            code = entry_tags_code(record.topic, record.properties, stored_ms, self._delays_ms)
            entry = encode_entry(offset, record.size_bytes, code)
            is_light = self._light and LIGHT_MARK in record.properties
            for seen in (record, *(light_records(record, lmq=self._lmq) if is_light else ())):
                self._add_entries((seen.topic, seen.queue_id), seen.queue_offset, entry)
        if self._has_index and may_have_keys(record):
            for hashed in key_hashes(record.topic, record.properties):
                self.keys += KEY.pack(hashed, offset, stored_ms)
                facts.keys += 1
        assert offset >= self._segment.base_offset + facts.end, (offset, facts.end)  # records are in log order
        if not facts.records:
            facts.first_store_timestamp_ms = stored_ms
        facts.records += 1
        facts.last_store_timestamp_ms = stored_ms
        facts.newest_store_timestamp_ms = max(facts.newest_store_timestamp_ms, stored_ms)
        facts.end = offset - self._segment.base_offset + record.size_bytes

    def _add_entries(self, queue: QueueKey, first: int, entries: bytes) -> None:
        runs = self.facts.runs.get(queue)
        if runs is None:
            runs = self.facts.runs[queue] = []
            self.entries[queue] = bytearray()
            if self._plain is not None:
                self._plain.register_queue(*queue)
        count, odd_bytes = divmod(len(entries), ENTRY_BYTES)
        assert count > 0 == odd_bytes, f"{len(entries)} bytes of entries"
        if runs and runs[-1].end == first:
            runs[-1] = runs[-1]._replace(records=runs[-1].records + count)
        else:
            physical_offset = decode_entry(entries, 0).physical_offset
            runs.append(QueueRecordRun(first, count, physical_offset, self._segment.base_offset, 0))
        self.entries[queue] += entries


class NewQueueFile(NamedTuple):
    """A queue file to write, with the runs of its entries in ascending order. Gaps between runs are possible."""

    topic: str
    queue_id: int
    base_offset: int
    entries: int
    """Number of entries, including blank entries. Only the last file of a queue may have free space."""
    runs: tuple[QueueRecordRun, ...]
    last: QueueRecordRun
    """The run with the last record before the end of this file. Before a gap, this run may be in an earlier file."""


@dataclass(frozen=True, slots=True)
class QueueFileWriter:
    """Writes one queue file."""

    to: NewStore

    def __call__(self, files: Files, core: NativeCore | None, item: NewQueueFile) -> None:
        """Write entries, blank entries for missing records, and zeros after the last entry."""
        size_bytes = self.to.config.mapped_file_size_consume_queue
        raw = bytearray(BLANK_ENTRY_BYTES * item.entries)
        for run in item.runs:
            at = run.first * ENTRY_BYTES - item.base_offset
            raw[at : at + run.records * ENTRY_BYTES] = self._entries(run, 0, run.records)
        system, path = self.to.open("consumequeue", item.topic, str(item.queue_id))
        make_directory(system, path, below=self.to.open("consumequeue")[1])
        path = f"{path}/{segment_name(item.base_offset)}"
        with whole_file(system, path) as stream:
            stream.write(raw.ljust(size_bytes, b"\0"))
        if is_local(system):
            last = decode_entry(self._entries(item.last, item.last.records - 1, 1), 0)
            stored_ns = self._stored_ms(files, last.physical_offset, item.last.base_offset) * 1_000_000
            os.utime(path, ns=(stored_ns, stored_ns))

    def _entries(self, run: QueueRecordRun, first: int, count: int) -> bytes:
        system, path = self.to.open(BETWEEN, f"{segment_name(run.base_offset)}.entries")
        return _array_bytes(system, path, (run.number + first) * ENTRY_BYTES, count * ENTRY_BYTES)

    def _stored_ms(self, files: Files, physical_offset: int, base_offset: int) -> int:
        system, path = self.to.open("commitlog", segment_name(base_offset))
        raw = _array_bytes(system, path, physical_offset - base_offset, RECORD_BYTES_MIN)
        return store_timestamp_ms_at(memoryview(raw), 0)


def _array_bytes(system: fs.FileSystem, path: str, at: int, size_bytes: int) -> bytes:
    with system.open_input_file(path) as stream:
        raw: bytes = stream.read_at(size_bytes, at)
    if len(raw) != size_bytes:
        raise OSError(f"{path}: shorter than when it was written")
    return raw


class KeyRange(NamedTuple):
    """Keys of one segment."""

    base_offset: int
    begin: int
    end: int


class NewIndexFile(NamedTuple):
    """An index file to write, with the ranges of its keys."""

    name: str
    before: KeyRange | None
    """The key before the file's first key; None for the first file."""
    keys: tuple[KeyRange, ...]


@dataclass(frozen=True, slots=True)
class IndexFileWriter:
    """Writes one index file, and returns the file's end time."""

    to: NewStore

    def __call__(self, files: Files, core: NativeCore | None, item: NewIndexFile) -> int:
        """Insert the keys one by one with the store's own code."""
        config, world = self.to.config, real_world()
        slots, entries_max = config.max_hash_slot_num, config.max_index_num
        with TemporaryDirectory(prefix="tornlog-") as directory:
            mapped = world.files.map(f"{directory}/{item.name}", index_file_bytes(slots, entries_max))
            if item.before is not None:
                ((_, offset, stored_ms),) = self._keys_of_ranges([item.before])
                if stored_ms > 0:
                    mapped.store(0, HEADER.pack(stored_ms, stored_ms, offset, offset, 0, 0))
            made = IndexFile(world.tasks, mapped, item.name, slots, entries_max)
            made.is_building = True
            for hashed, offset, stored_ms in self._keys_of_ranges(item.keys):
                is_put = made.put_key(hashed, offset, stored_ms)
                assert is_put, item
            made.end_building()
            system, path = self.to.open("index", item.name)
            with streamed_file(system, path) as stream:
                for at in range(0, mapped.size_bytes, _PIECE_BYTES):
                    stream.write(made.view[at : at + _PIECE_BYTES])
            end_ms = made.end_timestamp_ms
            del made
            return end_ms

    def _keys_of_ranges(self, ranges: Sequence[KeyRange]) -> Iterator[tuple[int, int, int]]:
        for part in ranges:
            system, path = self.to.open(BETWEEN, f"{segment_name(part.base_offset)}.keys")
            for begin in range(part.begin, part.end, _KEYS_AT_ONCE):
                count = min(_KEYS_AT_ONCE, part.end - begin)
                yield from KEY.iter_unpack(_array_bytes(system, path, begin * KEY.size, count * KEY.size))
