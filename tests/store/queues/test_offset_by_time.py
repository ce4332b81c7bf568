from collections.abc import Callable
from functools import partial

import pytest

from tests.store.rigs import Make, started
from tornlog.store.formats.consume_queue import BLANK_ENTRY_BYTES, ENTRY_BYTES
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.queues import pull
from tornlog.store.world import World

pytestmark = pytest.mark.usefixtures("inside")


@pytest.fixture
def first_ms() -> None:
    """The store time of the first message, provided by `inside`."""


@pytest.fixture
def inside(lab: Make, small: Make) -> Callable[..., None]:
    """Run a test with a store of 25 messages, 100 ms apart."""

    def run(test: Callable[..., None], world: World) -> None:
        store = started(world, small())
        first_ms = world.clock.now_ms()
        for _ in range(25):
            store.put_message(Message.create("T", bytes(100)))
            world.tasks.sleep(100)
        test(store=store, first_ms=first_ms)
        assert store.shutdown()

    return lambda test: lab().run(partial(run, test))


def test_a_search_by_time_finds_the_nearest_message_of_its_file(store: MessageStore, first_ms: int) -> None:
    def at(after_ms: int) -> int:
        return store.get_offset_in_queue_by_time("T", 0, first_ms + after_ms)

    assert [at(number * 100) for number in range(25)] == list(range(25))
    assert (at(349), at(350), at(351)) == (3, 3, 4)  # of two equally near messages the earlier
    assert at(-5_000) == 0
    assert at(99_000) == 24
    assert at(960) == 10  # the mtime of the first file is 900, so the next file is searched


def test_an_offset_search_by_time_in_an_empty_queue_returns_0(store: MessageStore, first_ms: int) -> None:
    assert store.get_offset_in_queue_by_time("T", 5, first_ms) == 0


def test_a_search_by_time_returns_no_message_that_left_the_log(store: MessageStore, first_ms: int) -> None:
    segments = store.log.segments
    store.log.segments = segments[1:]  # as retention does
    assert store.get_offset_in_queue_by_time("T", 0, first_ms) == 5
    store.log.segments = segments


def test_a_search_by_time_skips_a_queue_file_without_entries(store: MessageStore, first_ms: int) -> None:
    queue = store.queues.find("T", 0)
    assert queue is not None
    for number in range(5):
        queue.append_entries(queue.entries_from(24)[:ENTRY_BYTES].tobytes())  # the third file is full
        assert queue.max_offset == 26 + number
    queue.queue.create(queue.queue.max_offset)
    assert queue.queue.segments[-1].wrote.get() == 0
    assert store.get_offset_in_queue_by_time("T", 0, first_ms + 99_000) in range(24, 30)


def test_a_search_by_time_skips_an_entry_without_a_record(store: MessageStore, first_ms: int) -> None:
    queue = store.queues.find("T", 0)
    assert queue is not None
    first = queue.queue.segments[0]
    for hole in (BLANK_ENTRY_BYTES, bytes(ENTRY_BYTES)):
        for index in (0, 3, 4, 5, 9):
            first.file.store(index * ENTRY_BYTES, hole)
        wanted = [1, 1, 2, 2, 2, 6, 6, 7, 8, 8]  # of two equally near messages the earlier
        assert [store.get_offset_in_queue_by_time("T", 0, first_ms + at * 100) for at in range(10)] == wanted

    for index in range(10):
        first.file.store(index * ENTRY_BYTES, BLANK_ENTRY_BYTES)
    assert store.get_offset_in_queue_by_time("T", 0, first_ms + 300) == 0


def test_a_search_by_time_without_any_readable_record_begins_at_the_first_unexpired_entry(
    store: MessageStore, first_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = store.queues.find_or_create("T", 0)
    first = store.get_min_offset_in_queue("T", 0)
    segment = queue.queue.segments[1]
    monkeypatch.setattr(queue, "min_logic_offset", segment.base_offset + 20)
    monkeypatch.setattr(pull, "_store_time_of_entry_ms", lambda *_: None)
    assert store.get_offset_in_queue_by_time("T", 0, first_ms) == segment.base_offset // 20 + 1 > first
