"""Verifier of keys: compares a part of the log with its index entries.

Records and index entries are both in log order. So one pass over both finds entries without a record, keys without an
entry, and duplicate entries. The verifier compares blocks of entries, and single entries only if a block differs.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from ..formats.columns import KEY_COLUMNS, PlainRecords
from ..formats.index import ENTRY, ENTRY_BYTES, entries_position, time_diff_s
from ..world import Files
from .verify_index import PHY_OFFSET_AT, IndexFacts, IndexFileFacts, IndexFinding
from .violation import DirectoryPromise, Findings

_TIME_DIFF_AT = 12
_BLOCK_ENTRIES = 8192
_Entry = tuple[int, int, int, int]
"""The fields keyHash, phyOffset, timeDiff and previous of an index entry."""


class KeyedRecord(NamedTuple):
    """A record that has keys."""

    physical_offset: int
    store_timestamp_ms: int
    hashes: tuple[int, ...]


class KeyFindings(NamedTuple):
    """Violations in a part of the log, some of which depend on the rest of the log."""

    certain: list[IndexFinding]
    if_log_goes_on: list[IndexFinding]
    """Violations that count only if a whole record follows: damaged records then need index entries."""
    if_log_ends: list[IndexFinding]
    """Violations that count only if no whole record follows: the damaged bytes are then a torn tail."""


class KeyVerifier:
    """Compares one part of the log with the index. The caller adds records in log order."""

    def __init__(
        self, files: Files, index: IndexFacts, findings: Findings, segment: tuple[str, int], begin_offset: int
    ) -> None:
        """`segment` is path and base offset of the part's segment. `findings` only shortens file names."""
        self._entries = _IndexCursor(files, index, begin_offset)
        self._entries_at = entries_position(index.slots)
        self._durable_end = index.durable_end
        self._violation = findings.violation
        self._segment_path, self._base_offset = segment
        self._found: list[IndexFinding] = []
        self._whole: list[KeyedRecord] = []
        self._held: list[KeyedRecord] = []
        """Damaged records after the last whole record."""

    def add_damaged(self, record: KeyedRecord) -> None:
        """Add a damaged record, which is a torn tail if no whole record follows."""
        self._held.append(record)

    def add_whole(self, record: KeyedRecord | None) -> None:
        """Add a whole record, or None for a record without keys."""
        self._add_held_records()
        if record is not None:
            self._whole.append(record)
            if len(self._whole) == _BLOCK_ENTRIES:
                self._compare_whole_records()

    def add_plain(self, plain: PlainRecords) -> None:
        self._add_held_records()
        self._compare_whole_records()
        columns = [plain.key_column(name) for name in KEY_COLUMNS]
        if not len(columns[0]) or self._skip_if_next(*columns):
            return
        for (physical_offset, stored_ms), keys in groupby(zip(*columns, strict=True), itemgetter(1, 2)):
            self._compare_keys(KeyedRecord(physical_offset, stored_ms, tuple(key_hash for key_hash, _, _ in keys)))

    def finish(self, end_offset: int | None) -> KeyFindings:
        """Return all findings. end_offset is the log offset of the part's end, or None for the last part."""
        self._compare_whole_records()
        certain, self._found = self._found, []
        self._entries.set_mark()
        self._finish_at(end_offset)
        if_log_ends = self._found
        if self._held:
            self._found = []
            self._entries.return_to_mark()
            self._add_held_records()
            self._finish_at(end_offset)
        return KeyFindings(certain, self._found, if_log_ends)

    def _finish_at(self, end_offset: int | None) -> None:
        while (entry := self._entries.next) is not None and (end_offset is None or entry[1] < end_offset):
            self._report_without_record()

    def _compare_whole_records(self) -> None:
        records, self._whole = self._whole, []
        keys = [(key, record.physical_offset, record.store_timestamp_ms) for record in records for key in record.hashes]
        if not keys or self._skip_if_next(*zip(*keys, strict=True)):
            return
        for record in records:
            self._compare_keys(record)

    def _add_held_records(self) -> None:
        if self._held:
            self._compare_whole_records()
        for record in self._held:
            self._compare_keys(record)
        self._held.clear()

    # -- many keys -----------------------------------------------------------------------------------

    def _skip_if_next(self, hashes: Sequence[int], offsets: Sequence[int], times: Sequence[int]) -> bool:
        """If the next entries are exactly those of the given keys, skip them and return True."""
        entries, at = self._entries, 0
        entries.set_mark()
        while at < len(hashes):
            some = entries.block(len(hashes) - at)
            end = at + len(some)
            if not some or not _are_entries_of_keys(
                entries.file, entries.number, some, hashes[at:end], offsets[at:end], times[at:end]
            ):
                entries.return_to_mark()
                return False
            entries.skip(len(some))
            at = end
        if entries.next is not None and entries.next[1] <= offsets[-1]:
            entries.return_to_mark()  # the last record has another entry
            return False
        return True

    # -- one record ----------------------------------------------------------------------------------

    def _add_key_finding(
        self, file: str, at: int, name: str, expected: object, found: object, *, is_durable: bool
    ) -> None:
        violation = self._violation(DirectoryPromise.IDX, file, at, name, expected, found)
        self._found.append(IndexFinding(violation, is_durable))

    def _add_finding_of_next(self, at: int, name: str, expected: object, found: object) -> None:
        file = self._entries.file
        at += self._entries_at + ENTRY_BYTES * self._entries.number
        self._add_key_finding(file.path, at, name, expected, found, is_durable=file.is_durable)

    def _report_without_record(self) -> None:
        entry = self._entries.next
        assert entry is not None
        self._add_finding_of_next(PHY_OFFSET_AT, "phyOffset", "the start of a record with a key", entry[1])
        self._entries.skip(1)

    def _compare_keys(self, record: KeyedRecord) -> None:
        entries, offset = self._entries, record.physical_offset
        entries.set_mark()
        while (entry := entries.next) is not None and entry[1] < offset:
            self._report_without_record()
        missing = list(record.hashes)
        while (entry := entries.next) is not None and entry[1] == offset:
            key_hash, _, found_s, _ = entry
            if key_hash in missing:
                missing.remove(key_hash)
            elif key_hash in record.hashes:
                self._add_finding_of_next(0, "keyHash", f"one entry for each key of record {offset}", "a duplicate")
            else:
                self._add_finding_of_next(0, "keyHash", f"the hash of a key of record {offset}", key_hash)
            # The time of a file's first entry is relative to the previous file, which may be removed.
            diff_s = time_diff_s(entries.file.header.begin_timestamp_ms, record.store_timestamp_ms)
            if entries.number > 1 and found_s != diff_s:
                self._add_finding_of_next(_TIME_DIFF_AT, "timeDiff", diff_s, found_s)
            entries.skip(1)
        for key in missing:
            is_durable = offset < self._durable_end
            expected = f"an entry with keyHash {key}"
            at = offset - self._base_offset
            self._add_key_finding(self._segment_path, at, "index entry", expected, "none", is_durable=is_durable)


def _are_entries_of_keys(
    file: IndexFileFacts,
    number: int,
    entries: Sequence[_Entry],
    hashes: Sequence[int],
    offsets: Sequence[int],
    times: Sequence[int],
) -> bool:
    assert 0 < len(entries) == len(hashes), (len(entries), len(hashes))
    found_hashes, found_offsets, found_s, _ = zip(*entries, strict=True)
    if found_offsets != tuple(offsets) or found_hashes != tuple(hashes):
        return False
    begin_ms = file.header.begin_timestamp_ms
    diffs_s = [time_diff_s(begin_ms, stored_ms) for stored_ms in times]
    if number == 1:  # this time is relative to the previous file, which may be removed
        diffs_s[0] = found_s[0]
    return list(found_s) == diffs_s


class _IndexCursor:
    """A cursor over index entries in log order.

    Invariant: unless the cursor is at the end, `next` is entry `number` of `file`.
    """

    def __init__(self, files: Files, index: IndexFacts, begin_offset: int) -> None:
        self._files = files
        self._at = entries_position(index.slots)
        self._blocks = self._read_entries(index.files, begin_offset)
        self._seen: list[tuple[IndexFileFacts, int, list[_Entry]]] = []
        """Loaded blocks from the saved position on: file, number of the first entry, and entries."""
        self._block = self._position = 0
        self._marked = 0
        self._load_next_block()

    @property
    def file(self) -> IndexFileFacts:
        return self._seen[self._block][0]

    @property
    def number(self) -> int:
        return self._seen[self._block][1] + self._position

    def block(self, count: int) -> list[_Entry]:
        """Return up to `count` next entries of one file, or none at the end of the index."""
        if self.next is None:
            return []
        return self._seen[self._block][2][self._position : self._position + count]

    def skip(self, count: int) -> None:
        """Skip `count` entries, which must be in the current block."""
        self._position += count
        assert self._position <= len(self._seen[self._block][2]), (self._position, count)
        self._load_next_block()

    def set_mark(self) -> None:
        """Save the cursor position for `return_to_mark`, and release earlier blocks."""
        del self._seen[: self._block]
        self._block, self._marked = 0, self._position

    def return_to_mark(self) -> None:
        self._block, self._position = 0, self._marked
        self._load_next_block()

    def _load_next_block(self) -> None:
        while self._block < len(self._seen) and self._position == len(self._seen[self._block][2]):
            self._block, self._position = self._block + 1, 0
        if self._block == len(self._seen) and (block := next(self._blocks, None)) is not None:
            self._seen.append(block)
        is_there = self._block < len(self._seen)
        self.next: _Entry | None = self._seen[self._block][2][self._position] if is_there else None

    def _read_entries(
        self, files: Sequence[IndexFileFacts], begin_offset: int
    ) -> Iterator[tuple[IndexFileFacts, int, list[_Entry]]]:
        for file in files:
            least = max(begin_offset, file.floor)
            if file.last_offset >= least:
                yield from self._read_file(file, least)

    def _read_file(self, file: IndexFileFacts, least: int) -> Iterator[tuple[IndexFileFacts, int, list[_Entry]]]:
        mapped = self._files.map(file.path, self._at + ENTRY_BYTES * file.header.next_entry)

        def entries(first: int, end: int) -> list[_Entry]:
            return list(ENTRY.iter_unpack(mapped.view(self._at + ENTRY_BYTES * first, self._at + ENTRY_BYTES * end)))

        def offset_of(number: int) -> int:
            return entries(number, number + 1)[0][1]

        for first, end in file.kept:
            if offset_of(end - 1) < least:
                continue
            for begin in range(bisect_left(range(end), least, first, key=offset_of), end, _BLOCK_ENTRIES):
                yield file, begin, entries(begin, min(begin + _BLOCK_ENTRIES, end))
