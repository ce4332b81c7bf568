from typing import Any

import pytest

from tornlog.store.log.segment import PAGE_BYTES, Segment, first_nonzero, segment_name
from tornlog.store.world import World


def segment_of(world: World, size_bytes: int = 10 * PAGE_BYTES) -> Segment:
    return Segment(world.tasks, world.files.map("/segment", size_bytes), 40_960, "test")


def test_a_segment_is_named_by_the_offset_of_its_first_byte() -> None:
    assert segment_name(0) == "00000000000000000000"
    assert segment_name(1 << 30) == "00000000001073741824"


def test_data_is_appended_after_existing_data(world: World) -> None:
    segment = segment_of(world, 100)
    segment.append(segment.wrote.get(), b"one")
    segment.append(segment.wrote.get(), bytearray(b"two"))
    assert bytes(segment.file.view(0, 8)) == b"onetwo\0\0"
    assert (segment.wrote.get(), segment.flushed.get(), segment.end_offset) == (6, 0, 41_060)

    segment.close_with_blank(segment.wrote.get(), b"blank")
    assert bytes(segment.file.view(6, 12)) == b"blank\0"
    assert segment.wrote.get() == 100


@pytest.mark.parametrize(
    ("wrote", "least_pages", "flushed"),
    [
        (0, 0, 0),
        (1, 0, 1),
        (4 * PAGE_BYTES - 1, 4, 0),
        (4 * PAGE_BYTES, 4, 4 * PAGE_BYTES),
        (4 * PAGE_BYTES + 7, 4, 4 * PAGE_BYTES + 7),
        (10 * PAGE_BYTES, 4, 10 * PAGE_BYTES),
    ],
)
def test_a_flush_waits_for_enough_whole_pages(wrote: int, least_pages: int, flushed: int, world: World) -> None:
    segment = segment_of(world)
    segment.append(segment.wrote.get(), b"x" * wrote)

    assert segment.flush(least_pages) == segment.flushed.get() == flushed


def test_a_full_segment_is_flushed_even_if_less_than_a_page_is_dirty(world: World) -> None:
    segment = segment_of(world)
    segment.append(segment.wrote.get(), bytes(10 * PAGE_BYTES - 1))
    segment.flush(0)
    segment.append(segment.wrote.get(), b"x")

    assert segment.flush(4) == 10 * PAGE_BYTES


def test_a_failed_flush_leaves_the_durable_position(world: World, bench: Any) -> None:
    segment = segment_of(world)
    segment.append(segment.wrote.get(), b"durable")
    segment.flush(0)
    segment.append(segment.wrote.get(), b"not")
    bench.failures.plan("msync", "/segment")
    with pytest.raises(OSError, match="Input/output error"):
        segment.flush(0)

    assert segment.flushed.get() == 7


def test_clearing_a_segment_durably_zeroes_the_rest_and_reports_whether_it_had_data(world: World, bench: Any) -> None:
    segment = segment_of(world, 200_000)
    segment.append(segment.wrote.get(), b"kept" + bytes(96) + b"x" * 150_000)
    assert segment.zero_from(4)
    assert bytes(segment.file.view(0, 200_000)) == b"kept" + bytes(199_996)
    assert bench.failures.calls[-1] == ("msync", "/segment")

    bench.failures.calls.clear()
    assert not segment.zero_from(4)
    assert not segment.zero_from(200_000)
    assert bench.failures.calls == []

    assert not segment.zero_from(4, syncs_zeros=True)
    assert bench.failures.calls == [("msync", "/segment")]
    assert not segment.zero_from(200_000, syncs_zeros=True)
    assert len(bench.failures.calls) == 1


@pytest.mark.parametrize("at", [None, 0, 1, 65_535, 65_536, 199_999])
def test_the_first_nonzero_byte_is_found_in_any_chunk(at: int | None) -> None:
    data = bytearray(200_000)
    if at is not None:
        data[at] = data[-1] = 1

    assert first_nonzero(memoryview(data)) == at
