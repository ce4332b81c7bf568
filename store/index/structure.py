"""Whether an index file agrees with itself: everything that can be told without the log.

An entry's `previous` must be what its slot held before, so walking all entries with an empty table gives the slots as
they must be. That finds a page or sector of another moment wherever it lies, but for the bytes of the last record.
"""

from array import array
from collections.abc import Iterator
from sys import byteorder

from ..errors import CorruptFileError
from ..formats.index import (
    ENTRY,
    ENTRY_BYTES,
    HEADER_BYTES,
    SLOT,
    SLOT_BYTES,
    IndexHeader,
    decode_header,
    entries_at,
    header_defects,
    header_error,
    used_slots_defects,
)

_PHY_OFFSET_AT = 4
_TIME_DIFF_AT = 12
_PREVIOUS_AT = 16


def defects(view: memoryview, path: str, slots: int, entries_max: int) -> Iterator[CorruptFileError]:
    """Yield what is wrong with the file that view holds; with the header wrong, nothing else is looked at.

    Needs 4 bytes of memory for each slot.
    """
    header = decode_header(view)
    in_header = list(header_defects(header, path, entries_max))
    yield from in_header
    if in_header:
        return
    table = array("i", bytes(SLOT_BYTES * slots))
    assert table.itemsize == SLOT_BYTES
    yield from _entry_defects(view, path, header, table)
    used_slots = slots - table.count(0)
    yield from used_slots_defects(header, used_slots, path)
    yield from _slot_defects(view, path, table)


def _entry_defects(
    view: memoryview, path: str, header: IndexHeader, table: "array[int]"
) -> Iterator[CorruptFileError]:
    """Yield what is wrong with the entries; leave in table what the slots must hold."""
    slots = len(table)
    begin, end = header.begin_physical_offset, header.end_physical_offset
    at = entries_at(slots) + ENTRY_BYTES
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
