from collections.abc import Callable
from typing import Any

import pytest

from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import DamagedRange
from tornlog.scenarios.oracle.invariants import pos
from tornlog.store.formats.message import place_records
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.log.transient_pool import BufferedSegment, TransientStorePool
from tornlog.store.message_store import MessageStore
from tornlog.store.recovery.recovery import RecoveryReport

OnAStore = Callable[..., Any]


def fill(store: MessageStore, count: int) -> None:
    for number in range(count):
        store.put_message(Message.of("T0", bytes([number]) * 900))


def broken(store: MessageStore, disk: Disk) -> list[str]:
    return [violation.summary for violation in pos.check(store, disk)]


def test_positions_that_stand_for_what_was_done_hold(on_a_store: OnAStore) -> None:
    def body(store: MessageStore, disk: Disk) -> list[str]:
        fill(store, 5)
        return broken(store, disk)

    assert on_a_store(body) == []


def test_a_flushed_position_past_what_was_synced_is_found(on_a_store: OnAStore) -> None:
    def body(store: MessageStore, disk: Disk) -> list[str]:
        fill(store, 1)
        segment = store.log.segments[0]
        segment.append(segment.wrote.get(), b"behind the last sync")
        segment.flushed.set(segment.wrote.get())
        return broken(store, disk)

    assert on_a_store(body) == ["flushed bytes that are not durable"]


def test_a_flushed_position_past_the_written_one_is_found(on_a_store: OnAStore) -> None:
    def body(store: MessageStore, disk: Disk) -> list[str]:
        fill(store, 1)
        segment = store.log.segments[0]
        segment.flushed.set(segment.wrote.get() + 1)
        return broken(store, disk)

    assert on_a_store(body) == ["positions out of order"]


def test_a_queue_position_that_skips_an_unsynced_end_of_a_segment_is_found(on_a_store: OnAStore) -> None:
    def body(store: MessageStore, disk: Disk) -> list[str]:
        fill(store, 3)
        first = store.log.segments[0]
        first.file.store(1500, b"late")
        first.flushed.set(1000)
        return broken(store, disk)

    assert on_a_store(body) == ["bytes below flushedWhere that are not durable"]


def test_a_gap_between_segments_is_found(on_a_store: OnAStore) -> None:
    def body(store: MessageStore, disk: Disk) -> list[str]:
        fill(store, 6)
        store.log.segments = (store.log.segments[0], *store.log.segments[2:])
        return broken(store, disk)

    assert "a gap between segments" in on_a_store(body)


def test_more_flushed_than_written_is_found(on_a_store: OnAStore) -> None:
    def body(store: MessageStore, disk: Disk) -> list[str]:
        fill(store, 1)
        store.log.flushed_where.set(store.log.max_offset + 1)
        return broken(store, disk)

    assert on_a_store(body) == ["more is flushed than was written"]


def buffered(store: MessageStore) -> BufferedSegment:
    """Put three messages into a segment with a write buffer, two of them committed."""
    files, size_bytes = store.world.files, store.log.segment_bytes
    files.make_directories(store.config.commit_log_directory)
    mapped = files.map(store.log.path(0), size_bytes)
    pool = TransientStorePool(store.world, size_bytes, 1)
    segment = BufferedSegment(
        store.world.tasks, mapped, 0, "commitlog", pool=pool, buffer=memoryview(bytearray(size_bytes))
    )
    at = 0
    for number in range(3):
        encoded = store.commit_log.encoder.encode(Message.of("T0", bytes([number]) * 50))
        assert not isinstance(encoded, PutMessageStatus)
        record = encoded.buffer
        place_records(record, (0,), queue_offset=number, physical_offset=at, store_timestamp_ms=1, born_host_v6=False)
        segment.append(at, record)
        at += len(record)
        if number == 1:
            segment.commit(0)
    store.log.segments = (segment,)
    return segment


def test_a_segment_whose_committed_records_are_in_the_page_cache_holds(on_a_store: OnAStore) -> None:
    def body(store: MessageStore, disk: Disk) -> list[str]:
        segment = buffered(store)
        assert 0 < segment.committed.get() < segment.wrote.get()
        return broken(store, disk)

    assert on_a_store(body) == []


def test_committed_bytes_that_are_not_in_the_page_cache_are_found(on_a_store: OnAStore) -> None:
    def body(store: MessageStore, disk: Disk) -> list[str]:
        segment = buffered(store)
        segment.committed.set(segment.wrote.get())
        return broken(store, disk)

    assert on_a_store(body) == ["committed bytes that are not in the page cache"]


@pytest.mark.parametrize(
    ("path", "found"), [("this", []), ("other", ["committed bytes that are not in the page cache"])]
)
def test_committed_bytes_that_a_failed_sync_took_back_are_no_lie_of_the_stores(
    on_a_store: OnAStore, path: str, found: list[str]
) -> None:
    def body(store: MessageStore, disk: Disk) -> list[str]:
        segment = buffered(store)
        segment.committed.set(segment.wrote.get())
        taken = segment.file.path if path == "this" else "another file"
        disk.damage.append(DamagedRange(taken, 0, 4096, "failed sync"))
        return broken(store, disk)

    assert on_a_store(body) == found


def test_readers_that_may_see_what_is_not_committed_are_found(on_a_store: OnAStore) -> None:
    def body(store: MessageStore, disk: Disk) -> list[str]:
        segment = buffered(store)
        segment.readable = segment.wrote
        return broken(store, disk)

    assert on_a_store(body) == ["positions out of order"]


def test_zeros_of_a_cut_that_the_disk_does_not_have_yet_are_found(on_a_store: OnAStore) -> None:
    def body(store: MessageStore, disk: Disk) -> list[str]:
        fill(store, 3)
        segment = store.log.segments[-1]
        segment.file.store(segment.wrote.get() + 8, b"what a crash has cut")
        segment.file.msync(0, segment.size_bytes)
        segment.file.store(segment.wrote.get() + 8, bytes(20))
        store.last_recovery = RecoveryReport(clean_exit=False)
        dirty = [violation.summary for violation in pos.check_cut(store, disk)]
        store.last_recovery = RecoveryReport(clean_exit=True)
        after_a_clean_exit = [violation.summary for violation in pos.check_cut(store, disk)]
        store.last_recovery = RecoveryReport(clean_exit=False)
        segment.file.msync(0, segment.size_bytes)
        synced = [violation.summary for violation in pos.check_cut(store, disk)]
        return [*dirty, "|", *after_a_clean_exit, "|", *synced]

    assert on_a_store(body) == ["what was cut may come back", "|", "|"]
