"""Verifier of the index: checks each file without the log.

This module checks the header of each index file and finds the entries that are in log order. `verify_keys` compares
these entries with the log. `LinkJudgement` checks the links between entries and slots. The check of the links is slow
and uses 4 bytes of memory per hash slot, so it runs in parallel with the check of the log.

After an unclean exit, recovery keeps only full index files that are not newer than the checkpoint's index time. Damage
in other index files is then a note.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from ..config import StoreConfig
from ..errors import CorruptFileError
from ..formats.columns import NativeCore
from ..formats.index import (
    ENTRY,
    ENTRY_BYTES,
    IndexHeader,
    decode_entry,
    decode_header,
    entries_position,
    header_defects,
    index_file_bytes,
    index_names_in_order,
    parse_index_file_name,
)
from ..index.index_file import index_file_defects
from ..world import Files
from .spread import PartSpread
from .violation import DirectoryPromise, DirectoryViolation, Findings

PHY_OFFSET_AT = 4
_BLOCK_ENTRIES = 8192


class IndexFileFacts(NamedTuple):
    """An index file of the right size with a plausible header."""

    path: str
    header: IndexHeader
    first_offset: int
    """Log offset in entry 1, or -1 if the file has no entry."""
    kept: tuple[tuple[int, int], ...]
    """Ranges of the numbers of entries that are in log order. The end of a range is exclusive."""
    last_offset: int
    """Log offset in the last entry of `kept`, or -1 if `kept` is empty."""
    floor: int = -1
    """Largest log offset in earlier files. The check ignores entries with smaller offsets."""
    is_durable: bool = True
    """Whether the file must be complete even after an unclean exit."""


class IndexFinding(NamedTuple):
    """A violation in the index. If `is_durable` is false, an unclean exit can cause the violation."""

    violation: DirectoryViolation
    is_durable: bool


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """The result of a check of all index files without the log."""

    files: tuple[IndexFileFacts, ...] = ()
    slots: int = 0
    entries_max: int = 0
    durable_end: int = -1
    """Log offset up to which all keys must be in the index, even after an unclean exit."""
    file_count: int = 0
    entry_count: int = 0
    found: tuple[IndexFinding, ...] = ()
    """Violations in all files, but not in links."""
    exists: bool = False
    """Whether the store has an index. If not, keys need no entries."""


class _ExaminedFile(NamedTuple):
    facts: IndexFileFacts | None
    """The facts, or None if the file's header is invalid."""
    header: IndexHeader
    defects: list[DirectoryViolation]


@dataclass(frozen=True, slots=True)
class _IndexFileExamination:
    findings: Findings
    slots: int
    entries_max: int

    def __call__(self, files: Files, core: NativeCore | None, path: str) -> _ExaminedFile:
        file_bytes = index_file_bytes(self.slots, self.entries_max)
        view = files.map(path, file_bytes).view(0, file_bytes)
        header = decode_header(view)
        found = _violations(self.findings, header_defects(header, path, self.entries_max))
        if found:
            return _ExaminedFile(None, header, found)
        kept, last = _entries_in_order(view, self.slots, header.next_entry)
        at = entries_position(self.slots) + ENTRY_BYTES
        first = decode_entry(view, at).physical_offset if header.next_entry > 1 else -1
        return _ExaminedFile(IndexFileFacts(path, header, first, kept, last), header, found)


@dataclass(frozen=True, slots=True)
class LinkJudgement:
    """Checks the links between entries and slots of one index file, which must have a plausible header."""

    root: str
    slots: int
    entries_max: int

    def __call__(self, files: Files, core: NativeCore | None, file: IndexFileFacts) -> list[IndexFinding]:
        file_bytes = index_file_bytes(self.slots, self.entries_max)
        view = files.map(file.path, file_bytes).view(0, file_bytes)
        findings = Findings(self.root, unclean_exit=False)  # only shortens file names
        found = _violations(findings, index_file_defects(view, file.path, self.slots, self.entries_max))
        return [IndexFinding(violation, file.is_durable) for violation in found]


def _violations(findings: Findings, found: Iterable[CorruptFileError]) -> list[DirectoryViolation]:
    return [
        findings.violation(DirectoryPromise.IDX, bad.file, bad.offset, bad.field, bad.expected, bad.found)
        for bad in found
    ]


def _entries_in_order(view: memoryview, slots: int, next_entry: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return the ranges of entries in log order, and the log offset in the last of these entries."""
    at = entries_position(slots)
    raw = ENTRY.iter_unpack(view[at + ENTRY_BYTES : at + ENTRY_BYTES * next_entry])
    kept, last, number = list[list[int]](), -1, 1
    while block := [entry[1] for entry in islice(raw, _BLOCK_ENTRIES)]:
        in_order = block[0] >= last and block == sorted(block)  # `sorted` makes one pass if the block is in order
        for begin, count, offset in (
            [(number, len(block), block[-1])] if in_order else [(at, 1, one) for at, one in enumerate(block, number)]
        ):
            if offset < last:
                continue
            last = offset
            if kept and kept[-1][1] == begin:
                kept[-1][1] = begin + count
            else:
                kept.append([begin, begin + count])
        number += len(block)
    assert number == max(next_entry, 1), (number, next_entry)
    return tuple((begin, end) for begin, end in kept), last


def examine_index(
    files: Files, config: StoreConfig, index_timestamp_ms: int, findings: Findings, spread: PartSpread
) -> IndexFacts:
    """Check every index file. index_timestamp_ms is from the checkpoint. `findings` gets unreadable files."""
    directory = config.index_directory
    if files.status(directory) is None:
        if index_timestamp_ms <= 0:
            return IndexFacts()
        expected = "a directory, because the checkpoint has an index time"
        violation = findings.violation(DirectoryPromise.IDX, directory, 0, "index", expected, "nothing")
        return IndexFacts(found=(IndexFinding(violation, is_durable=True),))
    try:
        return _IndexExamination(files, config, index_timestamp_ms, findings).examine_all(spread)
    except OSError as error:
        findings.add_unreadable(DirectoryPromise.IDX, directory, error)
        return IndexFacts()


class _IndexExamination:
    def __init__(self, files: Files, config: StoreConfig, index_timestamp_ms: int, findings: Findings) -> None:
        self._files = files
        self._directory = config.index_directory
        self._slots = config.max_hash_slot_num
        self._entries_max = config.max_index_num
        self._durable_ms = index_timestamp_ms
        self._findings = findings
        self._found: list[IndexFinding] = []
        self._kept: list[IndexFileFacts] = []
        self._all_durable = True
        self._durable_end = self._last = -1

    def examine_all(self, spread: PartSpread) -> IndexFacts:
        names = index_names_in_order(self._files.list_directory(self._directory))
        sizes = {name: self._size_of(name) for name in names}
        file_bytes = index_file_bytes(self._slots, self._entries_max)
        whole = [name for name, size_bytes in sizes.items() if size_bytes == file_bytes]
        examination = _IndexFileExamination(
            Findings(self._findings.root, unclean_exit=False), self._slots, self._entries_max
        )
        each = spread(examination, [self._index_file_path(name) for name in whole])
        for name, size_bytes in sizes.items():
            if size_bytes is None:
                self._add_index_finding(self._index_file_path(name), 0, "file name", "a time, yyyyMMddHHmmssSSS", name)
            elif size_bytes != file_bytes:
                self._add_index_finding(
                    self._index_file_path(name), 0, "file size", file_bytes, size_bytes, is_durable=False
                )
            else:
                self._add_examined_file(next(each))
        return IndexFacts(
            tuple(self._kept),
            self._slots,
            self._entries_max,
            self._durable_end,
            sum(size_bytes is not None for size_bytes in sizes.values()),
            sum(file.header.next_entry - 1 for file in self._kept),
            tuple(self._found),
            exists=True,
        )

    def _index_file_path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _size_of(self, name: str) -> int | None:
        """Return the size, or None if the name is not that of an index file."""
        status = self._files.status(self._index_file_path(name))
        if parse_index_file_name(name) is None or status is None or status.is_directory:
            return None
        return status.size_bytes

    def _add_index_finding(
        self, file: str, at: int, name: str, expected: object, found: object, *, is_durable: bool = True
    ) -> None:
        violation = self._findings.violation(DirectoryPromise.IDX, file, at, name, expected, found)
        self._found.append(IndexFinding(violation, is_durable))

    def _add_examined_file(self, examined: _ExaminedFile) -> None:
        header = examined.header
        is_full = header.next_entry == self._entries_max
        # Recovery rebuilds the first file that is not durable and all later files.
        self._all_durable = self._all_durable and is_full and header.end_timestamp_ms <= self._durable_ms
        self._found += [IndexFinding(violation, self._all_durable) for violation in examined.defects]
        file = examined.facts
        if file is None:
            return
        if self._all_durable:
            self._durable_end = max(self._durable_end, header.end_physical_offset)
        file = file._replace(floor=self._last, is_durable=self._all_durable)
        if header.next_entry > 1 and file.first_offset < self._last:
            expected = f"{self._last} or more, the end of the previous file"
            at = entries_position(self._slots) + ENTRY_BYTES + PHY_OFFSET_AT
            self._add_index_finding(file.path, at, "phyOffset", expected, file.first_offset, is_durable=file.is_durable)
        self._kept.append(file)
        self._last = max(self._last, file.last_offset)


def report_index(found: Iterable[IndexFinding], findings: Findings) -> None:
    """Add violations to findings. All violations that recovery repairs become one note."""
    explained = []
    for violation, is_durable in found:
        if is_durable or not findings.unclean_exit:
            findings.violations.append(violation)
        else:
            explained.append(violation)
    if explained:
        consequence = "rebuild the index from there"
        if len(explained) > 1:
            consequence += f", which also repairs {len(explained) - 1} other findings"
        findings.add_explained(explained[0], consequence)
