from collections.abc import Callable
from typing import Any

import pytest

from tests.store.rigs import started
from tests.store.simulated import Make
from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.formats.consume_queue import BLANK_ENTRY_BYTES, ENTRY_BYTES, encode_entry
from tornlog.store.formats.messages import GetMessageResult, GetMessageStatus, Message
from tornlog.store.log.segment_queue import SegmentQueue
from tornlog.store.message_store import MessageStore
from tornlog.store.world import World

Check = Callable[[MessageStore], None]

FOUND = GetMessageStatus.FOUND


@pytest.fixture
def asked(lab: Make, small: Make) -> Callable[..., None]:
    """Check pulls from a store with count messages in queue T/0, alternately tagged A and B."""

    def ask(check: Check, count: int = 25, body_bytes: int = 100, **settings: Any) -> None:
        config: StoreConfig = small(**settings)

        def body(world: World) -> None:
            store = started(world, config)
            for number in range(count):
                store.put_message(Message.create("T", bytes(body_bytes), tags="AB"[number % 2]))
            world.tasks.sleep(1)
            check(store)
            assert store.shutdown()

        lab().run(body)

    return ask


def outcome(result: GetMessageResult) -> tuple[GetMessageStatus, int, list[int]]:
    return result.status, result.next_begin_offset, result.queue_offsets


def test_a_pull_ends_at_the_requested_count_or_at_the_end_of_the_queue_file(asked: Make) -> None:
    def check(store: MessageStore) -> None:
        assert outcome(store.get_message("T", 0, 0, 3)) == (FOUND, 3, [0, 1, 2])
        assert outcome(store.get_message("T", 0, 3)) == (FOUND, 10, list(range(3, 10)))
        assert outcome(store.get_message("T", 0, 20)) == (FOUND, 25, list(range(20, 25)))
        assert outcome(store.get_message("T", 0, 20, 0)) == (FOUND, 21, [20])  # always at least one message
        result = store.get_message("T", 0, 0, 3)
        assert result.buffer_total_bytes == sum(map(len, result.records)) > 300
        assert (result.min_offset, result.max_offset) == (0, 25)
        assert not result.suggest_pulling_from_slave

    asked(check)


def test_a_pull_outside_of_the_queue_returns_the_next_valid_offset(asked: Make) -> None:
    def check(store: MessageStore) -> None:
        status = GetMessageStatus
        assert outcome(store.get_message("T", 0, 25)) == (status.OFFSET_OVERFLOW_ONE, 25, [])
        assert outcome(store.get_message("T", 0, 99)) == (status.OFFSET_OVERFLOW_BADLY, 25, [])
        assert outcome(store.get_message("T", 0, -1)) == (status.OFFSET_TOO_SMALL, 0, [])
        assert outcome(store.get_message("T", 1, 7)) == (status.NO_MESSAGE_IN_QUEUE, 0, [])

    asked(check)


def test_a_pull_by_tags_returns_only_messages_with_these_tags(asked: Make) -> None:
    def check(store: MessageStore) -> None:
        assert outcome(store.get_message("T", 0, 0, tags="B")) == (FOUND, 10, [1, 3, 5, 7, 9])
        assert outcome(store.get_message("T", 0, 0, 2, tags=" B ||C")) == (FOUND, 4, [1, 3])
        nothing = GetMessageStatus.NO_MATCHED_MESSAGE
        assert outcome(store.get_message("T", 0, 10, tags="C")) == (nothing, 20, [])

    asked(check)


def test_a_pull_from_memory_ends_at_the_limit_of_bytes_or_messages(asked: Make) -> None:
    def check(store: MessageStore) -> None:
        assert outcome(store.get_message("T", 0, 0)) == (FOUND, 2, [0, 1])

    record_bytes = 91 + 100 + len("T") + len("TAGS\1A")
    asked(check, max_transfer_bytes_on_message_in_memory=3 * record_bytes - 1)
    asked(check, max_transfer_count_on_message_in_memory=2)


def test_a_pull_of_old_messages_uses_the_disk_limits_and_suggests_the_slave(asked: Make) -> None:
    def check(store: MessageStore) -> None:
        far = store.get_message("T", 0, 0)
        assert outcome(far) == (FOUND, 2, [0, 1])
        assert far.suggest_pulling_from_slave
        near = store.get_message("T", 0, 20)
        assert outcome(near) == (FOUND, 25, [20, 21, 22, 23, 24])
        assert not near.suggest_pulling_from_slave

    asked(check, physical_memory_bytes=5_000, max_transfer_count_on_message_in_disk=2)
    record_bytes = 91 + 100 + len("T") + len("TAGS\1A")
    asked(check, physical_memory_bytes=5_000, max_transfer_bytes_on_message_in_disk=2 * record_bytes)


def test_a_pull_skips_records_that_left_the_log_one_segment_at_a_time(asked: Make) -> None:
    def check(store: MessageStore) -> None:
        segments = store.log.segments
        store.log.segments = segments[1:]  # as retention does; five records were in the first one
        assert outcome(store.get_message("T", 0, 0, 2, tags="A")) == (FOUND, 9, [6, 8])

        store.log.segments = segments[2:]
        removing = GetMessageStatus.MESSAGE_WAS_REMOVING
        assert outcome(store.get_message("T", 0, 0)) == (removing, 10, [])
        store.log.segments = segments

    asked(check)


@pytest.mark.parametrize("hole", [BLANK_ENTRY_BYTES, bytes(ENTRY_BYTES), encode_entry(3, 4000, 0)])
def test_a_pull_skips_only_the_entry_without_a_record(asked: Make, hole: bytes) -> None:
    def check(store: MessageStore) -> None:
        queue = store.queues.find("T", 0)
        assert queue is not None
        file = queue.queue.segments[0].file
        for index in (0, 4):
            file.store(index * ENTRY_BYTES, hole)
        # All ten are in the first two segments of the log, and so is the position in the hole's entry.
        assert outcome(store.get_message("T", 0, 0)) == (FOUND, 10, [1, 2, 3, 5, 6, 7, 8, 9])
        assert outcome(store.get_message("T", 0, 4, 1)) == (FOUND, 6, [5])
        assert outcome(store.get_message("T", 0, 3, tags="A")) == (FOUND, 10, [6, 8])

    asked(check)


def test_a_pull_skips_a_missing_queue_file(asked: Make) -> None:
    def check(store: MessageStore) -> None:
        queue = store.queues.find("T", 0)
        assert queue is not None
        segments = queue.queue.segments
        queue.queue.segments = segments[1:]
        found_null = GetMessageStatus.OFFSET_FOUND_NULL
        assert outcome(store.get_message("T", 0, 4)) == (found_null, 10, [])
        queue.queue.segments = segments

    asked(check)


@pytest.fixture
def reverted(lab: Make, small: Make) -> Callable[..., None]:
    """Check pulls from a store with eight messages in queue T/0, the first four of them durable.

    `fail` lets a sync fail as on btrfs: readers then see the durable bytes again, here zeros.
    """

    def ask(check: Callable[[MessageStore, Callable[[SegmentQueue], None]], None]) -> None:
        bench = lab()

        def fail(row: SegmentQueue) -> None:
            bench.failures.plan("msync", row.directory)
            with pytest.raises(OSError, match="Input/output"):
                row.flush()
            for segment in row.segments:
                durable, wrote = segment.flushed.get(), segment.wrote.get()
                segment.file.store(durable, bytes(wrote - durable))

        def body(world: World) -> None:
            store = started(world, small(flush_disk_type=FlushDiskType.ASYNC_FLUSH))
            for _ in range(2):
                store.log.flush_all()
                for queue in store.queues.all_queues():
                    queue.flush(0)
                for number in range(4):
                    store.put_message(Message.create("T", bytes(20), tags="AB"[number % 2]))
                world.tasks.sleep(1)
            check(store, fail)
            store.shutdown()

        bench.run(body)

    return ask


def is_refused(store: MessageStore, offset: int, **wanted: Any) -> bool:
    with pytest.raises(OSError, match="only a restart can say"):
        store.get_message("T", 0, offset, **wanted)
    return True


def test_after_a_failed_sync_of_the_log_a_pull_returns_durable_messages_and_skips_none(reverted: Make) -> None:
    def check(store: MessageStore, fail: Callable[[SegmentQueue], None]) -> None:
        assert outcome(store.get_message("T", 0, 0)) == (FOUND, 8, list(range(8)))
        fail(store.log)
        assert outcome(store.get_message("T", 0, 0)) == (FOUND, 4, [0, 1, 2, 3])
        assert outcome(store.get_message("T", 0, 3, tags="A")) == (GetMessageStatus.NO_MATCHED_MESSAGE, 4, [])
        assert is_refused(store, 4)
        assert is_refused(store, 4, tags="C")

    reverted(check)


def test_a_pull_does_not_skip_entries_that_a_failed_sync_removed(reverted: Make) -> None:
    def check(store: MessageStore, fail: Callable[[SegmentQueue], None]) -> None:
        fail(store.queues.find_or_create("T", 0).queue)
        store.put_message(Message.create("T", b"behind them"))
        store.world.tasks.sleep(1)
        assert outcome(store.get_message("T", 0, 0)) == (FOUND, 4, [0, 1, 2, 3])
        assert is_refused(store, 4)
        assert outcome(store.get_message("T", 0, 8)) == (FOUND, 9, [8])

    reverted(check)


def test_blank_entries_are_skipped_after_any_failed_sync(reverted: Make) -> None:
    def check(store: MessageStore, fail: Callable[[SegmentQueue], None]) -> None:
        row = store.queues.find_or_create("T", 0).queue
        row.segments[0].file.store(0, BLANK_ENTRY_BYTES)
        fail(store.log)
        fail(row)
        assert outcome(store.get_message("T", 0, 0)) == (FOUND, 4, [1, 2, 3])

    reverted(check)


def test_a_sync_that_fails_during_a_pull_limits_its_answer(reverted: Make) -> None:
    def check(store: MessageStore, fail: Callable[[SegmentQueue], None]) -> None:
        class Failing:
            """A filter that makes a sync fail at its first call, during the pull."""

            reads_records = False

            def matches_queue(self, tags_code: int | None, unit: object) -> bool:
                if store.log.sync_error is None:
                    fail(store.log)
                return True

        assert outcome(store.get_message("T", 0, 2, wanted=Failing())) == (FOUND, 4, [2, 3])

    reverted(check)
