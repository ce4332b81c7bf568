from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.index import HEADER, IndexEntry, IndexHeader, entries_at, index_file_bytes
from tornlog.store.index.index_file import IndexFile
from tornlog.store.index.structure import defects
from tornlog.store.real.world import real_world

SLOTS, ENTRIES_MAX = 3, 5
ENTRY_1 = entries_at(SLOTS) + 20
T = 1_600_000_000_000


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], IndexFile]]:
    world = real_world()
    files: list[IndexFile] = []

    def open_file(name: str = "20200913122640123") -> IndexFile:
        mapped = world.files.map(str(tmp_path / name), index_file_bytes(SLOTS, ENTRIES_MAX))
        files.append(IndexFile(world.tasks, mapped, name, SLOTS, ENTRIES_MAX))
        return files[-1]

    yield open_file
    for file in files:
        file.file.close()


@pytest.fixture
def file(make: Callable[..., IndexFile]) -> IndexFile:
    return make()


def all_of(
    file: IndexFile, key_hash: int, begin_ms: int = 0, end_ms: int = 1 << 62, at_most: int = 9
) -> list[int]:
    found: list[int] = []
    file.select(key_hash, begin_ms, end_ms, found, at_most, lambda offset: True)
    return found


def broken(file: IndexFile) -> list[tuple[int, str]]:
    return [
        (defect.offset, defect.field) for defect in defects(file.view, file.file.path, SLOTS, ENTRIES_MAX)
    ]


def test_bytes_are_those_of_the_specification(file: IndexFile) -> None:
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
    assert broken(file) == []


def test_a_full_file_takes_nothing_more_and_does_not_change(file: IndexFile) -> None:
    for number in range(ENTRIES_MAX - 1):
        assert not file.is_full
        assert file.put_key(number, number, T)
    before = bytes(file.view)

    assert file.is_full
    assert not file.put_key(9, 9, T)
    assert bytes(file.view) == before


def test_a_file_goes_on_where_its_header_ends(make: Callable[..., IndexFile]) -> None:
    make().put_key(7, 100, T)
    again = make()
    again.put_key(10, 200, T)

    assert again.entry(2) == IndexEntry(10, 200, 0, 1)
    assert again.header.next_entry == 3
    assert broken(again) == []


def test_a_file_behind_a_full_one_begins_with_its_end(make: Callable[..., IndexFile]) -> None:
    full, file = make("20200913122640123"), make("20200913122640124")
    full.put_key(7, 100, T)
    file.follow(full)
    preset = HEADER.unpack_from(file.view)
    file.put_key(8, 200, T + 1_700)
    file.put_key(8, 200, T + 1_700)

    assert preset == (T, T, 100, 100, 0, 0)
    assert file.entry(1).time_diff_s == 1  # counted from the end of the full one
    assert file.entry(2).time_diff_s == 0
    assert file.header == IndexHeader(T + 1_700, T + 1_700, 200, 200, 1, 3)
    assert all_of(file, 8, T + 1_700, T + 1_700) == [200, 200]


def test_the_newest_are_found_first_and_no_more_than_asked_for(file: IndexFile) -> None:
    for number in range(4):
        file.put_key(3 * (number % 2), number * 100, T)

    assert all_of(file, 0) == [200, 0]
    assert all_of(file, 3) == [300, 100]
    assert all_of(file, 3, at_most=1) == [300]
    assert all_of(file, 6) == []
    assert all_of(file, 1) == []


def test_a_record_counts_by_the_second_and_is_never_missed(file: IndexFile) -> None:
    file.put_key(0, 1, T)
    file.put_key(0, 2, T + 1_500)
    file.put_key(0, 3, T + 9_000)

    assert all_of(file, 0, T + 1_500, T + 1_500) == [2]
    assert all_of(file, 0, T + 1_000, T + 1_000) == [
        2
    ]  # may have been stored 999 ms later than it was asked for
    assert all_of(file, 0, T + 2_000, T + 8_999) == []
    assert all_of(file, 0, T + 1_999, T + 9_000) == [3, 2]
    assert file.may_hold(T + 9_000, T + 10_000)
    assert not file.may_hold(T + 9_001, T + 10_000)
    assert not file.may_hold(0, T - 1)


def test_a_reader_between_slot_and_count_sees_the_entry(file: IndexFile) -> None:
    file.put_key(0, 1, T)
    file.put_key(0, 2, T)
    file.count.set(2)

    assert all_of(file, 0) == [2, 1]


@pytest.mark.parametrize(
    ("at", "raw"),
    [
        (40, "7fffffff"),  # a slot that leads far away
        (40, "80000000"),
        (ENTRY_1 + 20 + 16, "00000002"),  # an entry that leads to itself
        (ENTRY_1 + 20 + 16, "00000004"),  # or to a younger one
        (ENTRY_1 + 20 + 16, "ffffffff"),
    ],
)
def test_a_search_through_damage_ends(file: IndexFile, at: int, raw: str) -> None:
    file.put_key(0, 1, T)
    file.put_key(0, 2, T)
    file.file.store(at, bytes.fromhex(raw))

    assert all_of(file, 0) in ([2], [])


def test_a_put_into_a_slot_that_leads_nowhere_begins_a_new_chain(file: IndexFile) -> None:
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
def test_every_field_that_does_not_fit_the_others_is_found(
    file: IndexFile, at: int, raw: str, expected: tuple[int, str]
) -> None:
    for number in range(3):
        file.put_key(3 * number + number % 2, 10 + number, T)
    assert broken(file) == []
    file.file.store(at, bytes.fromhex(raw))

    assert expected in broken(file)
    error = next(defects(file.view, "index/x", SLOTS, ENTRIES_MAX))
    assert isinstance(error, CorruptFileError)
    assert error.file == "index/x"


def test_a_count_of_slots_as_it_was_up_to_4_7_0_is_right_too(file: IndexFile) -> None:
    for number in range(3):
        file.put_key(0, number, T)
    file.file.store(32, bytes.fromhex("00000003"))

    assert broken(file) == []


def test_an_empty_file_is_sound(file: IndexFile) -> None:
    assert broken(file) == []


def test_a_file_whose_last_entry_is_lost_does_not_end_where_it_says(file: IndexFile) -> None:
    file.put_key(0, 10, T)
    file.file.store(24, (11).to_bytes(8, "big"))

    assert broken(file) == [(24, "endPhyOffset")]
