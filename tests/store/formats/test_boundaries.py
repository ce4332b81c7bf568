"""Record boundaries: `record_starts_after` and `find_record`."""

import pytest

from tests.store.formats.example_record import make_record
from tornlog.store.formats.message import encode_blank
from tornlog.store.formats.scan import find_record, is_closed_at, record_starts_after

BASE = 4096


@pytest.fixture
def segment() -> tuple[bytes, list[int]]:
    """Some records followed by a blank one, and the start of each."""
    raw, starts = bytearray(), []
    for number in range(6):
        starts.append(len(raw))
        raw += make_record(body=b"x" * number * 7, physical_offset=BASE + len(raw))
    starts.append(len(raw))
    return bytes(raw + encode_blank(100)), starts


def boundaries(raw: bytes, start: int = 0, end: int | None = None) -> list[int]:
    return list(record_starts_after(memoryview(raw), start, len(raw) if end is None else end, BASE))


def test_following_record_lengths_finds_every_later_record(segment: tuple[bytes, list[int]]) -> None:
    raw, starts = segment
    assert boundaries(raw) == starts[1:]
    for number, start in enumerate(starts):
        assert boundaries(raw, start) == starts[number + 1 :]


def test_following_record_lengths_stops_before_a_record_that_exceeds_the_range(
    segment: tuple[bytes, list[int]],
) -> None:
    raw, starts = segment
    assert boundaries(raw, end=starts[3]) == starts[1:4]
    assert boundaries(raw, end=starts[3] - 1) == starts[1:3]
    assert boundaries(raw, end=90) == []


@pytest.mark.parametrize(
    ("at", "raw"),
    [(0, b"\0\0\0\1"), (0, b"\x7f\xff\xff\xff"), (0, b"\xff\xff\xff\xff"), (4, b"\0\0\0\0"), (28, b"\1")],
    ids=["too short", "too long", "negative", "another magic", "another place"],
)
def test_following_record_lengths_stops_at_an_invalid_record(
    segment: tuple[bytes, list[int]], at: int, raw: bytes
) -> None:
    whole, starts = segment
    broken = bytearray(whole)
    broken[starts[2] + at : starts[2] + at + len(raw)] = raw
    assert boundaries(bytes(broken)) == starts[1:3]


EDGES = [0, 1 << 14, 3 << 14, 7 << 14, (1 << 20) - (1 << 14), (2 << 20) - (1 << 14), (3 << 20) - (1 << 14)]
"""Positions at which find_record reads another chunk."""


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("byte", [b"\0", b"\xda"], ids=["behind zeros", "behind other bytes"])
def test_a_record_is_found_across_the_edge_of_a_search_block(edge: int, byte: bytes) -> None:
    record = make_record(physical_offset=0)
    for place in (edge - len(record), edge - 6, edge - 3, edge, edge + 1):
        if place >= 0:
            moved = byte * place + make_record(physical_offset=place)
            assert find_record(memoryview(moved), 0, 0, len(moved)) == place
            assert find_record(memoryview(moved), 0, 1, len(moved)) is None, "it says that it is elsewhere"


def test_a_segment_is_full_if_a_blank_record_takes_all_remaining_bytes() -> None:
    raw = memoryview(bytes(50) + encode_blank(100))
    assert is_closed_at(raw, 50, 150)
    assert not is_closed_at(raw, 50, 151)
    assert not is_closed_at(raw, 0, 100)
    assert not is_closed_at(raw, 51, 151)


def test_a_blank_record_is_found_by_the_remaining_bytes() -> None:
    raw = memoryview(bytes(50) + encode_blank(100))
    assert find_record(raw, 0, BASE, 150) == 50
    assert find_record(raw, 0, BASE, 151) is None
