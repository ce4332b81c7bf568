"""A directory's layout, as the driver sees it without reading through: names, lengths, gaps, headers, checkpoint.

A row of segments has one length, the one most of its files have: a cut file is the odd one out, not all the others.
What an unclean exit leaves at a row's end, files that are short and all zero, recovery removes: that is explained.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ....store.errors import CorruptFileError
from ....store.formats.checkpoint import (
    CHECKPOINT_BYTES,
    SAFETY_MARGIN_MS,
    CheckpointValues,
    claims_beyond,
    decode_checkpoint,
    is_unborn,
)
from ....store.formats.consume_queue import queue_id_of
from ....store.formats.index import ENTRY_BYTES as INDEX_ENTRY_BYTES
from ....store.formats.index import (
    HEADER_BYTES,
    decode_header,
    entries_at,
    header_defects,
    index_file_bytes,
    parse_index_file_name,
    slots_of,
)
from ..source.directory import StoreDirectory, StoreFile
from ..source.index_entries import DEFAULT_HASH_SLOTS, DEFAULT_INDEX_ENTRIES

_NAME_DIGITS = 20
_INDEX_BYTES_MAX = 0x7FFFFFFF


class LayoutViolation(NamedTuple):
    """A row of what is found, as `tables` lists it."""

    promise: str
    file: str
    position: int
    field: str
    expected: str
    found: str
    is_explained: bool


@dataclass
class IndexLayout:
    """What lengths and headers of the index files show."""

    files: list[str] = field(default_factory=list)
    """Paths of those that have the right length."""
    durable: set[str] = field(default_factory=set)
    """Those that recovery has to find whole: full, and no younger than the checkpoint's index time."""
    durable_end: int = -1
    """Log offset up to which those have the keys."""
    slots: int | None = None
    """Of each file; None if no file shows it."""


class DirectoryLayout:
    """One directory, as far as its files' names, lengths, headers and checkpoint go."""

    def __init__(self, directory: StoreDirectory, hash_slots: int | None, index_entries: int | None) -> None:
        """hash_slots, index_entries: the options, None where not given."""
        self.directory = directory
        self.found: list[LayoutViolation] = []
        self.unclean_exit = directory.file("abort") is not None
        self.checkpoint = CheckpointValues(0, 0, 0)
        self._check_log()
        self._check_queues()
        self._read_checkpoint()
        self.index = self._index(hash_slots, index_entries)

    @property
    def durable_ms(self) -> int:
        """Return the store time up to which no unclean exit can have taken the entry of a record."""
        return min(self.checkpoint[:2]) - SAFETY_MARGIN_MS

    def against_the_log(self, records: int, last_store_timestamp_ms: int) -> Iterator[LayoutViolation]:
        """Yield what is wrong with the checkpoint of a log that has so many records, the last of that time."""
        path = f"{self.directory.root}/checkpoint"
        if self.directory.file("checkpoint") is None:
            if records:
                yield LayoutViolation("CKPT", path, -1, "file", "a file", "nothing", self.unclean_exit)
            return
        for error in claims_beyond(self.checkpoint, last_store_timestamp_ms, unclean_exit=self.unclean_exit, file=path):
            yield _of_error("CKPT", error)

    # -- log and queues ----------------------------------------------------------------------------

    def _check_log(self) -> None:
        listed = [one for path in self.directory.log_directories for one in self.directory.listed(path)]
        self._check_row("LOG", listed, _most_common(one.size for one in listed if _is_segment(one)))

    def _check_queues(self) -> None:
        root, rows = f"{self.directory.root}/consumequeue", []
        for topic in self.directory.listed(root):
            if not topic.is_directory:
                self._add("CQ-VALID", topic.path, "topic", "a directory", "a file", is_explained=True)
                continue
            for queue in self.directory.listed(topic.path):
                if queue_id_of(queue.name) is None:  # none of the store's: a start leaves it alone
                    self._add("CQ-VALID", queue.path, "queueId", "a number", queue.name, is_explained=True)
                elif not queue.is_directory:
                    self._add("CQ-VALID", queue.path, "queueId", "a directory", "a file")
                else:
                    rows.append(self.directory.listed(queue.path))
        size_bytes = _most_common(one.size for row in rows for one in row if _is_segment(one))
        for row in rows:
            self._check_row("CQ-VALID", row, size_bytes)

    def _check_row(self, promise: str, listed: Sequence[Any], size_bytes: int | None) -> None:
        """Check the files of one row of segments, each of which is to have a length; None: none has any byte."""
        row: list[StoreFile] = []
        for one in sorted(listed, key=lambda one: (one.name, one.path)):
            is_name = _is_segment(one, may_be_directory=True)
            if not is_name and (promise != "LOG" or one.is_directory):
                expected = f"{_NAME_DIGITS} digits"
                self._add(promise, one.path, "file name", expected, one.name, is_explained=True)
            elif not is_name or (size_bytes and int(one.name) % size_bytes):
                expected = f"{_NAME_DIGITS} digits, a multiple of {size_bytes}"
                self._add(promise, one.path, "file name", expected, one.name)
            elif one.is_directory:
                self._add(promise, one.path, "file", "a file", "a directory")
            else:
                row.append(StoreFile(one.path, one.size, int(one.name)))
        row = self._without_twins(promise, row)
        self._drop_unborn(promise, row, size_bytes)
        end = row[0].base_offset if row else 0
        for file in row:
            if file.size_bytes != size_bytes:
                is_cut = promise != "LOG" and file.size_bytes < (size_bytes or 0)
                sizes = str(size_bytes), str(file.size_bytes)
                is_explained = is_cut and self.unclean_exit
                self._add(promise, file.path, "file size", *sizes, is_explained=is_explained)
            if file.base_offset != end:
                self._add(promise, file.path, "name of the segment", str(end), str(file.base_offset))
            end = file.base_offset + (size_bytes or 0)

    def _without_twins(self, promise: str, row: list[StoreFile]) -> list[StoreFile]:
        kept: list[StoreFile] = []
        for file in row:
            if not kept or kept[-1].base_offset != file.base_offset:
                kept.append(file)
                continue
            twin, other = (kept[-1], file) if self.directory.is_zero(kept[-1]) else (file, kept[-1])
            kept[-1] = other
            is_explained = self.unclean_exit and self.directory.is_zero(twin)
            expected = "a name that no other directory has"
            self._add(promise, twin.path, "file name", expected, other.path, is_explained=is_explained)
        return kept

    def _drop_unborn(self, promise: str, row: list[StoreFile], size_bytes: int | None) -> None:
        while row:
            last = row[-1]
            is_behind_gap = len(row) > 1 and last.base_offset != row[-2].base_offset + (size_bytes or 0)
            if last.size_bytes >= (size_bytes or 1) and not is_behind_gap:
                return
            if not self.directory.is_zero(last):
                return
            row.pop()
            found = f"{last.size_bytes}, all zero"
            self._add(promise, last.path, "file size", str(size_bytes), found, is_explained=self.unclean_exit)

    # -- checkpoint and index ----------------------------------------------------------------------

    def _read_checkpoint(self) -> None:
        file = self.directory.file("checkpoint")
        if file is None:
            return
        try:
            raw = bytes(self.directory.content(file)[:CHECKPOINT_BYTES])
            if is_unborn(raw):
                sizes = f"at least {CHECKPOINT_BYTES} bytes", f"{len(raw)}, all zero"
                self._add("CKPT", file.path, "size", *sizes, is_explained=self.unclean_exit)
                return
            self.checkpoint = decode_checkpoint(raw, file=file.path)
        except CorruptFileError as error:
            self.found.append(_of_error("CKPT", error))

    def _index(self, given_slots: int | None, given_entries: int | None) -> IndexLayout:
        root, index = f"{self.directory.root}/index", IndexLayout()
        if not self.directory.is_directory(root):
            if self.checkpoint.index_msg_timestamp_ms > 0:
                self._add("IDX", root, "index", "a directory, as there was an index", "nothing")
            return index
        for one in self.directory.listed(root):
            if one.is_directory or parse_index_file_name(one.name) is None:
                self._add("IDX", one.path, "file name", "a file named by a time, yyyyMMddHHmmssSSS", one.name)
        files = self.directory.index_files()
        index.slots, entries = self._index_geometry(files, given_slots, given_entries)
        file_bytes = index_file_bytes(index.slots or DEFAULT_HASH_SLOTS, entries)
        all_durable, last = True, -1
        for file in files:
            if file.size_bytes != file_bytes:
                is_explained = self.unclean_exit
                found = str(file.size_bytes)
                self._add("IDX", file.path, "file size", str(file_bytes), found, is_explained=is_explained)
                continue
            index.files.append(file.path)
            view, origin = self.directory.window(file, 0, HEADER_BYTES)
            header = decode_header(view[: HEADER_BYTES - origin])
            is_full = header.next_entry == entries
            is_young = header.end_timestamp_ms > self.checkpoint.index_msg_timestamp_ms
            all_durable = all_durable and is_full and not is_young
            if next(header_defects(header, file.path, entries), None) is not None:
                continue  # a row of the source says so
            if all_durable:
                index.durable.add(file.path)
                index.durable_end = max(index.durable_end, header.end_physical_offset)
            if header.next_entry > 1 and header.begin_physical_offset < last:
                expected, begin = (
                    f"{last}, where the file before it ends, or more",
                    str(header.begin_physical_offset),
                )
                is_explained = self.unclean_exit and not all_durable
                self._add("IDX", file.path, "phyOffset", expected, begin, is_explained=is_explained)
            last = max(last, header.end_physical_offset)
        return index

    def _index_geometry(
        self, files: Sequence[StoreFile], given_slots: int | None, given_entries: int | None
    ) -> tuple[int | None, int]:
        """Return slots, None if unknown, and entries of each file: by option, or of the first that shows them."""
        for file in files:
            slots, entries = given_slots, given_entries
            if not index_file_bytes(1, 2) <= file.size_bytes <= _INDEX_BYTES_MAX:
                continue
            if slots is None and entries is not None:
                slots, odd_bytes = divmod(file.size_bytes - index_file_bytes(0, entries), 4)
                if slots > 0 and not odd_bytes:
                    return slots, entries
                continue
            if slots is None:
                if file.size_bytes == index_file_bytes(DEFAULT_HASH_SLOTS, DEFAULT_INDEX_ENTRIES):
                    return DEFAULT_HASH_SLOTS, DEFAULT_INDEX_ENTRIES
                slots = slots_of(self.directory.content(file))
            if slots is not None:
                entries, odd_bytes = divmod(file.size_bytes - entries_at(slots), INDEX_ENTRY_BYTES)
                if entries >= 2 and not odd_bytes:
                    return slots, given_entries or entries
        return given_slots, given_entries or DEFAULT_INDEX_ENTRIES

    def _add(
        self, promise: str, path: str, name: str, expected: str, found: str, *, is_explained: bool = False
    ) -> None:
        self.found.append(LayoutViolation(promise, path, 0, name, expected, found, is_explained))


def _of_error(promise: str, error: CorruptFileError) -> LayoutViolation:
    expected, found = str(error.expected), str(error.found)
    return LayoutViolation(promise, error.file, error.offset, error.field, expected, found, False)


def _is_segment(one: Any, *, may_be_directory: bool = False) -> bool:
    name: str = one.name
    is_named = len(name) == _NAME_DIGITS and name.isascii() and name.isdecimal()
    return is_named and (may_be_directory or not one.is_directory)


def _most_common(sizes: Iterable[int]) -> int | None:
    """Return the length most files have, the longer one of two equally common; None without bytes."""
    seen = Counter(size for size in sizes if size)
    return max(((count, size) for size, count in seen.items()), default=(0, None))[1]
