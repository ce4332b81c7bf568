"""Index file: a hash table from `topic#key` to records, its entries in the order of the log. Big-endian, signed.

    offset          bytes  field
    0               8      beginTimestamp  i64, ms     store time of the first record indexed
    8               8      endTimestamp    i64, ms     of the last
    16              8      beginPhyOffset  i64         where the first record begins in the log
    24              8      endPhyOffset    i64         where the last one does
    32              4      hashSlotCount   i32         slots in use
    36              4      indexCount      i32         number of the next entry; a new file has 0, which means 1
    40              4 * S  slots           i32 each    number of the slot's newest entry, 0 for none
    40 + 4 * S      20     entry 0, never used, as 0 means none
    ... + 20 * n    20     entry n, up to n = N - 1

    an entry
    0               4      keyHash         i32         see formats.index_key; its slot is keyHash mod S
    4               8      phyOffset       i64         where the record begins in the log
    12              4      timeDiff        i32, s      store time less beginTimestamp, whole seconds
    16              4      previous        i32         number of the slot's next older entry, 0 for none

S is `maxHashSlotNum`, N is `maxIndexNum`: no file says which, and every file is 40 + 4 S + 20 N bytes long; `slots_of`
works S out. A file that follows a full one begins with both times and both offsets set to the end of that one, until
its first entry sets them; the timeDiff of this first entry is still counted from there. No checksum of its own: believe
an entry only after reading back the record it points at.

A file's name is the local time of its making, yyyyMMddHHmmssSSS, so that the order of times is the order of making.
Local times are counted in ms like those of the clock, as if the time zone were UTC.
Source: RocketMQ IndexHeader.java, IndexFile.putKey, UtilAll.timeMillisToHumanString. Calendar arithmetic after Howard
Hinnant, "chrono-compatible low-level date algorithms".
"""

from calendar import timegm
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from ..errors import CorruptFileError

HEADER_BYTES = 40
SLOT_BYTES = 4
ENTRY_BYTES = 20
TIME_DIFF_MAX_S = 0x7FFFFFFF  # RocketMQ IndexFile.putKey: Integer.MAX_VALUE
HEADER = Struct(">qqqqii")
SLOT = Struct(">i")
ENTRY = Struct(">iqii")
assert (HEADER.size, SLOT.size, ENTRY.size) == (HEADER_BYTES, SLOT_BYTES, ENTRY_BYTES)
FIELDS_AT = {
    "beginTimestamp": 0,
    "endTimestamp": 8,
    "beginPhyOffset": 16,
    "endPhyOffset": 24,
    "hashSlotCount": 32,
    "indexCount": 36,
}
"""Where each field of the header begins."""

encode_entry: Callable[[int, int, int, int], bytes] = ENTRY.pack
"""Encode one entry: (key_hash, physical_offset, time_diff_s, previous). Called for every key of every message."""

_SLOTS_APART = ENTRY_BYTES // SLOT_BYTES
_CHUNK_BYTES = 1 << 20

_NAME_CHARACTERS = (17, 18)
"""Years have four digits, or five from 10000 on, as Java writes them."""
_DAY_MS = 86_400_000
_ERA_DAYS = 146_097  # 400 years
_EPOCH_DAYS = 719_468  # from 0000-03-01, where eras begin, to 1970-01-01
_ERA_YEARS = 400
_FIRST_ERA = 2000
LOCAL_MS_MAX = 3_093_527_980_799_999  # the last that five digits of a year can say


class IndexHeader(NamedTuple):
    """What a file says of its entries; times in ms, offsets in the log."""

    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_physical_offset: int
    end_physical_offset: int
    used_slots: int
    next_entry: int
    """Number of the next entry; 1 in a file without any."""


class IndexEntry(NamedTuple):
    """One key of one record."""

    key_hash: int
    physical_offset: int
    time_diff_s: int
    previous: int


def decode_header(view: memoryview) -> IndexHeader:
    """Decode the 40 bytes a file begins with. Any bytes are a header: ask index.structure."""
    header = IndexHeader._make(HEADER.unpack_from(view))
    # RocketMQ writes 0 into a new file and counts it as 1, because number 0 means that a slot is empty.
    return header._replace(next_entry=1) if header.next_entry <= 0 else header


def decode_entry(view: memoryview, at: int) -> IndexEntry:
    """Decode the 20 bytes at position at, which must be there. Any bytes are an entry."""
    return IndexEntry._make(ENTRY.unpack_from(view, at))


def entries_at(slots: int) -> int:
    """Return where entry 0 begins."""
    return HEADER_BYTES + SLOT_BYTES * slots


def index_file_bytes(slots: int, entries_max: int) -> int:
    """Return how long a file is."""
    return entries_at(slots) + ENTRY_BYTES * entries_max


def time_diff_s(begin_timestamp_ms: int, store_timestamp_ms: int) -> int:
    """Return what an entry has for the time of its record."""
    if begin_timestamp_ms <= 0 or store_timestamp_ms <= begin_timestamp_ms:
        return 0
    diff_s = (store_timestamp_ms - begin_timestamp_ms) // 1000
    return diff_s if diff_s < TIME_DIFF_MAX_S else TIME_DIFF_MAX_S


def header_defects(header: IndexHeader, path: str, entries_max: int) -> Iterator[CorruptFileError]:
    """Yield the fields of a header that no index file can have."""
    if header.next_entry > entries_max:
        yield header_error(path, "indexCount", f"at most {entries_max}", header.next_entry)
    if header.begin_timestamp_ms < 0:
        yield header_error(path, "beginTimestamp", "0 or more", header.begin_timestamp_ms)
    if header.begin_physical_offset < 0:
        yield header_error(path, "beginPhyOffset", "0 or more", header.begin_physical_offset)
    if header.end_physical_offset < header.begin_physical_offset:
        expected = f"{header.begin_physical_offset}, the first record's, or more"
        yield header_error(path, "endPhyOffset", expected, header.end_physical_offset)
    if header.end_timestamp_ms < 0:
        yield header_error(path, "endTimestamp", "0 or more", header.end_timestamp_ms)
    if not 0 <= header.used_slots < header.next_entry:
        yield header_error(path, "hashSlotCount", f"0 to {header.next_entry - 1}", header.used_slots)


def used_slots_defects(header: IndexHeader, used_slots: int, path: str) -> Iterator[CorruptFileError]:
    """Yield what is wrong with hashSlotCount where so many slots are really used; up to 4.7.0 it counts entries."""
    if header.used_slots not in (used_slots, header.next_entry - 1):
        yield header_error(path, "hashSlotCount", used_slots, header.used_slots)


def header_error(path: str, field: str, expected: object, found: object) -> CorruptFileError:
    """Return the damage that a field of a header is."""
    return CorruptFileError(path, FIELDS_AT[field], field, expected, found)


def slots_of(view: memoryview) -> int | None:
    """Return how many slots the file that view holds must have, None if it does not say."""
    last = decode_header(view).next_entry - 1
    number, odd_bytes = divmod(len(view) - HEADER_BYTES, SLOT_BYTES)
    if last < 1 or odd_bytes:
        return None
    most = (_last_byte_at(view) - index_file_bytes(0, last)) // SLOT_BYTES
    slots = most - (most - number) % _SLOTS_APART
    at = index_file_bytes(slots, last)
    if slots < 1 or at + ENTRY_BYTES > len(view):
        return None
    slot = decode_entry(view, at).key_hash % slots
    return slots if SLOT.unpack_from(view, entries_at(slot))[0] == last else None


def _last_byte_at(view: memoryview) -> int:
    """Return where the last byte lies that is not zero; there must be one."""
    start = (len(view) - 1) // _CHUNK_BYTES * _CHUNK_BYTES
    while not (kept := len(bytes(view[start : start + _CHUNK_BYTES]).rstrip(b"\0"))):
        assert start > 0, "a file with a header has a byte that is not zero"
        start -= _CHUNK_BYTES
    return start + kept - 1


def index_file_name(local_ms: int) -> str:
    """Return the name for a local time in ms since 1970.

    >>> index_file_name(1_600_000_000_123)
    '20200913122640123'
    """
    assert 0 <= local_ms <= LOCAL_MS_MAX, local_ms
    days, ms = divmod(local_ms, _DAY_MS)
    year, month, day = _civil(days)
    seconds, ms = divmod(ms, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{year:04d}{month:02d}{day:02d}{hour:02d}{minute:02d}{second:02d}{ms:03d}"


def parse_index_file_name(name: str) -> int | None:
    """Return the local time a name says, None if it says none: then the file is not one of an index.

    >>> parse_index_file_name("20200913122640123"), parse_index_file_name("20200931000000000")
    (1600000000123, None)
    """
    if len(name) not in _NAME_CHARACTERS or not (name.isascii() and name.isdecimal()):
        return None
    year, month, *rest = int(name[:-13]), *(int(name[at : at + 2]) for at in range(len(name) - 13, len(name) - 3, 2))
    if year < 1970 or not 1 <= month <= 12:
        return None
    eras, year_of_era = divmod(year - _FIRST_ERA, _ERA_YEARS)  # timegm ends with the year 9999
    local_ms = eras * _ERA_DAYS * _DAY_MS + timegm((_FIRST_ERA + year_of_era, month, *rest)) * 1000 + int(name[-3:])
    # Days that their month does not have, hours from 24 on and the like are counted on, and give another name.
    return local_ms if 0 <= local_ms <= LOCAL_MS_MAX and index_file_name(local_ms) == name else None


def index_names_in_order(names: Iterable[str]) -> list[str]:
    """Return the names of an index's files in the order of their times: a year of five digits comes last."""
    return sorted(names, key=lambda name: (len(name) == _NAME_CHARACTERS[-1], name))


def _civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a day counted from 1970-01-01."""
    era, day_of_era = divmod(days + _EPOCH_DAYS, _ERA_DAYS)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    assert 1 <= month <= 12, (days, month)
    assert 1 <= day <= 31, (days, day)
    return era * 400 + year_of_era + (month <= 2), month, day
