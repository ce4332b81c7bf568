"""Index file: a hash table from `topic#key` to records, in log order. Big-endian.

    offset          bytes  field
    0               8      beginTimestamp  i64, ms     store time of the first indexed record
    8               8      endTimestamp    i64, ms     store time of the last
    16              8      beginPhyOffset  i64         log offset of the first indexed record
    24              8      endPhyOffset    i64         log offset of the last
    32              4      hashSlotCount   i32         slots in use
    36              4      indexCount      i32         number of the next entry; a new file has 0, which means 1
    40              4 * S  slots           i32 each    number of the slot's newest entry, 0 for none
    40 + 4 * S      20     entry 0, never used
    ... + 20 * n    20     entry n, up to n = N - 1

    an entry
    0               4      keyHash         i32         see formats.index_key; its slot is keyHash mod S
    4               8      phyOffset       i64         log offset of the record
    12              4      timeDiff        i32, s      store time minus beginTimestamp, whole seconds
    16              4      previous        i32         number of the slot's next older entry, 0 for none

All integers are signed. S is `maxHashSlotNum` and N is `maxIndexNum`. The file does not contain S and N, but its length
is 40 + 4 S + 20 N bytes, and `slots_of` derives S. A new file after a full file begins with the full file's end time
and end offset. The first entry replaces these values, but its timeDiff is relative to the old time. An entry has no
checksum and is valid only if the record to which it points matches.

The name of an index file is the local time of its creation, yyyyMMddHHmmssSSS. This module counts a local time in ms
since 1970, as if the time zone were UTC. Source: RocketMQ IndexHeader.java, IndexFile.putKey,
UtilAll.timeMillisToHumanString; calendar arithmetic: Howard Hinnant, "chrono-compatible low-level date algorithms".
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

encode_entry: Callable[[int, int, int, int], bytes] = ENTRY.pack
"""Encode an entry from key_hash, physical_offset, time_diff_s and previous."""

_SLOTS_APART = ENTRY_BYTES // SLOT_BYTES
_CHUNK_BYTES = 1 << 20

_NAME_CHARACTERS = (17, 18)
"""Possible lengths of a name. As in Java, years from 10000 on have five digits."""
_DAY_MS = 86_400_000
_ERA_DAYS = 146_097  # 400 years
_EPOCH_DAYS = 719_468  # from the start of an era, 0000-03-01, to 1970-01-01
_ERA_YEARS = 400
_FIRST_ERA = 2000
LOCAL_MS_MAX = 3_093_527_980_799_999  # the last ms of the year 99999


class IndexHeader(NamedTuple):
    """The header of an index file. Times are in ms, and offsets are log offsets."""

    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_physical_offset: int
    end_physical_offset: int
    used_slots: int
    next_entry: int
    """Number of the next entry; 1 in an empty file."""


class IndexEntry(NamedTuple):
    """An entry for one key of one record."""

    key_hash: int
    physical_offset: int
    time_diff_s: int
    previous: int


def decode_header(view: memoryview) -> IndexHeader:
    """Decode the first 40 bytes. `header_defects` checks the values."""
    header = IndexHeader._make(HEADER.unpack_from(view))
    # RocketMQ treats 0 as 1, because entry number 0 means an empty slot.
    return header._replace(next_entry=1) if header.next_entry <= 0 else header


def decode_entry(view: memoryview, at: int) -> IndexEntry:
    """Decode the 20 bytes at `at` without a check."""
    return IndexEntry._make(ENTRY.unpack_from(view, at))


def entries_position(slots: int) -> int:
    return HEADER_BYTES + SLOT_BYTES * slots


def index_file_bytes(slots: int, entries_max: int) -> int:
    return entries_position(slots) + ENTRY_BYTES * entries_max


def time_diff_s(begin_timestamp_ms: int, store_timestamp_ms: int) -> int:
    if begin_timestamp_ms <= 0 or store_timestamp_ms <= begin_timestamp_ms:
        return 0
    diff_s = (store_timestamp_ms - begin_timestamp_ms) // 1000
    return diff_s if diff_s < TIME_DIFF_MAX_S else TIME_DIFF_MAX_S


def header_defects(header: IndexHeader, path: str, entries_max: int) -> Iterator[CorruptFileError]:
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
    """Yield an error if hashSlotCount is wrong. RocketMQ up to 4.7.0 counts entries, which is accepted."""
    if header.used_slots not in (used_slots, header.next_entry - 1):
        yield header_error(path, "hashSlotCount", used_slots, header.used_slots)


def header_error(path: str, field: str, expected: object, found: object) -> CorruptFileError:
    return CorruptFileError(path, FIELDS_AT[field], field, expected, found)


def slots_of(view: memoryview) -> int | None:
    """Derive the number of slots from a file. Returns None if this is impossible."""
    last = decode_header(view).next_entry - 1
    number, odd_bytes = divmod(len(view) - HEADER_BYTES, SLOT_BYTES)
    if last < 1 or odd_bytes:
        return None
    most = (_last_byte_position(view) - index_file_bytes(0, last)) // SLOT_BYTES
    slots = most - (most - number) % _SLOTS_APART
    at = index_file_bytes(slots, last)
    if slots < 1 or at + ENTRY_BYTES > len(view):
        return None
    slot = decode_entry(view, at).key_hash % slots
    return slots if SLOT.unpack_from(view, entries_position(slot))[0] == last else None


def _last_byte_position(view: memoryview) -> int:
    start = (len(view) - 1) // _CHUNK_BYTES * _CHUNK_BYTES
    while not (kept := len(bytes(view[start : start + _CHUNK_BYTES]).rstrip(b"\0"))):
        assert start > 0, "the header must not be all zero"
        start -= _CHUNK_BYTES
    return start + kept - 1


def index_file_name(local_ms: int) -> str:
    """Return the file name for a local time in ms since 1970.

    >>> index_file_name(1_600_000_000_123)
    '20200913122640123'
    """
    assert 0 <= local_ms <= LOCAL_MS_MAX, local_ms
    days, ms = divmod(local_ms, _DAY_MS)
    year, month, day = _civil_date(days)
    seconds, ms = divmod(ms, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{year:04d}{month:02d}{day:02d}{hour:02d}{minute:02d}{second:02d}{ms:03d}"


def parse_index_file_name(name: str) -> int | None:
    """Return the local time in the name of an index file, or None for any other name.

    >>> parse_index_file_name("20200913122640123"), parse_index_file_name("20200931000000000")
    (1600000000123, None)
    """
    if len(name) not in _NAME_CHARACTERS or not (name.isascii() and name.isdecimal()):
        return None
    year, month, *rest = int(name[:-13]), *(int(name[at : at + 2]) for at in range(len(name) - 13, len(name) - 3, 2))
    if year < 1970 or not 1 <= month <= 12:
        return None
    eras, year_of_era = divmod(year - _FIRST_ERA, _ERA_YEARS)  # timegm accepts years up to 9999
    local_ms = eras * _ERA_DAYS * _DAY_MS + timegm((_FIRST_ERA + year_of_era, month, *rest)) * 1000 + int(name[-3:])
    # An invalid day or hour results in a time with a different name.
    return local_ms if 0 <= local_ms <= LOCAL_MS_MAX and index_file_name(local_ms) == name else None


def index_names_in_order(names: Iterable[str]) -> list[str]:
    """Sort file names by time. Names with five-digit years are last."""
    return sorted(names, key=lambda name: (len(name) == _NAME_CHARACTERS[-1], name))


def _civil_date(days: int) -> tuple[int, int, int]:
    """Convert a number of days since 1970-01-01 to year, month and day."""
    era, day_of_era = divmod(days + _EPOCH_DAYS, _ERA_DAYS)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    assert 1 <= month <= 12, (days, month)
    assert 1 <= day <= 31, (days, day)
    return era * 400 + year_of_era + (month <= 2), month, day
