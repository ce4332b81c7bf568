import pytest

from tornlog.store.formats.index import (
    ENTRY_BYTES,
    TIME_DIFF_MAX_S,
    IndexEntry,
    IndexHeader,
    decode_entry,
    decode_header,
    encode_entry,
    entries_at,
    index_file_bytes,
    time_diff_s,
)


def test_a_file_of_the_default_geometry_is_as_long_as_rocketmqs() -> None:
    assert index_file_bytes(5_000_000, 20_000_000) == 420_000_040
    assert index_file_bytes(100, 400) == 8440
    assert entries_at(100) == 440


def test_a_header_is_forty_bytes_and_counts_from_one() -> None:
    raw = bytes.fromhex(
        "0000000000000001 0000000000000002 0000000000000003 0000000000000004 00000005 00000006"
    )
    assert decode_header(memoryview(raw)) == IndexHeader(1, 2, 3, 4, 5, 6)
    assert decode_header(memoryview(bytes(40))) == IndexHeader(0, 0, 0, 0, 0, 1)
    assert decode_header(memoryview(bytes(36) + b"\xff" * 4)).next_entry == 1


def test_an_entry_is_twenty_bytes() -> None:
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
def test_a_time_is_whole_seconds_behind_the_first_and_never_before_it(
    begin_ms: int, stored_ms: int, expected_s: int
) -> None:
    assert time_diff_s(begin_ms, stored_ms) == expected_s
