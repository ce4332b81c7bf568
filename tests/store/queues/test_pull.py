from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.store.rigs import Make, started
from tornlog.store.config import FlushDiskType
from tornlog.store.formats.consume_queue import BLANK_ENTRY_BYTES, ENTRY_BYTES, encode_entry
from tornlog.store.formats.messages import GetMessageResult, GetMessageStatus, Message
from tornlog.store.log.segment_queue import SegmentQueue
from tornlog.store.message_store import MessageStore
from tornlog.store.world import World

pytestmark = pytest.mark.usefixtures("inside")

Fail = Callable[[SegmentQueue], None]

FOUND = GetMessageStatus.FOUND
RECORD_BYTES = 91 + 100 + len("T") + len("TAGS\1A")


@pytest.fixture
def settings() -> dict[str, int]:
    """The settings of the store, which a test may parametrise."""
    return {}


@pytest.fixture
def fail() -> None:
    """Lets a sync fail as on btrfs: readers then see the durable bytes again, here zeros.

    A test with this argument gets a store with eight messages in queue T/0, the first four of them durable.
    """


@pytest.fixture
def inside(request: pytest.FixtureRequest, lab: Make, small: Make, settings: dict[str, int]) -> Callable[..., None]:
    """Run a test with a store that has 25 messages in queue T/0, alternately tagged A and B."""
    bench = lab()

    def put(store: MessageStore, numbers: range, body_bytes: int) -> None:
        for number in numbers:
            store.put_message(Message.create("T", bytes(body_bytes), tags="AB"[number % 2]))
        store.world.tasks.sleep(1)

    def fail(row: SegmentQueue) -> None:
        bench.failures.plan("msync", row.directory)
        with pytest.raises(OSError, match="Input/output"):
            row.flush()
        for segment in row.segments:
            durable, wrote = segment.flushed.get(), segment.wrote.get()
            segment.file.store(durable, bytes(wrote - durable))

    def run_on_full_store(test: Callable[..., None], world: World) -> None:
        store = started(world, small(**settings))
        put(store, range(25), 100)
        test(store=store)
        assert store.shutdown()

    def run_on_reverted_store(test: Callable[..., None], world: World) -> None:
        store = started(world, small(flush_disk_type=FlushDiskType.ASYNC_FLUSH))
        for _ in range(2):
            store.log.flush_all()
            for queue in store.queues.all_queues():
                queue.flush(0)
            put(store, range(4), 20)
        test(store=store, fail=fail)
        store.shutdown()

    run = run_on_reverted_store if "fail" in request.fixturenames else run_on_full_store
    return lambda test: bench.run(partial(run, test))


def outcome(result: GetMessageResult) -> tuple[GetMessageStatus, int, list[int]]:
    return result.status, result.next_begin_offset, result.queue_offsets


def test_a_pull_ends_at_the_requested_count_or_at_the_end_of_the_queue_file(store: MessageStore) -> None:
    assert outcome(store.get_message("T", 0, 0, 3)) == (FOUND, 3, [0, 1, 2])
    assert outcome(store.get_message("T", 0, 3)) == (FOUND, 10, list(range(3, 10)))
    assert outcome(store.get_message("T", 0, 20)) == (FOUND, 25, list(range(20, 25)))
    assert outcome(store.get_message("T", 0, 20, 0)) == (FOUND, 21, [20])  # always at least one message
    result = store.get_message("T", 0, 0, 3)
    assert result.buffer_total_bytes == sum(map(len, result.records)) > 300
    assert (result.min_offset, result.max_offset) == (0, 25)
    assert not result.suggest_pulling_from_slave


def test_a_pull_outside_of_the_queue_returns_the_next_valid_offset(store: MessageStore) -> None:
    status = GetMessageStatus
    assert outcome(store.get_message("T", 0, 25)) == (status.OFFSET_OVERFLOW_ONE, 25, [])
    assert outcome(store.get_message("T", 0, 99)) == (status.OFFSET_OVERFLOW_BADLY, 25, [])
    assert outcome(store.get_message("T", 0, -1)) == (status.OFFSET_TOO_SMALL, 0, [])
    assert outcome(store.get_message("T", 1, 7)) == (status.NO_MESSAGE_IN_QUEUE, 0, [])


def test_a_pull_by_tags_returns_only_messages_with_these_tags(store: MessageStore) -> None:
    assert outcome(store.get_message("T", 0, 0, tags="B")) == (FOUND, 10, [1, 3, 5, 7, 9])
    assert outcome(store.get_message("T", 0, 0, 2, tags=" B ||C")) == (FOUND, 4, [1, 3])
    assert all(outcome(store.get_message("T", 0, 0, 3, tags=tags)) == (FOUND, 3, [0, 1, 2]) for tags in ("*", " "))
    nothing = GetMessageStatus.NO_MATCHED_MESSAGE
    assert outcome(store.get_message("T", 0, 10, tags="C")) == (nothing, 20, [])


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({"max_transfer_bytes_on_message_in_memory": 3 * RECORD_BYTES - 1}, 2),
        ({"max_transfer_bytes_on_message_in_memory": RECORD_BYTES - 1}, 1),  # always at least one message
        ({"max_transfer_count_on_message_in_memory": 2}, 2),
    ],
)
def test_a_pull_from_memory_ends_at_the_limit_of_bytes_or_messages(store: MessageStore, count: int) -> None:
    assert outcome(store.get_message("T", 0, 0)) == (FOUND, count, list(range(count)))


@pytest.mark.parametrize(
    "settings",
    [
        {"physical_memory_bytes": 5_000, "max_transfer_count_on_message_in_disk": 2},
        {"physical_memory_bytes": 5_000, "max_transfer_bytes_on_message_in_disk": 2 * RECORD_BYTES},
    ],
)
def test_a_pull_of_old_messages_uses_the_disk_limits_and_suggests_the_slave(store: MessageStore) -> None:
    far = store.get_message("T", 0, 0)
    assert outcome(far) == (FOUND, 2, [0, 1])
    assert far.suggest_pulling_from_slave
    near = store.get_message("T", 0, 20)
    assert outcome(near) == (FOUND, 25, [20, 21, 22, 23, 24])
    assert not near.suggest_pulling_from_slave


def test_a_pull_skips_records_that_left_the_log_one_segment_at_a_time(store: MessageStore) -> None:
    segments = store.log.segments
    store.log.segments = segments[1:]  # as retention does; five records were in the first one
    assert outcome(store.get_message("T", 0, 0, 2, tags="A")) == (FOUND, 9, [6, 8])

    store.log.segments = segments[2:]
    removing = GetMessageStatus.MESSAGE_WAS_REMOVING
    assert outcome(store.get_message("T", 0, 0)) == (removing, 10, [])
    store.log.segments = segments


@pytest.mark.parametrize("hole", [BLANK_ENTRY_BYTES, bytes(ENTRY_BYTES), encode_entry(3, 4000, 0)])
def test_a_pull_skips_only_the_entry_without_a_record(store: MessageStore, hole: bytes) -> None:
    queue = store.queues.find("T", 0)
    assert queue is not None
    file = queue.queue.segments[0].file
    for index in (0, 4):
        file.store(index * ENTRY_BYTES, hole)
    # All ten are in the first two segments of the log, and so is the position in the hole's entry.
    assert outcome(store.get_message("T", 0, 0)) == (FOUND, 10, [1, 2, 3, 5, 6, 7, 8, 9])
    assert outcome(store.get_message("T", 0, 4, 1)) == (FOUND, 6, [5])
    assert outcome(store.get_message("T", 0, 3, tags="A")) == (FOUND, 10, [6, 8])


def test_a_pull_skips_a_missing_queue_file(store: MessageStore) -> None:
    queue = store.queues.find("T", 0)
    assert queue is not None
    segments = queue.queue.segments
    queue.queue.segments = segments[1:]
    found_null = GetMessageStatus.OFFSET_FOUND_NULL
    assert outcome(store.get_message("T", 0, 4)) == (found_null, 10, [])
    queue.queue.segments = segments


def is_refused(store: MessageStore, offset: int, **wanted: Any) -> bool:
    with pytest.raises(OSError, match="only a restart shows which messages remain"):
        store.get_message("T", 0, offset, **wanted)
    return True


def test_after_a_failed_sync_of_the_log_a_pull_returns_durable_messages_and_skips_none(
    store: MessageStore, fail: Fail
) -> None:
    assert outcome(store.get_message("T", 0, 0)) == (FOUND, 8, list(range(8)))
    fail(store.log)
    assert outcome(store.get_message("T", 0, 0)) == (FOUND, 4, [0, 1, 2, 3])
    assert outcome(store.get_message("T", 0, 3, tags="A")) == (GetMessageStatus.NO_MATCHED_MESSAGE, 4, [])
    assert is_refused(store, 4)
    assert is_refused(store, 4, tags="C")


def test_a_pull_does_not_skip_entries_that_a_failed_sync_removed(store: MessageStore, fail: Fail) -> None:
    fail(store.queues.find_or_create("T", 0).queue)
    store.put_message(Message.create("T", b"behind them"))
    store.world.tasks.sleep(1)
    assert outcome(store.get_message("T", 0, 0)) == (FOUND, 4, [0, 1, 2, 3])
    assert is_refused(store, 4)
    assert outcome(store.get_message("T", 0, 8)) == (FOUND, 9, [8])


def test_blank_entries_are_skipped_after_any_failed_sync(store: MessageStore, fail: Fail) -> None:
    row = store.queues.find_or_create("T", 0).queue
    row.segments[0].file.store(0, BLANK_ENTRY_BYTES)
    fail(store.log)
    fail(row)
    assert outcome(store.get_message("T", 0, 0)) == (FOUND, 4, [1, 2, 3])


def test_a_sync_that_fails_during_a_pull_limits_its_answer(store: MessageStore, fail: Fail) -> None:
    class Failing:
        """A filter that makes a sync fail at its first call, during the pull."""

        reads_records = False

        def matches_queue(self, tags_code: int | None, unit: object) -> bool:
            if store.log.sync_error is None:
                fail(store.log)
            return True

    assert outcome(store.get_message("T", 0, 2, wanted=Failing())) == (FOUND, 4, [2, 3])
