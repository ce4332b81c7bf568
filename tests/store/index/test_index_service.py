from dataclasses import replace
from typing import Any

import pytest

from tests.store.rigs import Make, started
from tornlog.store.formats.checkpoint import CHECKPOINT_FILE_BYTES
from tornlog.store.formats.index import index_file_name
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.index.index_service import IndexFiles
from tornlog.store.log.checkpoint import read_checkpoint
from tornlog.store.message_store import MessageStore
from tornlog.store.running_flags import RefusalReason
from tornlog.store.world import World

EVER = (0, 1 << 62)


def put(store: MessageStore, keys: str, topic: str = "T") -> int:
    result = store.put_message(Message.create(topic, b"body", keys=keys))
    assert result.append is not None
    return result.append.wrote_offset


def found_offsets(store: MessageStore, key: str, topic: str = "T", at_most: int = 32) -> list[int]:
    return store.query_message(topic, key, at_most, *EVER).physical_offsets


def names(store: MessageStore) -> list[str]:
    assert store.index is not None
    return [file.name for file in store.index.table.files]


def test_messages_are_found_by_each_of_their_keys(world: World, small: Make, exact: Make) -> None:
    store = started(world, small())
    first, second = put(store, "a b"), put(store, "b c")
    put(store, "")
    put(store, "b", topic="Other")
    world.tasks.sleep(10)

    assert found_offsets(store, "a") == [first]
    assert found_offsets(store, "b") == [first, second]
    assert found_offsets(store, "b", at_most=1) == [second]
    assert found_offsets(store, "d") == found_offsets(store, "a b") == found_offsets(store, "a", topic="Other") == []
    answer = store.query_message("T", "b", 32, *EVER)
    assert [raw[28:36] for raw in answer.records] == [at.to_bytes(8, "big") for at in (first, second)]
    assert answer.index_last_update_physical_offset > second
    assert store.query_message("T", "half \ud800", 32, *EVER).records == []
    assert len(exact(store)) == 5
    assert store.shutdown()


def test_a_query_returns_no_more_messages_than_the_settings_allow(world: World, small: Make) -> None:
    store = started(world, small(max_msgs_num_batch=3))
    offsets = [put(store, "k") for _ in range(5)]
    world.tasks.sleep(10)
    assert found_offsets(store, "k") == offsets[2:]
    store.shutdown()


def test_keys_with_equal_hashes_are_distinguished(world: World, small: Make) -> None:
    store = started(world, small())
    first, second = put(store, "Aa"), put(store, "BB")
    world.tasks.sleep(10)
    assert (found_offsets(store, "Aa"), found_offsets(store, "BB"), found_offsets(store, "AaBB")) == (
        [first],
        [second],
        [],
    )
    store.shutdown()


def test_a_message_with_a_repeated_key_is_found_once(world: World, small: Make) -> None:
    store = started(world, small())
    first = put(store, "k k")
    world.tasks.sleep(10)
    assert found_offsets(store, "k", at_most=2) == [first]
    store.shutdown()


def test_prepared_messages_are_indexed_and_roll_backs_are_not(world: World, small: Make, exact: Make) -> None:
    store = started(world, small())
    for sys_flag in (4, 12):
        message = Message.create("T", b"", keys=f"k{sys_flag}")
        message.sys_flag = sys_flag
        store.put_message(message)
    world.tasks.sleep(10)
    assert (len(found_offsets(store, "k4")), found_offsets(store, "k12")) == (1, [])
    assert len(exact(store)) == 1
    store.shutdown()


def test_the_keys_of_a_message_may_continue_in_a_new_index_file(world: World, small: Make, exact: Make) -> None:
    store = started(world, small(max_index_num=4))
    first, second = put(store, "a b"), put(store, "c d e f g")
    world.tasks.sleep(10)
    assert len(names(store)) == 3
    assert [found_offsets(store, key) for key in "abcdefg"] == [[first]] * 2 + [[second]] * 5
    assert len(exact(store)) == 7
    store.shutdown()


def test_a_store_without_an_index_does_not_touch_the_index_directory(world: World, small: Make) -> None:
    store = started(world, small())
    put(store, "a")
    assert store.shutdown()
    world.files.write("/store/index/mine", b"mine")
    before = [(name, world.files.read(f"/store/index/{name}")) for name in world.files.list_directory("/store/index")]

    store = started(world, small(message_index_enable=False))
    put(store, "b")
    assert store.index is None
    assert store.query_message("T", "b", 32, *EVER).records == []
    assert store.shutdown()
    after = [(name, world.files.read(f"/store/index/{name}")) for name in world.files.list_directory("/store/index")]
    assert after == before

    store = started(world, small())
    assert [len(found_offsets(store, key)) for key in "ab"] == [1, 1]
    assert store.shutdown()
    assert world.files.read("/store/index/mine") == b"mine"


# -- names -----------------------------------------------------------------------------------------


class Clock:
    def __init__(self, *, offset_ms: int = 0) -> None:
        self.now = 1_600_000_000_000
        self.offset_ms = offset_ms

    def now_ms(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return 0

    def utc_offset_ms(self) -> int:
        return self.offset_ms


def test_a_load_does_not_trust_the_names_of_files_that_a_killed_load_made(world: World, bench: Any) -> None:
    IndexFiles(world, "/store/index", 1, 2).create()
    table = IndexFiles(world, "/store/index", 1, 2)
    table.load()
    table.make_durable()
    assert not list(bench.disk.undurable_names("/store/index"))


def test_index_files_are_named_by_the_local_time_of_their_creation(world: World) -> None:
    clock = Clock(offset_ms=2 * 3_600_000)
    table = IndexFiles(World(clock, world.tasks, world.files), "/store/index", 1, 2)
    assert table.create().name == "20200913142640000"


def test_index_file_names_increase_even_if_the_clock_stops_or_steps_back(world: World) -> None:
    clock = Clock()
    table = IndexFiles(World(clock, world.tasks, world.files), "/store/index", 1, 2)
    made = [table.create().name, table.create().name]
    clock.now -= 10_000
    made.append(table.create().name)
    clock.now += 60_000
    made.append(table.create().name)
    world.files.write(f"/store/index/{index_file_name(clock.now + 1)}", b"in the way")
    made.append(table.create().name)
    expected = [clock.now - 50_000, clock.now - 49_999, clock.now - 49_998, clock.now, clock.now + 2]
    assert made == [index_file_name(ms) for ms in expected]

    again = IndexFiles(World(clock, world.tasks, world.files), "/store/index", 1, 2)
    again.load()
    clock.now = 0
    assert again.create().name == index_file_name(expected[-1] + 1)


# -- syncing ---------------------------------------------------------------------------------------


def index_time_ms(world: World) -> int:
    return read_checkpoint(world.files, "/store/checkpoint").index_msg_timestamp_ms


def test_a_full_index_file_is_durable_before_the_checkpoint_covers_it(world: World, bench: Any, small: Make) -> None:
    store = started(world, small(max_index_num=3))
    put(store, "a b")
    world.tasks.sleep(100)
    put(store, "c")
    world.tasks.sleep(50)
    path = f"/store/index/{names(store)[0]}"
    assert not bench.disk.is_durable(path, 0, 40)
    assert index_time_ms(world) == 0
    world.tasks.sleep(1_500)

    assert bench.disk.is_durable(path, 0, store.index.table.file_bytes)  # type: ignore[union-attr]
    calls = [call for call in bench.failures.calls if call[0] in ("msync", "sync_directory", "store")]
    flushed = calls.index(("msync", path))
    assert ("sync_directory", "/store/index") in calls[flushed:]
    assert ("sync_directory", "/store") in calls[flushed:]
    assert calls.index(("store", "/store/checkpoint"), flushed) > calls.index(("sync_directory", "/store"), flushed)
    begin_ms = store.index.table.files[0].end_timestamp_ms  # type: ignore[union-attr]
    assert index_time_ms(world) == begin_ms
    values = read_checkpoint(world.files, "/store/checkpoint")
    assert values.logics_msg_timestamp_ms == 0  # the queues are not durable yet
    assert store.shutdown()


def test_a_start_lowers_an_index_time_after_the_end_of_the_log(world: World, bench: Any, small: Make) -> None:
    store = started(world, small())
    put(store, "a")
    store.shutdown()
    stored_ms = read_checkpoint(world.files, "/store/checkpoint").physic_msg_timestamp_ms
    file = world.files.map("/store/checkpoint", CHECKPOINT_FILE_BYTES)
    file.store(16, (stored_ms + 3_600_000).to_bytes(8, "big"))
    file.close()
    started(world, small())
    assert read_checkpoint(world.files, "/store/checkpoint").index_msg_timestamp_ms <= stored_ms


def test_the_checkpoint_does_not_cover_an_index_file_whose_last_millisecond_may_continue(
    world: World, small: Make
) -> None:
    store = started(world, small(max_index_num=4))
    put(store, "a b c d")
    world.tasks.sleep(1_500)
    table = store.index.table  # type: ignore[union-attr]
    end_ms = table.files[0].end_timestamp_ms
    assert table.files[1].end_timestamp_ms == end_ms
    assert index_time_ms(world) == end_ms - 1
    put(store, "e")
    world.tasks.sleep(1_500)
    assert index_time_ms(world) == end_ms
    assert store.shutdown()


def test_a_clean_stop_leaves_a_durable_index(world: World, bench: Any, small: Make) -> None:
    store = started(world, small())
    put(store, "a")
    assert store.shutdown()
    path = f"/store/index/{names(store)[0]}"
    assert bench.disk.is_durable(path, 0, 300)
    assert ("sync_directory", "/store/index") in bench.failures.calls


def test_after_a_failed_index_sync_the_checkpoint_stays_and_the_exit_is_not_clean(
    world: World, bench: Any, small: Make
) -> None:
    bench.failures.plan("msync", "/store/index")
    store = started(world, small(max_index_num=3))
    for number in range(5):
        put(store, f"{number}")
        world.tasks.sleep(700)
    assert isinstance(store.flush_queues.last_error, OSError)
    assert index_time_ms(world) == 0
    assert not store.shutdown()
    assert index_time_ms(world) == 0

    store = started(world, small(max_index_num=3))
    assert [len(found_offsets(store, f"{number}")) for number in range(5)] == [1] * 5
    assert store.shutdown()


# -- failed creation of a file ---------------------------------------------------------------------


def test_a_failed_index_file_creation_is_retried_and_no_key_is_indexed_twice(
    world: World, bench: Any, small: Make, exact: Make
) -> None:
    store = started(world, small(max_index_num=4))
    put(store, "a b")
    world.tasks.sleep(10)
    bench.failures.plan("map", "/store/index", 2)
    put(store, "c d e")
    world.tasks.sleep(100)
    assert isinstance(store.dispatch.last_error, OSError)
    assert len(names(store)) == 1
    world.tasks.sleep(3_000)
    assert len(exact(store)) == 5
    assert store.flags.is_writeable
    assert store.shutdown()


def test_if_no_index_file_can_be_created_puts_are_refused_and_consumers_continue(
    world: World, bench: Any, small: Make, exact: Make
) -> None:
    bench.failures.plan("map", "/store/index", 3)
    store = started(world, small())
    put(store, "a")
    put(store, "b")
    world.tasks.sleep(5_000)
    assert store.flags.bits & RefusalReason.WRITE_INDEX_FILE_ERROR
    assert store.put_message(Message.create("T", b"")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert store.get_max_offset_in_queue("T", 0) == 2
    assert names(store) == []
    assert isinstance(store.index.last_error, OSError)  # type: ignore[union-attr]
    assert not store.shutdown()

    store = started(world, small())
    assert len(exact(store)) == 2
    assert store.shutdown()


def test_a_full_disk_only_delays_indexing(world: World, bench: Any, small: Make, exact: Make) -> None:
    store = started(world, small(max_index_num=3))
    put(store, "a b")
    world.tasks.sleep(10)
    with bench.disk.with_faults(failed_creation_chance=1.0):
        put(store, "c")
        world.tasks.sleep(8_000)
        assert len(names(store)) == 1
    world.tasks.sleep(2_000)
    assert len(exact(store)) == 3
    assert store.shutdown()


# -- expiry ----------------------------------------------------------------------------------------


def test_all_index_files_of_removed_records_except_the_last_are_removed(world: World, bench: Any, small: Make) -> None:
    store = started(world, small(max_index_num=3))
    offsets = [put(store, f"{number}") for number in range(6)]
    world.tasks.sleep(10)
    index = store.index
    assert index is not None
    all_names = names(store)
    assert index.table.delete_expired(offsets[1]) == 0
    assert index.table.delete_expired(offsets[1] + 1) == 1
    assert names(store) == all_names[1:]
    assert index.table.delete_expired(1 << 40) == 1
    assert [call for call in bench.failures.calls if call[0] in ("unlink", "sync_directory")][-2:] == [
        ("unlink", f"/store/index/{all_names[1]}"),
        ("sync_directory", "/store/index"),
    ]
    assert names(store) == all_names[2:] == world.files.list_directory("/store/index")
    assert index.table.delete_expired(1 << 40) == 0
    assert found_offsets(store, "5") == offsets[5:]
    assert found_offsets(store, "1") == []
    store.shutdown()


def test_after_a_failed_index_file_removal_newer_files_stay_until_the_next_call(
    world: World, bench: Any, small: Make
) -> None:
    store = started(world, small(max_index_num=3))
    for number in range(6):
        put(store, f"{number}")
    world.tasks.sleep(10)
    assert store.index is not None
    table, all_names = store.index.table, names(store)
    bench.failures.plan("unlink", f"/store/index/{all_names[0]}")
    with pytest.raises(OSError, match="Input/output"):
        table.delete_expired(1 << 40)
    assert names(store) == all_names == world.files.list_directory("/store/index")

    assert table.delete_expired(1 << 40) == 2
    assert names(store) == all_names[2:] == world.files.list_directory("/store/index")
    store.shutdown()


@pytest.mark.parametrize("exists", [True, False])
def test_an_index_without_files_has_nothing_to_remove(exists: bool, world: World) -> None:
    if exists:
        world.files.make_directories("/store/index")
    table = IndexFiles(world, "/store/index", 1, 2)
    assert table.load() == []
    assert table.delete_expired(1) == 0
    assert table.durable_timestamp_ms < 0


def test_an_index_file_after_one_with_a_single_record_begins_with_that_records_time(
    world: World, small: Make, exact: Make
) -> None:
    store = started(world, small(max_index_num=3))
    assert put(store, "a b") == 0
    world.tasks.sleep(2_500)
    put(store, "c")
    world.tasks.sleep(10)
    exact(store)
    assert store.index is not None
    first, second = store.index.table.files
    store.shutdown()
    assert (first.end_physical_offset, second.entry(1).time_diff_s) == (0, 2)


def test_index_file_names_after_the_year_9999_are_in_order(world: World, small: Make) -> None:
    late = replace(world, clock=LateClock(world.clock))
    store = started(late, small())
    for number in range(30):
        put(store, f"k{number}")
    world.tasks.sleep(1_000)
    assert [len(name) for name in names(store)] == [18, 18, 18]
    assert store.shutdown()
    again = MessageStore(late, small())
    again.load()
    assert names(again) == names(store)
    again.close()


class LateClock:
    """A clock that is 8,000 years ahead."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.monotonic_ns = clock.monotonic_ns
        self.utc_offset_ms = clock.utc_offset_ms

    def now_ms(self) -> int:
        return int(self._clock.now_ms()) + 8_000 * 366 * 86_400_000
