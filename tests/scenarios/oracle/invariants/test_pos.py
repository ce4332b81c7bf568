from collections.abc import Callable

import pytest

from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import DamagedRange
from tornlog.scenarios.oracle.invariants import pos
from tornlog.store.formats.message import place_records
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.log.transient_pool import BufferedSegment, TransientStorePool
from tornlog.store.message_store import MessageStore
from tornlog.store.recovery.recovery import RecoveryReport


def put_messages(store: MessageStore, count: int) -> None:
    for number in range(count):
        store.put_message(Message.create("T0", bytes([number]) * 900))


def violated_summaries(store: MessageStore, disk: Disk) -> list[str]:
    return [violation.summary for violation in pos.check_positions(store, disk)]


def sync_less_than_flushed(store: MessageStore) -> None:
    segment = store.log.segments[0]
    segment.append(segment.wrote.get(), b"after the last sync")
    segment.flushed.set(segment.wrote.get())


def skip_the_end_of_a_segment(store: MessageStore) -> None:
    first = store.log.segments[0]
    first.file.store(1500, b"late")
    first.flushed.set(1000)


def forget_the_second_segment(store: MessageStore) -> None:
    store.log.segments = (store.log.segments[0], *store.log.segments[2:])


def flush_more_than_written(store: MessageStore) -> None:
    segment = store.log.segments[0]
    segment.flushed.set(segment.wrote.get() + 1)


def flush_past_the_end(store: MessageStore) -> None:
    store.log.flushed_where.set(store.log.max_offset + 1)


@pytest.mark.parametrize(
    ("count", "damage", "found"),
    [
        (5, lambda store: None, set()),
        (1, sync_less_than_flushed, {"flushed bytes that are not durable"}),
        (1, flush_more_than_written, {"positions out of order"}),
        (3, skip_the_end_of_a_segment, {"bytes below flushedWhere that are not durable"}),
        (6, forget_the_second_segment, {"a gap between segments"}),
        (1, flush_past_the_end, {"more is flushed than was written"}),
    ],
)
def test_each_wrong_log_position_is_a_violation(
    store: MessageStore, disk: Disk, count: int, damage: Callable[[MessageStore], None], found: set[str]
) -> None:
    put_messages(store, count)
    damage(store)
    assert {*violated_summaries(store, disk)} == found


def buffered_segment(store: MessageStore) -> BufferedSegment:
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
        encoded = store.commit_log.encoder.encode(Message.create("T0", bytes([number]) * 50))
        assert not isinstance(encoded, PutMessageStatus)
        record = encoded.buffer
        place_records(record, (0,), queue_offset=number, physical_offset=at, store_timestamp_ms=1, born_host_v6=False)
        segment.append(at, record)
        at += len(record)
        if number == 1:
            segment.commit(0)
    store.log.segments = (segment,)
    return segment


UNCOMMITTED = "committed bytes that are not in the page cache"


@pytest.mark.parametrize(
    ("commits_all", "reverted", "found"),
    [(False, "", []), (True, "", [UNCOMMITTED]), (True, "another file", [UNCOMMITTED]), (True, "this file", [])],
)
def test_committed_bytes_must_be_in_the_page_cache_unless_a_failed_sync_reverted_them(
    store: MessageStore, disk: Disk, commits_all: bool, reverted: str, found: list[str]
) -> None:
    segment = buffered_segment(store)
    assert 0 < segment.committed.get() < segment.wrote.get()
    if commits_all:
        segment.committed.set(segment.wrote.get())
    if reverted:
        path = segment.file.path if reverted == "this file" else reverted
        disk.damage.append(DamagedRange(path, 0, 4096, "failed sync"))
    assert violated_summaries(store, disk) == found


def test_a_readable_position_after_the_committed_position_is_a_violation(store: MessageStore, disk: Disk) -> None:
    segment = buffered_segment(store)
    segment.readable = segment.wrote
    assert violated_summaries(store, disk) == ["positions out of order"]


def test_truncated_bytes_must_be_durable_zeros_unless_the_exit_was_clean(store: MessageStore, disk: Disk) -> None:
    def found(*, clean_exit: bool) -> list[str]:
        store.last_recovery = RecoveryReport(clean_exit=clean_exit)
        return [violation.summary for violation in pos.check_truncated_bytes(store, disk)]

    put_messages(store, 3)
    segment = store.log.segments[-1]
    segment.file.store(segment.wrote.get() + 8, b"truncated bytes")
    segment.file.msync(0, segment.size_bytes)
    segment.file.store(segment.wrote.get() + 8, bytes(20))
    assert found(clean_exit=False) == ["truncated bytes may reappear"]
    assert found(clean_exit=True) == []
    segment.file.msync(0, segment.size_bytes)
    assert found(clean_exit=False) == []
