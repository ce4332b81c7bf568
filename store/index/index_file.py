"""Index file: appends entries, links the entries of a slot, and checks the links.

Like RocketMQ's IndexFile. One task adds entries; any task may read. Each entry refers to the previous entry of its hash
slot. The writer writes the entry, then the slot, then `count`. A reader reads the slot before `count`, so it never uses
an entry that is not written yet.

The links can be checked without the log, because the `previous` field of an entry must equal the value that its slot
had before that entry. This check detects an old page or sector anywhere except in the entries of the last record.
"""

from array import array
from collections.abc import Callable, Iterator
from sys import byteorder

from ..errors import CorruptFileError
from ..formats.columns import PlainRecords
from ..formats.index import (
    ENTRY,
    ENTRY_BYTES,
    HEADER,
    HEADER_BYTES,
    SLOT,
    SLOT_BYTES,
    IndexEntry,
    IndexHeader,
    decode_entry,
    decode_header,
    encode_entry,
    entries_position,
    header_defects,
    header_error,
    time_diff_s,
    used_slots_defects,
)
from ..world import MappedFile, Tasks

_BUILT_BYTES_MAX = 1 << 20
"""Maximum size of buffered entries during a build."""

_PHY_OFFSET_AT = 4
_TIME_DIFF_AT = 12
_PREVIOUS_AT = 16


class IndexFile:
    """A mapped index file.

    Invariant: `_unwritten` contains the last entries before number `_next`. `_newest` refers only to these entries. If
    no build runs, `_unwritten` and `_newest` are empty.
    """

    def __init__(self, tasks: Tasks, file: MappedFile, name: str, slots: int, entries_max: int) -> None:
        """Open a file without checking its contents."""
        self.file = file
        self.name = name
        self.view = file.view(0, file.size_bytes)
        self.is_durable = False
        """Whether the file is synced and will not change again."""
        self.is_building = False
        """Whether a build runs: entries are buffered until `end_building`, and no task reads the file."""
        self._unwritten = bytearray()
        self._newest: dict[int, int] = {}
        """Maps the position of a slot to the number of its newest buffered entry."""
        self._slots = slots
        self._entries_max = entries_max
        self._entries_at = entries_position(slots)
        header = decode_header(self.view)
        self.begin_timestamp_ms = header.begin_timestamp_ms
        self.end_timestamp_ms = header.end_timestamp_ms
        self.end_physical_offset = header.end_physical_offset
        self._begin_offset = header.begin_physical_offset
        self._used_slots = header.used_slots
        self._next = header.next_entry
        self.count = tasks.cell(f"index {name}.count", self._next)
        """Readers use only entries with numbers below `count`."""
        self.is_full = self._next >= entries_max
        """Whether all entries, slots and the header of a full file are written. In a batch, `count` is set earlier."""

    @property
    def header(self) -> IndexHeader:
        return self._header_with(self.count.get())

    def _header_with(self, next_entry: int) -> IndexHeader:
        times = self.begin_timestamp_ms, self.end_timestamp_ms
        return IndexHeader(*times, self._begin_offset, self.end_physical_offset, self._used_slots, next_entry)

    def entry(self, number: int) -> IndexEntry:
        """Return the entry with a number from 1 to `count` - 1."""
        return decode_entry(self.view, self._entries_at + ENTRY_BYTES * number)

    # -- writing -----------------------------------------------------------------------------------

    def start_after_full_file(self, full: "IndexFile") -> None:
        """Copy end time and end offset of the previous file into the header."""
        self.begin_timestamp_ms = self.end_timestamp_ms = full.end_timestamp_ms
        self._begin_offset = self.end_physical_offset = full.end_physical_offset
        self._store_header(self._next)

    def put_key(self, key_hash: int, physical_offset: int, store_timestamp_ms: int) -> bool:
        """Add an entry, or return False if the file is full. The file may already contain an equal entry."""
        number = self._next
        if number >= self._entries_max:
            return False
        slot_at = HEADER_BYTES + key_hash % self._slots * SLOT_BYTES
        previous = self._newest.get(slot_at) or SLOT.unpack_from(self.view, slot_at)[0]
        if not 0 < previous < number:  # like IndexFile.putKey: a crash may have lost the slot's entry
            previous = 0
        diff_s = time_diff_s(self.begin_timestamp_ms, store_timestamp_ms)
        entry = encode_entry(key_hash, physical_offset, diff_s, previous)
        if self.is_building:
            self._unwritten += entry
            self._newest[slot_at] = number
        else:
            store = self.file.store
            store(self._entries_at + ENTRY_BYTES * number, entry)
            store(slot_at, SLOT.pack(number))
        if number == 1:
            self.begin_timestamp_ms = store_timestamp_ms
            self._begin_offset = physical_offset
        if not previous:
            self._used_slots += 1
        self.end_timestamp_ms = store_timestamp_ms
        self.end_physical_offset = physical_offset
        self._next = number + 1
        if not self.is_building:
            self._publish_header()
        elif len(self._unwritten) >= _BUILT_BYTES_MAX:
            self._write_buffered_entries()
        return True

    def put_plain(self, plain: PlainRecords, begin: int) -> int:
        """Add the keys from row `begin` on until the file is full. Returns the number of added keys."""
        times, offsets = plain.key_column("store_timestamp_ms"), plain.key_column("physical_offset")
        end = min(begin + self._entries_max - self._next, plain.key_count)
        if begin >= end:
            return 0
        entries, used_slots = plain.link(
            begin, end, self.view, self._slots, self._newest, self._next, self.begin_timestamp_ms
        )
        if self._next == 1:
            self.begin_timestamp_ms, self._begin_offset = times[begin], offsets[begin]
        self.end_timestamp_ms, self.end_physical_offset = times[end - 1], offsets[end - 1]
        self._unwritten += entries
        self._used_slots += used_slots
        self._next += end - begin
        if not self.is_building:
            self._write_buffered_entries()
            self._store_header(self._next)
            self.is_full = self._next >= self._entries_max
        elif len(self._unwritten) >= _BUILT_BYTES_MAX:
            self._write_buffered_entries()
        return end - begin

    def end_building(self) -> None:
        """End the build. Later entries are not buffered."""
        self._write_buffered_entries()
        self.is_building = False
        if self._next != self.count.get():
            self._publish_header()

    def _write_buffered_entries(self) -> None:
        """Write entries before the slots that refer to them."""
        if not self._unwritten:
            return
        unwritten, odd_bytes = divmod(len(self._unwritten), ENTRY_BYTES)
        assert not odd_bytes, len(self._unwritten)
        assert unwritten < self._next <= self._entries_max, (unwritten, self._next, self._entries_max)
        assert 0 < len(self._newest) <= unwritten, (len(self._newest), unwritten)
        store = self.file.store
        store(self._entries_at + ENTRY_BYTES * self._next - len(self._unwritten), self._unwritten)
        if not self.is_building:
            self.count.set(self._next)  # before the slots: readers ignore slots that refer to entries after `count`
        for slot_at, number in self._newest.items():
            store(slot_at, SLOT.pack(number))
        self._unwritten.clear()
        self._newest.clear()

    def _publish_header(self) -> None:
        assert not self._unwritten, len(self._unwritten)
        self._store_header(self._next)
        self.count.set(self._next)
        self.is_full = self._next >= self._entries_max

    def _store_header(self, number: int) -> None:
        """Write the header, which is in one sector, so that a crash cannot split it."""
        self.file.store(0, HEADER.pack(*self._header_with(number if number > 1 else 0)))

    def flush(self) -> None:
        """Sync the file, but not its name."""
        self.file.msync(0, self.file.size_bytes)

    # -- reading -----------------------------------------------------------------------------------

    def select_offsets(
        self, key_hash: int, begin_ms: int, end_ms: int, found: list[int], max_num: int, accept: Callable[[int], bool]
    ) -> None:
        """Append log offsets of entries with this hash to `found`, newest first, until it has max_num.

        Offsets for which `accept` returns False are omitted. Entries contain times in whole seconds, so `accept` can
        get a record that was stored up to 999 ms before begin_ms or after end_ms.
        """
        view, base_at = self.view, self._entries_at
        (number,) = SLOT.unpack_from(view, HEADER_BYTES + key_hash % self._slots * SLOT_BYTES)
        if number > min(self.count.get(), self._entries_max - 1):
            return
        while number > 0 and len(found) < max_num:
            at = base_at + ENTRY_BYTES * number
            stored_hash, physical_offset, diff_s, previous = ENTRY.unpack_from(view, at)
            # The first entry's timeDiff is relative to an earlier time: see formats.index.
            stored_ms = self.begin_timestamp_ms + (1000 * diff_s if number > 1 else 0)
            is_in_time = begin_ms <= stored_ms + 999 and stored_ms <= end_ms
            if stored_hash == key_hash and is_in_time and accept(physical_offset):
                found.append(physical_offset)
            if stored_ms + 999 < begin_ms or previous >= number:  # a wrong link could make this loop endless
                return
            number = previous

    def may_hold(self, begin_ms: int, end_ms: int) -> bool:
        return begin_ms <= self.end_timestamp_ms and end_ms >= self.begin_timestamp_ms


def index_file_defects(view: memoryview, path: str, slots: int, entries_max: int) -> Iterator[CorruptFileError]:
    """Yield the errors in an index file; if the header is wrong, only the header's.

    Uses 4 bytes of memory per slot.
    """
    header = decode_header(view)
    in_header = list(header_defects(header, path, entries_max))
    yield from in_header
    if in_header:
        return
    table = array("i", bytes(SLOT_BYTES * slots))
    assert table.itemsize == SLOT_BYTES
    yield from _entry_defects(view, path, header, table)
    yield from used_slots_defects(header, slots - table.count(0), path)
    yield from _slot_defects(view, path, table)


def _entry_defects(view: memoryview, path: str, header: IndexHeader, table: "array[int]") -> Iterator[CorruptFileError]:
    slots = len(table)
    begin, end = header.begin_physical_offset, header.end_physical_offset
    at = entries_position(slots) + ENTRY_BYTES
    entries = ENTRY.iter_unpack(view[at : at + ENTRY_BYTES * (header.next_entry - 1)])
    last = begin
    for number, (key_hash, physical_offset, diff_s, previous) in enumerate(entries, 1):
        if key_hash < 0:
            yield CorruptFileError(path, at, "keyHash", "0 or more", key_hash)
            key_hash = 0
        if physical_offset < last or physical_offset > end or (number == 1 and physical_offset != begin):
            expected = begin if number == 1 else f"{last} to {end}"
            yield CorruptFileError(path, at + _PHY_OFFSET_AT, "phyOffset", expected, physical_offset)
        else:
            last = physical_offset
        if diff_s < 0:
            yield CorruptFileError(path, at + _TIME_DIFF_AT, "timeDiff", "0 or more", diff_s)
        slot = key_hash % slots
        if previous != table[slot]:
            yield CorruptFileError(path, at + _PREVIOUS_AT, "previous", table[slot], previous)
        table[slot] = number
        at += ENTRY_BYTES
    if header.next_entry > 1 and last != end:
        yield header_error(path, "endPhyOffset", f"{last}, the last record's", end)


def _slot_defects(view: memoryview, path: str, table: "array[int]") -> Iterator[CorruptFileError]:
    raw = view[HEADER_BYTES : HEADER_BYTES + SLOT_BYTES * len(table)]
    expected = array("i", table)
    if byteorder == "little":
        expected.byteswap()
    if raw == memoryview(expected).cast("B"):
        return
    for slot, (found,) in enumerate(SLOT.iter_unpack(raw)):
        if found != table[slot]:
            yield CorruptFileError(path, HEADER_BYTES + SLOT_BYTES * slot, "slot", table[slot], found)
