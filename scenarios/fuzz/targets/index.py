"""Target: the index, read by look-ups and recovery.

A look-up must end for any chain of entries, and return only log offsets of entries with the requested hash. If the
entries of an undamaged file are put into a new file, the bytes must be the same.
"""

from struct import Struct
from typing import cast

from ....store.formats import index as index_format
from ....store.index import index_file
from ....store.real.world import ThreadTasks
from ....store.world import MappedFile
from ..material import BORN_MS
from ..mutation import Draw
from ..shape import INDEX_SLOTS as SLOTS
from ..target import InputOutcome, Target, TargetViolation, field_in_error

FILE = "index/20200913122640123"
ENTRIES_MAX = 10
HASHES = (0, 3, 8, 79_072_524, 0x7FFFFFFF)
"""Hashes, some with the same slot."""
_NAME = FILE.rpartition("/")[2]
_ENTRIES_AT = index_format.entries_position(SLOTS)
_ENTRY_BYTES, _SLOT_BYTES = index_format.ENTRY_BYTES, index_format.SLOT_BYTES
_HASH_AND_OFFSET = Struct(">iq")
_NEVER_MS = 1 << 64
_FILE_BYTES = index_format.index_file_bytes(SLOTS, ENTRIES_MAX)


class _MemoryMap:
    __slots__ = ("_raw", "path", "size_bytes")

    def __init__(self, raw: bytearray) -> None:
        self._raw = raw
        self.path = FILE
        self.size_bytes = len(raw)

    def view(self, start: int, end: int) -> memoryview:
        return memoryview(self._raw)[start:end]

    def store(self, at: int, data: bytes) -> None:
        self._raw[at : at + len(data)] = data


def _open_index_file(raw: bytearray) -> index_file.IndexFile:
    return index_file.IndexFile(ThreadTasks(), cast(MappedFile, _MemoryMap(raw)), _NAME, SLOTS, ENTRIES_MAX)


class IndexTarget(Target):
    """Fuzzes a file with few slots and entries. Shorter inputs are padded with zeros."""

    name = "index"
    file = FILE
    size_bytes_max = _FILE_BYTES

    def valid_input(self, draw: Draw) -> bytes:
        raw = bytearray(_FILE_BYTES)
        file = _open_index_file(raw)
        physical_offset, stored_ms = draw.randbelow(1000), BORN_MS
        for _ in range(draw.randbelow(ENTRIES_MAX + 1)):
            file.put_key(draw.choice(HASHES), physical_offset, stored_ms)
            physical_offset += 100 * draw.randbelow(2)
            stored_ms += draw.choice((0, 1, 999, 5000))
        return bytes(raw)

    def check(self, raw: bytes) -> InputOutcome:
        data = bytearray(raw.ljust(_FILE_BYTES, b"\0"))
        view = memoryview(data)
        found = index_file.index_file_defects(view, FILE, SLOTS, ENTRIES_MAX)
        defects = [field_in_error(defect, FILE, _FILE_BYTES) for defect in found]
        slots = index_format.slots_of(view)
        if slots is not None and not 1 <= slots <= len(data) // _SLOT_BYTES:
            raise TargetViolation("slots", "the number that fits into the file", slots)
        file = _open_index_file(data)
        looked_up = [_look_up(file, data, key_hash, has_defects=bool(defects)) for key_hash in HASHES[1:4]]
        ways = "".join(looked_up)
        if defects:
            return InputOutcome(False, f"{defects[0]} {min(len(defects), 2)} {ways}")
        _check_rebuilt(file, data)
        return InputOutcome(True, f"{file.header.next_entry} {ways}")


def _look_up(file: index_file.IndexFile, data: bytearray, key_hash: int, *, has_defects: bool) -> str:
    """Look up keys. Return the number of found entries as text."""
    asked: list[int] = []

    def accept(physical_offset: int) -> bool:
        asked.append(physical_offset)
        if len(asked) > ENTRIES_MAX:
            raise TargetViolation("chain", f"{ENTRIES_MAX} entries at most", "more, and no end")
        return True

    file.select_offsets(key_hash, 0, _NEVER_MS, [], ENTRIES_MAX * 2, accept)
    if not asked and has_defects:
        return "0"
    there = [
        physical_offset
        for at in _entry_places(ENTRIES_MAX if has_defects else file.header.next_entry)
        for stored_hash, physical_offset in (_HASH_AND_OFFSET.unpack_from(data, at),)
        if stored_hash == key_hash
    ]
    if any(offset not in there for offset in asked) or not (has_defects or asked == there[::-1]):
        raise TargetViolation("looked-up", there[::-1], asked)
    return str(min(len(asked), 3))


def _entry_places(end: int) -> range:
    return range(_ENTRIES_AT + _ENTRY_BYTES, _ENTRIES_AT + _ENTRY_BYTES * end, _ENTRY_BYTES)


def _check_rebuilt(file: index_file.IndexFile, data: bytearray) -> None:
    again = bytearray(_FILE_BYTES)
    new = _open_index_file(again)
    for number in range(1, file.header.next_entry):
        key_hash, physical_offset, diff_s, _ = entry = file.entry(number)
        new.put_key(key_hash, physical_offset, file.begin_timestamp_ms)
        made = new.entry(number)._replace(time_diff_s=diff_s)  # an index stores only whole seconds of a record's time
        if made != entry:
            raise TargetViolation("re-encoded", entry, made)
    slots = slice(index_format.HEADER_BYTES, _ENTRIES_AT)
    if again[slots] != data[slots]:
        raise TargetViolation("re-encoded", data[slots].hex(), again[slots].hex())
