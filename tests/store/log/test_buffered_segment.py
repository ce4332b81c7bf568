import errno
from typing import Any

import pytest

from tests.one_life import with_settings
from tornlog.faults.plan import FaultPlan
from tornlog.store.log.segment import PAGE_BYTES
from tornlog.store.log.transient_pool import BufferedSegment, TransientStorePool
from tornlog.store.world import World

SEGMENT_BYTES = 10 * PAGE_BYTES


def segment_in(
    world: World, size_bytes: int = SEGMENT_BYTES, leftover: bytes = b""
) -> tuple[BufferedSegment, TransientStorePool]:
    pool = TransientStorePool(world, size_bytes, 1)
    pool.fill()
    buffer = pool.borrow_buffer()
    assert buffer is not None
    buffer[: len(leftover)] = leftover
    file = world.files.map("/segment", size_bytes)
    return BufferedSegment(world.tasks, file, 40_960, "test", pool=pool, buffer=buffer), pool


def positions(segment: BufferedSegment) -> tuple[int, int, int]:
    return segment.flushed.get(), segment.committed.get(), segment.wrote.get()


def test_data_in_a_buffer_is_visible_after_the_commit_and_durable_after_the_flush(world: World, bench: Any) -> None:
    segment, _ = segment_in(world)
    segment.append(0, b"one")
    segment.append(3, bytearray(b"two"))
    assert positions(segment) == (0, 0, 6)
    assert bytes(segment.file.view(0, 6)) == bytes(6)
    assert segment.flush(0) == 0

    assert segment.commit(0) == 6
    assert positions(segment) == (0, 6, 6)
    assert bytes(segment.file.view(0, 7)) == b"onetwo\0"
    assert not bench.disk.is_durable("/segment", 0, 6)

    assert segment.flush(0) == 6
    assert positions(segment) == (6, 6, 6)
    assert bench.disk.is_durable("/segment", 0, 6)
    kinds = [name for name, _ in bench.failures.calls if name in ("store", "pwrite", "msync", "fdatasync")]
    assert kinds == ["pwrite", "fdatasync"]


@pytest.mark.parametrize(
    ("wrote", "least_pages", "committed"),
    [
        (0, 0, 0),
        (1, 0, 1),
        (4 * PAGE_BYTES - 1, 4, 0),
        (4 * PAGE_BYTES, 4, 4 * PAGE_BYTES),
        (4 * PAGE_BYTES + 7, 4, 4 * PAGE_BYTES + 7),
        (SEGMENT_BYTES, 99, SEGMENT_BYTES),
    ],
)
def test_a_commit_waits_for_enough_whole_pages_or_the_end(
    wrote: int, least_pages: int, committed: int, world: World
) -> None:
    segment, _ = segment_in(world)
    segment.append(0, bytes([7]) * wrote)
    assert segment.commit(least_pages) == committed
    assert bytes(segment.file.view(0, SEGMENT_BYTES)) == (bytes([7]) * committed).ljust(SEGMENT_BYTES, b"\0")


def test_after_the_last_record_only_the_blank_record_is_written(world: World) -> None:
    segment, pool = segment_in(world, 100, leftover=b"\xee" * 100)
    segment.append(0, b"record")
    segment.commit(0)
    segment.close_with_blank(6, b"12345678")
    assert positions(segment) == (0, 6, 100)

    assert segment.commit(4) == 100
    assert bytes(segment.file.view(0, 100)) == b"record12345678" + bytes(86)
    assert (positions(segment), pool.available) == ((0, 100, 100), 1)
    assert segment.flush(4) == 100


def test_a_full_segment_returns_its_buffer_once_it_is_completely_committed(world: World) -> None:
    segment, pool = segment_in(world, 100)
    segment.append(0, bytes(90))
    segment.commit(0)
    assert pool.available == 0
    segment.append(90, bytes(10))
    assert pool.available == 0
    segment.commit(0)
    assert pool.available == 1
    assert segment.commit(0) == 100
    assert pool.available == 1


@with_settings(faults=FaultPlan(short_write_chance=1.0))
def test_a_commit_continues_after_short_writes(world: World, bench: Any) -> None:
    segment, _ = segment_in(world)
    data = bytes(range(256)) * 20
    segment.append(0, data)
    assert segment.commit(0) == len(data)
    assert bytes(segment.file.view(0, len(data))) == data
    assert bench.disk.injected["short write"] > 1


def test_a_failed_write_changes_no_position_and_the_next_commit_writes_all_bytes(world: World, bench: Any) -> None:
    bench.failures.plan("pwrite", "/segment")
    segment, pool = segment_in(world, 100)
    segment.append(0, b"x" * 92)
    segment.close_with_blank(92, b"12345678")
    with pytest.raises(OSError, match="Input/output"):
        segment.commit(0)
    assert (positions(segment), pool.available) == ((0, 0, 100), 0)
    assert segment.flush(0) == 0

    assert segment.commit(0) == 100
    assert bytes(segment.file.view(0, 100)) == b"x" * 92 + b"12345678"


def test_a_commit_write_of_zero_bytes_is_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    segment, _ = segment_in(world)
    segment.append(0, b"x")

    class Full:
        path = "/segment"

        def pwrite(self, at: int, data: memoryview) -> int:
            return 0

    monkeypatch.setattr(segment, "file", Full())
    with pytest.raises(OSError, match="a write returned 0 bytes") as failure:
        segment.commit(0)
    assert failure.value.errno == errno.EIO
    assert segment.committed.get() == 0


def test_a_failed_flush_of_a_buffered_segment_keeps_the_durable_position(world: World, bench: Any) -> None:
    bench.failures.plan("fdatasync", "/segment")
    segment, _ = segment_in(world)
    segment.append(0, b"x")
    segment.commit(0)
    with pytest.raises(OSError, match="Input/output"):
        segment.flush(0)
    assert positions(segment) == (0, 1, 1)


def test_a_flush_never_returns_the_store_time_of_an_uncommitted_message(world: World) -> None:
    segment, _ = segment_in(world)
    segment.append(0, b"old")
    segment.store_timestamp_ms = 1000
    assert segment.readable_store_timestamp_ms == 0
    segment.commit(0)
    segment.append(3, b"new")
    segment.store_timestamp_ms = 2000
    assert segment.readable_store_timestamp_ms == 1000
    segment.commit(0)
    assert segment.readable_store_timestamp_ms == 2000

    segment.store_timestamp_ms = 3000  # a put sets it after a commit has included its bytes
    segment.commit(0)
    assert segment.readable_store_timestamp_ms == 3000


def test_the_last_commit_of_a_segment_includes_the_time_of_the_last_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment, _ = segment_in(world)
    segment.append(0, b"one")
    segment.store_timestamp_ms = 1

    class ClosedDuringTheRead:
        """Another task appends the last record and closes the segment before the end of the bytes is read."""

        def get(self) -> int:
            monkeypatch.undo()
            segment.append(3, b"two")
            segment.store_timestamp_ms = 2
            segment.close_with_blank(6, b"blank")
            return segment.wrote.get()

    monkeypatch.setattr(segment, "wrote", ClosedDuringTheRead())
    assert segment.commit(0) == SEGMENT_BYTES
    assert segment.readable_store_timestamp_ms == 2
