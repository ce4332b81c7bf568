from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.store.formats.index import (
    ENTRY_BYTES,
    LOCAL_MS_MAX,
    TIME_DIFF_MAX_S,
    IndexEntry,
    IndexHeader,
    decode_entry,
    decode_header,
    encode_entry,
    entries_position,
    index_file_bytes,
    index_file_name,
    index_names_in_order,
    parse_index_file_name,
    time_diff_s,
)


def test_an_index_file_of_the_default_geometry_has_the_length_of_rocketmqs() -> None:
    assert index_file_bytes(5_000_000, 20_000_000) == 420_000_040
    assert index_file_bytes(100, 400) == 8440
    assert entries_position(100) == 440


def test_an_index_header_has_forty_bytes_and_counts_from_one() -> None:
    raw = bytes.fromhex("0000000000000001 0000000000000002 0000000000000003 0000000000000004 00000005 00000006")
    assert decode_header(memoryview(raw)) == IndexHeader(1, 2, 3, 4, 5, 6)
    assert decode_header(memoryview(bytes(40))) == IndexHeader(0, 0, 0, 0, 0, 1)
    assert decode_header(memoryview(bytes(36) + b"\xff" * 4)).next_entry == 1


def test_an_index_entry_has_twenty_bytes() -> None:
    raw = encode_entry(0x12345678, 0x0102030405060708, 9, 10)
    assert raw.hex() == "123456780102030405060708000000090000000a"
    assert len(raw) == ENTRY_BYTES
    assert decode_entry(raw, 0) == IndexEntry(0x12345678, 0x0102030405060708, 9, 10)


@pytest.mark.parametrize(
    ("begin_ms", "stored_ms", "expected_s"),
    [
        (1000, 1999, 0),
        (1000, 2000, 1),
        (2000, 1000, 0),
        (0, 5000, 0),
        (-1, 5000, 0),
        (1, (TIME_DIFF_MAX_S + 9) * 1000, TIME_DIFF_MAX_S),
    ],
)
def test_an_index_time_diff_is_in_whole_seconds_and_never_negative(
    begin_ms: int, stored_ms: int, expected_s: int
) -> None:
    assert time_diff_s(begin_ms, stored_ms) == expected_s


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


YEAR_10000_MS = 253_402_300_800_000


@given(st.integers(0, YEAR_10000_MS - 1))
def test_an_index_file_name_is_converted_to_its_time_and_back(local_ms: int) -> None:
    moment = EPOCH + timedelta(milliseconds=local_ms)
    name = index_file_name(local_ms)
    assert name == f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}"
    assert parse_index_file_name(name) == local_ms


@given(st.integers(YEAR_10000_MS, LOCAL_MS_MAX))
def test_an_index_file_name_after_the_year_9999_is_converted_to_its_time(local_ms: int) -> None:
    assert len(index_file_name(local_ms)) == 18
    assert parse_index_file_name(index_file_name(local_ms)) == local_ms


@pytest.mark.parametrize(
    ("local_ms", "name"),
    [(YEAR_10000_MS, "100000101000000000"), (LOCAL_MS_MAX, "999991231235959999"), (LOCAL_MS_MAX + 1, None)],
)
def test_years_from_10000_on_have_five_digits_in_index_file_names(local_ms: int, name: str | None) -> None:
    if name is None:
        with pytest.raises(AssertionError):
            index_file_name(local_ms)
    else:
        assert index_file_name(local_ms) == name


@given(st.lists(st.integers(0, LOCAL_MS_MAX), min_size=2))
def test_index_file_names_are_sorted_by_their_times(times: list[int]) -> None:
    assert index_names_in_order(map(index_file_name, times)) == [index_file_name(time) for time in sorted(times)]


@pytest.mark.parametrize(
    "name",
    [
        *("", "notes.txt", "2020091312264012", "202009131226401234", "20200931000000000", "20201301000000000"),
        *(
            "20200913246000000",
            "20200913236100000",
            "20200913235961000",
            "19691231235959999",
            "19700100000000000",
            "20210229000000000",
        ),
        *("2020091312264012x", "٢0200913122640123", "00000000000000000"),
    ],
)
def test_an_invalid_time_is_not_a_file_name(name: str) -> None:
    assert parse_index_file_name(name) is None


def test_a_leap_day_is_a_valid_index_file_name() -> None:
    assert parse_index_file_name("20240229000000000") is not None
    assert parse_index_file_name("20000229000000000") is not None
    assert parse_index_file_name("21000229000000000") is None
