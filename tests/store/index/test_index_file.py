from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.index import HEADER, IndexEntry, IndexHeader, entries_position, index_file_bytes
from tornlog.store.index import index_file
from tornlog.store.index.index_file import IndexFile, index_file_defects
from tornlog.store.real.world import real_world

SLOTS, ENTRIES_MAX = 3, 5
ENTRY_1 = entries_position(SLOTS) + 20
T = 1_600_000_000_000


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], IndexFile]]:
    world = real_world()
    files: list[IndexFile] = []

    def open_file(name: str = "20200913122640123", entries_max: int = ENTRIES_MAX) -> IndexFile:
        mapped = world.files.map(str(tmp_path / name), index_file_bytes(SLOTS, entries_max))
        files.append(IndexFile(world.tasks, mapped, name, SLOTS, entries_max))
        return files[-1]

    yield open_file
    for file in files:
        file.file.close()


@pytest.fixture
def file(make: Callable[..., IndexFile]) -> IndexFile:
    return make()


def offsets_with_key(
    file: IndexFile, key_hash: int, begin_ms: int = 0, end_ms: int = 1 << 62, at_most: int = 9
) -> list[int]:
    found: list[int] = []
    file.select_offsets(key_hash, begin_ms, end_ms, found, at_most, lambda offset: True)
    return found


def defects_of(file: IndexFile) -> list[tuple[int, str]]:
    return [
        (defect.offset, defect.field) for defect in index_file_defects(file.view, file.file.path, SLOTS, ENTRIES_MAX)
    ]


def test_index_file_bytes_equal_those_of_the_specification(file: IndexFile) -> None:
    assert file.put_key(7, 100, T)
    assert file.put_key(10, 200, T + 2_500)
    assert file.put_key(2, 200, T + 2_500)

    raw = bytes(file.view)
    assert HEADER.unpack_from(raw) == (T, T + 2_500, 100, 200, 2, 4)
    assert raw[40:52].hex() == "000000000000000200000003"
    assert raw[ENTRY_1 : ENTRY_1 + 20].hex() == "0000000700000000000000640000000000000000"
    assert raw[ENTRY_1 + 20 : ENTRY_1 + 40].hex() == "0000000a00000000000000c80000000200000001"
    assert not any(raw[ENTRY_1 - 20 : ENTRY_1])
    assert file.header == IndexHeader(T, T + 2_500, 100, 200, 2, 4)
    assert defects_of(file) == []


def test_a_full_index_file_refuses_entries_and_does_not_change(file: IndexFile) -> None:
    for number in range(ENTRIES_MAX - 1):
        assert not file.is_full
        assert file.put_key(number, number, T)
    before = bytes(file.view)

    assert file.is_full
    assert not file.put_key(9, 9, T)
    assert bytes(file.view) == before


def test_a_reopened_index_file_continues_after_the_last_entry_in_its_header(make: Callable[..., IndexFile]) -> None:
    make().put_key(7, 100, T)
    again = make()
    again.put_key(10, 200, T)

    assert again.entry(2) == IndexEntry(10, 200, 0, 1)
    assert again.header.next_entry == 3
    assert defects_of(again) == []


def test_an_index_file_after_a_full_one_begins_with_its_end_time_and_offset(make: Callable[..., IndexFile]) -> None:
    full, file = make("20200913122640123"), make("20200913122640124")
    full.put_key(7, 100, T)
    file.start_after_full_file(full)
    preset = HEADER.unpack_from(file.view)
    file.put_key(8, 200, T + 1_700)
    file.put_key(8, 200, T + 1_700)

    assert preset == (T, T, 100, 100, 0, 0)
    assert file.entry(1).time_diff_s == 1  # counted from the end time of the full file
    assert file.entry(2).time_diff_s == 0
    assert file.header == IndexHeader(T + 1_700, T + 1_700, 200, 200, 1, 3)
    assert offsets_with_key(file, 8, T + 1_700, T + 1_700) == [200, 200]


def test_the_newest_index_entries_are_found_first_up_to_the_limit(file: IndexFile) -> None:
    for number in range(4):
        file.put_key(3 * (number % 2), number * 100, T)

    assert offsets_with_key(file, 0) == [200, 0]
    assert offsets_with_key(file, 3) == [300, 100]
    assert offsets_with_key(file, 3, at_most=1) == [300]
    assert offsets_with_key(file, 6) == []
    assert offsets_with_key(file, 1) == []


def test_a_time_range_matches_records_by_the_second_and_misses_none(file: IndexFile) -> None:
    file.put_key(0, 1, T)
    file.put_key(0, 2, T + 1_500)
    file.put_key(0, 3, T + 9_000)

    assert offsets_with_key(file, 0, T + 1_500, T + 1_500) == [2]
    assert offsets_with_key(file, 0, T + 1_000, T + 1_000) == [
        2
    ]  # the record may have been stored up to 999 ms after the requested end
    assert offsets_with_key(file, 0, T + 2_000, T + 8_999) == []
    assert offsets_with_key(file, 0, T + 1_999, T + 9_000) == [3, 2]
    assert file.may_hold(T + 9_000, T + 10_000)
    assert not file.may_hold(T + 9_001, T + 10_000)
    assert not file.may_hold(0, T - 1)


def test_a_reader_sees_an_entry_between_the_slot_and_count_updates(file: IndexFile) -> None:
    file.put_key(0, 1, T)
    file.put_key(0, 2, T)
    file.count.set(2)

    assert offsets_with_key(file, 0) == [2, 1]


@pytest.mark.parametrize(
    ("at", "raw"),
    [
        (40, "7fffffff"),  # a slot that refers to an entry after the end
        (40, "80000000"),
        (ENTRY_1 + 20 + 16, "00000002"),  # an entry that refers to itself
        (ENTRY_1 + 20 + 16, "00000004"),  # or to a newer entry
        (ENTRY_1 + 20 + 16, "ffffffff"),
    ],
)
def test_a_search_in_a_damaged_index_file_terminates(file: IndexFile, at: int, raw: str) -> None:
    file.put_key(0, 1, T)
    file.put_key(0, 2, T)
    file.file.store(at, bytes.fromhex(raw))

    assert offsets_with_key(file, 0) in ([2], [])


def test_a_put_into_an_invalid_slot_starts_a_new_chain(file: IndexFile) -> None:
    file.file.store(40, bytes.fromhex("00000009"))
    file.put_key(0, 1, T)

    assert file.entry(1).previous == 0


@pytest.mark.parametrize(
    ("at", "raw", "expected"),
    [
        (36, "00000006", (36, "indexCount")),
        (0, "ff", (0, "beginTimestamp")),
        (8, "ff", (8, "endTimestamp")),
        (16, "ff", (16, "beginPhyOffset")),
        (24, "ff", (24, "endPhyOffset")),
        (31, "09", (24, "endPhyOffset")),
        (32, "00000004", (32, "hashSlotCount")),
        (32, "00000001", (32, "hashSlotCount")),
        (40, "00000001", (40, "slot")),
        (44, "00000001", (44, "slot")),
        (ENTRY_1, "ff", (ENTRY_1, "keyHash")),
        (ENTRY_1 + 4, "01", (ENTRY_1 + 4, "phyOffset")),
        (ENTRY_1 + 20 + 11, "00", (ENTRY_1 + 20 + 4, "phyOffset")),
        (ENTRY_1 + 12, "ff", (ENTRY_1 + 12, "timeDiff")),
        (ENTRY_1 + 16, "00000001", (ENTRY_1 + 16, "previous")),
        (ENTRY_1 + 40, "00" * 20, (ENTRY_1 + 44, "phyOffset")),
    ],
)
def test_every_inconsistent_index_field_is_reported(
    file: IndexFile, at: int, raw: str, expected: tuple[int, str]
) -> None:
    for number in range(3):
        file.put_key(3 * number + number % 2, 10 + number, T)
    assert defects_of(file) == []
    file.file.store(at, bytes.fromhex(raw))

    assert expected in defects_of(file)
    error = next(index_file_defects(file.view, "index/x", SLOTS, ENTRIES_MAX))
    assert isinstance(error, CorruptFileError)
    assert error.file == "index/x"


def test_the_slot_count_written_by_rocketmq_up_to_4_7_0_is_accepted(file: IndexFile) -> None:
    for number in range(3):
        file.put_key(0, number, T)
    file.file.store(32, bytes.fromhex("00000003"))

    assert defects_of(file) == []


def test_an_empty_index_file_has_no_inconsistencies(file: IndexFile) -> None:
    assert defects_of(file) == []


def test_a_wrong_end_offset_reveals_that_the_last_entry_is_lost(file: IndexFile) -> None:
    file.put_key(0, 10, T)
    file.file.store(24, (11).to_bytes(8, "big"))

    assert defects_of(file) == [(24, "endPhyOffset")]


# -- building --------------------------------------------------------------------------------------

MANY = 14
KEYS = [(number * number % 7, 100 * number, T + 700 * number) for number in range(1, MANY)]
"""(hash, log offset, store time) of as many keys as fit. Entries of the same slot are not adjacent."""


class Noted:
    """A mapped file that records its stores as (position, size), in order."""

    def __init__(self, file: Any) -> None:
        self.stores: list[tuple[int, int]] = []
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def store(self, at: int, data: bytes | bytearray) -> None:
        self.stores.append((at, len(data)))
        self._file.store(at, data)


def parts_of(stores: list[tuple[int, int]]) -> list[str]:
    """Return the part of the file to which each store wrote."""
    return ["header" if at < 40 else "slot" if at < entries_position(SLOTS) else "entries" for at, _ in stores]


def index_file_with_keys(make: Callable[..., IndexFile], *, begin: int, end: int) -> bytes:
    """Return a file with the keys. Those from begin to end were added in one build, the others one by one."""
    file = make(f"{begin:017d}", MANY)
    for number, key in enumerate(KEYS):
        if number == begin:
            file.is_building = True
        if number == end:
            file.end_building()
        assert file.put_key(*key)
    file.end_building()
    assert list(index_file_defects(file.view, file.file.path, SLOTS, MANY)) == []
    return bytes(file.view)


@pytest.mark.parametrize("piece_bytes", [20, 40, 50, 100, 1 << 20])
@pytest.mark.parametrize(("begin", "end"), [(0, MANY), (1, MANY), (5, MANY), (0, 7), (4, 5)])
def test_a_bulk_built_index_file_has_the_same_bytes_as_one_written_key_by_key(
    make: Callable[..., IndexFile], monkeypatch: pytest.MonkeyPatch, piece_bytes: int, begin: int, end: int
) -> None:
    key_by_key = index_file_with_keys(make, begin=99, end=99)
    monkeypatch.setattr(index_file, "_BUILT_BYTES_MAX", piece_bytes)

    assert index_file_with_keys(make, begin=begin, end=end) == key_by_key


def test_a_bulk_build_writes_entries_then_slots_and_the_header_last(
    make: Callable[..., IndexFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_file, "_BUILT_BYTES_MAX", 60)
    file = make(entries_max=MANY)
    file.file = noted = Noted(file.file)
    file.is_building = True
    empty = bytes(file.view)

    for key_hash in (0, 3):  # two hashes of the same slot
        assert file.put_key(key_hash, 100, T)
    assert bytes(file.view) == empty
    file.put_key(1, 100, T)
    assert noted.stores == [(ENTRY_1, 60), (40, 4), (44, 4)]
    for _ in range(4):
        file.put_key(6, 200, T)
    assert noted.stores[3:] == [(ENTRY_1 + 60, 60), (40, 4)]
    assert file.header.next_entry == file.count.get() == 1
    assert HEADER.unpack_from(file.view) == (0,) * 6

    file.end_building()
    assert noted.stores[5:] == [(ENTRY_1 + 120, 20), (40, 4), (0, 40)]
    assert [file.entry(number).previous for number in range(1, 8)] == [0, 1, 0, 2, 4, 5, 6]
    assert file.header == IndexHeader(T, T, 100, 200, 2, 8)
    assert offsets_with_key(file, 6) == [200] * 4
    assert offsets_with_key(file, 3) == offsets_with_key(file, 0) == [100]


def test_after_a_bulk_build_an_index_file_is_written_key_by_key(make: Callable[..., IndexFile]) -> None:
    file = make()
    file.is_building = True
    file.put_key(0, 100, T)
    file.end_building()
    file.file = noted = Noted(file.file)
    file.put_key(3, 200, T)

    assert parts_of(noted.stores) == ["entries", "slot", "header"]
    assert offsets_with_key(file, 3) == [200]
    assert file.entry(2).previous == 1


@pytest.mark.parametrize("keys", [0, 2])
def test_a_bulk_build_without_entries_leaves_the_file_unchanged(file: IndexFile, keys: int) -> None:
    for number in range(keys):
        file.put_key(number, number, T)
    file.file = noted = Noted(file.file)
    file.is_building = True
    file.end_building()

    assert noted.stores == []
    assert not file.is_building


def test_an_index_file_that_fills_during_a_bulk_build_refuses_entries(file: IndexFile) -> None:
    file.is_building = True
    for number in range(ENTRIES_MAX - 1):
        assert file.put_key(number, number, T)
    assert not file.put_key(9, 9, T)
    file.end_building()

    assert file.is_full
    assert not file.put_key(9, 9, T)
    assert file.header == IndexHeader(T, T, 0, 3, 3, ENTRIES_MAX)
    assert offsets_with_key(file, 9) == []
    assert defects_of(file) == []


def test_a_bulk_built_file_after_a_full_one_counts_times_from_its_end(make: Callable[..., IndexFile]) -> None:
    full, built, plain = (make(f"2020091312264012{number}") for number in range(3))
    full.put_key(7, 100, T)
    for file in (built, plain):
        file.start_after_full_file(full)
        file.is_building = file is built
        for second in (1, 3):
            file.put_key(8, 200, T + 1000 * second)
    built.end_building()

    assert built.entry(1).time_diff_s == 1
    assert bytes(built.view) == bytes(plain.view)


def test_an_invalid_slot_also_starts_a_new_chain_in_a_bulk_built_file(file: IndexFile) -> None:
    file.file.store(40, bytes.fromhex("00000009"))
    file.is_building = True
    file.put_key(0, 1, T)
    file.put_key(3, 2, T)
    file.end_building()

    assert [file.entry(number).previous for number in (1, 2)] == [0, 1]
    assert file.header.used_slots == 1
