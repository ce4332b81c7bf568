"""Verifier of index files: compares them with each other and with the keys of the log's records.

Entries and records are both in the order of the log, so one pass over both finds entries without their record, keys
without their entry, and entries that are there twice. Needs 4 bytes of memory for each hash slot of one file.

After an unclean exit recovery keeps only files that are full and no younger than the checkpoint's index time. What is
wrong behind them is a note.
"""

from collections.abc import Iterator
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

from ..config import StoreConfig
from ..errors import CorruptFileError
from ..formats.columns import KEY_COLUMNS, Core, PlainRecords
from ..formats.index import (
    ENTRY,
    ENTRY_BYTES,
    IndexEntry,
    IndexHeader,
    decode_header,
    entries_at,
    header_defects,
    index_file_bytes,
    parse_index_file_name,
    time_diff_s,
)
from ..formats.index_key import key_hashes, may_have_keys
from ..formats.scan import find_record
from ..index.index_file import defects
from ..queues.dispatch import is_queued
from ..world import Files
from .verify_files import RawSegment
from .verify_log import LogFacts
from .violation import DirectoryPromise, DirectoryViolation, Findings

_PHY_OFFSET_AT = 4
_TIME_DIFF_AT = 12


class _File(NamedTuple):
    """An index file of the right size, with a header that can be one."""

    path: str
    view: memoryview
    header: IndexHeader
    is_durable: bool
    """Whether recovery has to find it whole."""


class _Placed(NamedTuple):
    """An entry, and where it is."""

    file: _File
    number: int
    at: int
    entry: IndexEntry


class _Keyed(NamedTuple):
    """A record that has keys."""

    physical_offset: int
    store_timestamp_ms: int
    hashes: tuple[int, ...]


class IndexVerifier:
    """One pass over the index of a store."""

    def __init__(
        self,
        files: Files,
        config: StoreConfig,
        facts: LogFacts,
        index_timestamp_ms: int,
        findings: Findings,
        core: Core | None = None,
    ) -> None:
        """index_timestamp_ms is the checkpoint's."""
        self.file_count = 0
        self.entry_count = 0
        self._files = files
        self._directory = config.index_directory
        self._slots = config.max_hash_slot_num
        self._entries_max = config.max_index_num
        self._facts = facts
        self._durable_ms = index_timestamp_ms
        self._findings = findings
        self._durable_end = -1 if findings.unclean_exit else facts.end_offset
        """Log offset up to which keys have to be there."""
        self._first_explained: DirectoryViolation | None = None
        self._explained = 0
        self._plain = None if core is None else PlainRecords(core)

    def verify(self, segments: list[RawSegment]) -> None:
        """Check every file, and every key of the records in segments."""
        if self._files.status(self._directory) is None:
            if self._durable_ms > 0:
                self._add(self._directory, 0, "index", "a directory, as there was an index", "nothing")
            return
        try:
            index = self._read_files()
        except OSError as error:
            self._findings.unreadable(DirectoryPromise.IDX, self._directory, error)
            return
        self._compare(segments, self._entries(index))
        if self._first_explained is not None:
            consequence = "build the index again from there"
            if self._explained > 1:
                consequence += f", which mends {self._explained - 1} more"
            self._findings.explained(self._first_explained, consequence)

    def _add(self, file: str, at: int, name: str, expected: object, found: object, *, durable: bool = True) -> None:
        """Add a violation, or, of what recovery builds again, count it."""
        violation = self._findings.violation(DirectoryPromise.IDX, file, at, name, expected, found)
        if durable or not self._findings.unclean_exit:
            self._findings.violations.append(violation)
        else:
            self._first_explained = self._first_explained or violation
            self._explained += 1

    def _add_of(self, file: _File, at: int, name: str, expected: object, found: object) -> None:
        self._add(file.path, at, name, expected, found, durable=file.is_durable)

    # -- files -------------------------------------------------------------------------------------

    def _read_files(self) -> list[_File]:
        """Return the files that can be compared with the log, and report everything odd about any."""
        index: list[_File] = []
        file_bytes = index_file_bytes(self._slots, self._entries_max)
        all_durable = True
        for name in self._files.list_directory(self._directory):
            path = f"{self._directory}/{name}"
            status = self._files.status(path)
            if parse_index_file_name(name) is None or status is None or status.is_directory:
                self._add(path, 0, "file name", "a file named by a time, yyyyMMddHHmmssSSS", name)
                continue
            self.file_count += 1
            if status.size_bytes != file_bytes:
                self._add(path, 0, "file size", file_bytes, status.size_bytes, durable=False)
                continue
            view = self._files.map(path, file_bytes).view(0, file_bytes)
            header = decode_header(view)
            is_full = header.next_entry == self._entries_max
            all_durable = all_durable and is_full and header.end_timestamp_ms <= self._durable_ms
            for bad in defects(view, path, self._slots, self._entries_max):
                self._add(bad.file, bad.offset, bad.field, bad.expected, bad.found, durable=all_durable)
            if next(header_defects(header, path, self._entries_max), None) is None:
                index.append(_File(path, view, header, all_durable))
                if all_durable:
                    self._durable_end = max(self._durable_end, header.end_physical_offset)
        return index

    def _entries(self, index: list[_File]) -> Iterator[_Placed]:
        """Yield all entries in order; one that points in front of those before it is left out, and reported already."""
        last = -1
        for file in index:
            at = entries_at(self._slots) + ENTRY_BYTES
            raw = file.view[at : at + ENTRY_BYTES * (file.header.next_entry - 1)]
            for number, values in enumerate(ENTRY.iter_unpack(raw), 1):
                self.entry_count += 1
                entry = IndexEntry._make(values)
                if entry.physical_offset >= last:
                    last = entry.physical_offset
                    yield _Placed(file, number, at, entry)
                elif number == 1:
                    expected = f"{last}, where the file before it ends, or more"
                    self._add_of(file, at + _PHY_OFFSET_AT, "phyOffset", expected, entry.physical_offset)
                at += ENTRY_BYTES

    # -- against the log ---------------------------------------------------------------------------

    def _compare(self, segments: list[RawSegment], entries: Iterator[_Placed]) -> None:
        placed = next(entries, None)
        for segment in segments:
            for record in _keyed_records(segment, self._facts.end_offset, self._plain):
                while placed is not None and placed.entry.physical_offset < record.physical_offset:
                    self._without_record(placed)
                    placed = next(entries, None)
                of_record = []
                while placed is not None and placed.entry.physical_offset == record.physical_offset:
                    of_record.append(placed)
                    placed = next(entries, None)
                self._compare_record(segment, record, of_record)
        while placed is not None:
            self._without_record(placed)
            placed = next(entries, None)

    def _without_record(self, placed: _Placed) -> None:
        file, _, at, entry = placed
        if entry.physical_offset >= self._facts.min_offset:
            expected = "where a record with a key begins"
            self._add_of(file, at + _PHY_OFFSET_AT, "phyOffset", expected, entry.physical_offset)

    def _compare_record(self, segment: RawSegment, record: _Keyed, entries: list[_Placed]) -> None:
        missing = list(record.hashes)
        for file, number, at, entry in entries:
            if entry.key_hash in missing:
                missing.remove(entry.key_hash)
            elif entry.key_hash in record.hashes:
                expected = f"one entry for each key of record {record.physical_offset}"
                self._add_of(file, at, "keyHash", expected, "one more")
            else:
                expected = f"the hash of a key of record {record.physical_offset}"
                self._add_of(file, at, "keyHash", expected, entry.key_hash)
            # The first entry's is counted from the end of a file that may be gone.
            diff_s = time_diff_s(file.header.begin_timestamp_ms, record.store_timestamp_ms)
            if number > 1 and entry.time_diff_s != diff_s:
                self._add_of(file, at + _TIME_DIFF_AT, "timeDiff", diff_s, entry.time_diff_s)
        for key in missing:
            at = record.physical_offset - segment.base_offset
            durable = record.physical_offset < self._durable_end
            self._add(segment.path, at, "index entry", f"one with keyHash {key}", "none", durable=durable)


def _keyed_records(segment: RawSegment, log_end_offset: int, plain: PlainRecords | None) -> Iterator[_Keyed]:
    """Yield a segment's records that have keys; behind damage, from the next one on that can be found."""
    _, base_offset, view, file = segment
    at: int | None = 0
    end = min(len(view), log_end_offset - base_offset)
    while at is not None and at < end:
        try:
            while plain is not None and plain.scan(view[:end], at, base_offset, check_crc=False):
                yield from _keyed_of(plain)
                file.advise_dont_need(at, plain.end)
                at = plain.end
            begin, limit = at, None if plain is None else 1
            for record in islice(segment.records_from(at, end, check_crc=False), limit):
                at = record.physical_offset - base_offset + record.size_bytes
                if plain is not None and is_queued(record):
                    plain.know(record.topic, record.queue_id)
                hashes = key_hashes(record.topic, record.properties) if may_have_keys(record) else ()
                if hashes:
                    yield _Keyed(record.physical_offset, record.store_timestamp_ms, hashes)
            if limit is None or at == begin:
                return
        except CorruptFileError:
            at = find_record(view, at + 1, base_offset, len(view))


def _keyed_of(plain: PlainRecords) -> Iterator[_Keyed]:
    rows = zip(*map(plain.key_column, KEY_COLUMNS), strict=True)
    for (physical_offset, stored_ms), keys in groupby(rows, itemgetter(1, 2)):
        yield _Keyed(physical_offset, stored_ms, tuple(key_hash for key_hash, _, _ in keys))
