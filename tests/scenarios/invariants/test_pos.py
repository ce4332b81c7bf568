from collections.abc import Callable
from typing import Any

from tornlog.faults.disk import Disk
from tornlog.scenarios.invariants import pos
from tornlog.store.message import Message
from tornlog.store.message_store import MessageStore

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
