from typing import Any

import pytest

from tornlog.store.errors import CorruptFileError, MisplacedRecordError
from tornlog.store.formats.consume_queue import BLANK_ENTRY_BYTES, ENTRY_BYTES, encode_entry, is_blank
from tornlog.store.queues.consume_queue import ConsumeQueue
from tornlog.store.queues.consume_queue_table import ConsumeQueueTable
from tornlog.store.world import World

PER_SEGMENT = 10


def queue_of(world: World) -> ConsumeQueue:
    return ConsumeQueue(world, "/store/consumequeue/T/0", PER_SEGMENT * ENTRY_BYTES, "T", 0)


def filled_queue(world: World, count: int) -> ConsumeQueue:
    queue = queue_of(world)
    for number in range(count):
        queue.put(number * 100, 100, number, number)
    return queue


def offsets(queue: ConsumeQueue) -> list[int]:
    """Return the log offset of every entry in the files, -1 for a blank entry."""
    found = []
    begin = queue.queue.min_offset // ENTRY_BYTES
    for index in range(begin, queue.max_offset):
        entry = queue.entry(index)
        assert entry is not None
        found.append(-1 if is_blank(entry) else entry.physical_offset)
    return found


def test_queue_entries_are_found_by_index_across_files(world: World) -> None:
    queue = filled_queue(world, 25)

    assert (queue.min_offset, queue.max_offset) == (0, 25)
    assert len(queue.queue.segments) == 3
    assert offsets(queue) == [number * 100 for number in range(25)]
    assert queue.entry(25) == (0, 0, 0)
    assert queue.entry(30) is None
    assert queue.entry(-1) is None
    assert bytes(queue.entries_from(18)) == encode_entry(1800, 100, 18) + encode_entry(1900, 100, 19)
    assert bytes(queue.entries_from(25)) == bytes(queue.entries_from(40)) == b""


def test_dispatching_an_already_indexed_record_changes_nothing(world: World) -> None:
    queue = filled_queue(world, 5)
    queue.put(200, 100, 9, 2)
    queue.put(400, 100, 9, 4)
    with pytest.raises(MisplacedRecordError, match="T/0: expected 5 to "):
        queue.put(900, 100, 9, 3)  # after all records, but at an index that is already used

    assert offsets(queue) == [0, 100, 200, 300, 400]


def test_missing_queue_entries_become_blank_across_files(world: World) -> None:
    queue = filled_queue(world, 3)
    queue.put(5000, 100, 0, 22)

    assert offsets(queue) == [0, 100, 200, *[-1] * 19, 5000]
    assert queue.min_offset == 0


def test_a_queue_begins_in_the_file_that_contains_its_first_index(world: World) -> None:
    queue = queue_of(world)
    queue.put(5000, 100, 0, 22)

    assert [segment.base_offset for segment in queue.queue.segments] == [20 * ENTRY_BYTES]
    assert (queue.min_offset, queue.max_offset) == (22, 23)
    assert offsets(queue) == [-1, -1, 5000]


@pytest.mark.parametrize("log_begin", [0, 1, 750, 900, 901, 1050, 1400, 1401, 5000])
def test_the_min_offset_of_a_queue_is_its_first_entry_with_a_record_in_the_log(world: World, log_begin: int) -> None:
    queue = filled_queue(world, 15)
    queue.correct_min_offset(log_begin)
    left = [number for number in range(15) if number * 100 >= log_begin]
    assert queue.min_offset == min(left, default=15)


def test_a_queue_with_a_file_but_no_entries_begins_at_its_next_entry(world: World) -> None:
    queue_of(world).put(5000, 100, 0, 22)
    queue = queue_of(world)
    queue.queue.load()
    queue.truncate(20)
    queue.set_recovered_end(20, 20)
    queue.correct_min_offset(5000)
    assert (queue.min_offset, queue.max_offset) == (20, 20)

    queue.put(5000, 100, 0, 22)
    assert (queue.min_offset, queue.max_offset) == (22, 23)


def test_a_queue_whose_first_entry_is_being_written_begins_at_that_entry(world: World) -> None:
    queue = queue_of(world)
    queue.min_logic_offset = 22 * ENTRY_BYTES
    queue.queue.create(20 * ENTRY_BYTES)  # as retention may find the queue during a put
    queue.correct_min_offset(5000)

    assert queue.min_offset == 22


def test_placing_entries_counts_and_writes_only_changed_ones(world: World, bench: Any) -> None:
    queue = filled_queue(world, 12)
    before = len([call for call in bench.failures.calls if call[0] == "store"])
    same = b"".join(encode_entry(number * 100, 100, number) for number in range(8, 12))

    assert queue.overwrite_entries(8, same) == 0
    assert len([call for call in bench.failures.calls if call[0] == "store"]) == before
    assert queue.overwrite_entries(8, same + BLANK_ENTRY_BYTES * 10) == 10 + 2  # entries are counted per segment
    queue.set_recovered_end(22, 0)
    assert offsets(queue) == [*range(0, 1200, 100), *[-1] * 10]


def test_a_recovered_queue_has_its_durable_end_and_last_indexed_record(world: World) -> None:
    queue = filled_queue(world, 25)
    queue.max_physical_offset = -1
    queue.truncate(13)
    queue.set_recovered_end(13, 11)

    assert queue.max_offset == 13
    assert queue.max_physical_offset == 1300
    assert queue.queue.flushed_where.get() == 11 * ENTRY_BYTES
    assert [(s.wrote.get(), s.flushed.get()) for s in queue.queue.segments] == [(200, 200), (60, 20)]


def test_truncation_durably_removes_later_queue_entries(world: World) -> None:
    queue = filled_queue(world, 25)
    assert queue.truncate(12)
    assert not queue.truncate(12)
    assert offsets(queue) == [number * 100 for number in range(12)]
    assert queue.entry(13) == (0, 0, 0)
    assert world.files.list_directory(queue.queue.directory) == ["00000000000000000000", "00000000000000000200"]


def test_truncation_before_the_first_queue_file_keeps_it_empty_to_preserve_the_offset(world: World) -> None:
    queue = queue_of(world)
    queue.put(5000, 100, 0, 22)

    assert queue.truncate(7)
    assert not queue.truncate(7)
    assert (queue.min_offset, queue.max_offset) == (20, 20)
    assert world.files.list_directory(queue.queue.directory) == [f"{20 * ENTRY_BYTES:020d}"]

    assert queue.remove_all_segments()
    assert not queue.remove_all_segments()
    assert (queue.min_offset, queue.max_offset) == (0, 0)
    assert world.files.list_directory(queue.queue.directory) == []


# The table


def table_of(world: World) -> ConsumeQueueTable:
    return ConsumeQueueTable(world, "/store/consumequeue", PER_SEGMENT * ENTRY_BYTES)


def test_a_queue_table_creates_each_queue_once_and_lists_all_in_order(world: World) -> None:
    table = table_of(world)
    assert table.find("T", 0) is None
    for topic, queue_id in (("U", 0), ("T", 10), ("T", 9), ("T", 9)):
        assert table.find_or_create(topic, queue_id) is table.find(topic, queue_id)

    assert [(queue.topic, queue.queue_id) for queue in table.all_queues()] == [("T", 9), ("T", 10), ("U", 0)]
    assert not world.files.status("/store/consumequeue")  # in memory only


def test_a_directory_synced_while_a_file_is_created_is_synced_again(world: World, bench: Any) -> None:
    table = table_of(world)
    queue = table.find_or_create("T", 0)
    for number in range(PER_SEGMENT):
        queue.put(number * 100, 100, 0, number)
    meet = bench.failures.meet

    def sync_before_the_map(method: str, path: str) -> None:
        meet(method, path)
        if method == "map":
            bench.failures.meet = meet
            table.make_durable()

    bench.failures.meet = sync_before_the_map
    queue.put(PER_SEGMENT * 100, 100, 0, PER_SEGMENT)
    bench.failures.calls.clear()
    table.make_durable()

    assert ("sync_directory", "/store/consumequeue/T/0") in bench.failures.calls


def test_only_new_files_have_their_directories_synced(world: World, bench: Any) -> None:
    def synced() -> list[str]:
        found = [path for method, path in bench.failures.calls if method == "sync_directory"]
        bench.failures.calls.clear()
        return found

    table = table_of(world)
    table.find_or_create("T", 0).put(0, 100, 0, 0)
    table.find_or_create("T", 1)
    table.make_durable()
    assert synced() == ["/store/consumequeue/T/0", "/store/consumequeue/T", "/store/consumequeue"]

    table.find_or_create("T", 0).put(100, 100, 0, 1)
    table.make_durable()
    assert synced() == []

    for number in range(2, 12):
        table.find_or_create("T", 0).put(number * 100, 100, 0, number)
    table.make_durable()
    assert "/store/consumequeue/T/0" in synced()
    assert table.find_or_create("T", 0).queue.flushed_where.get() == 12 * ENTRY_BYTES


@pytest.mark.parametrize(
    ("path", "field"),
    [("/store/consumequeue/T/0", "queueId"), ("/store/consumequeue/T/0/00000000000000000010", "file name")],
)
def test_a_file_in_place_of_a_queue_or_of_wrong_size_is_refused(path: str, field: str, world: World) -> None:
    world.files.make_directories(path.rpartition("/")[0])
    world.files.write(path, b"foreign")
    with pytest.raises(CorruptFileError) as raised:
        table_of(world).load()
    assert raised.value.field == field
    assert path == raised.value.file


def test_foreign_files_among_the_queues_are_reported_and_kept(world: World) -> None:
    unknown_entries = {
        "/store/consumequeue/file": "topic",
        "/store/consumequeue/T/zero/00000000000000000000": "queueId",
        "/store/consumequeue/T/007/00000000000000000000": "queueId",
        "/store/consumequeue/T/2147483648/00000000000000000000": "queueId",
        "/store/consumequeue/T/0/notes.txt": "file name",
        "/store/consumequeue/T/0/lost+found/x": "file name",
    }
    filled_queue(world, 3)
    for path in unknown_entries:
        world.files.make_directories(path.rpartition("/")[0])
        world.files.write(path, b"stray")
    table = table_of(world)
    told = table.load()
    assert sorted(error.field for error in told) == sorted(unknown_entries.values())
    assert all(any(path.startswith(error.file) for path in unknown_entries) for error in told)
    assert [(queue.topic, queue.queue_id) for queue in table.all_queues()] == [("T", 0)]
    assert not table.lost_entries
    for path in unknown_entries:
        assert world.files.read(path) == b"stray"


@pytest.mark.parametrize("size_bytes", [0, 1, 50, 199])
def test_a_short_queue_file_of_zeros_is_removed_with_all_later_ones(size_bytes: int, world: World) -> None:
    filled_queue(world, 5)
    path = "/store/consumequeue/T/0/00000000000000000200"
    world.files.write(path, bytes(size_bytes))
    table = table_of(world)
    assert table.load() == []
    assert not table.lost_entries
    assert len(table.find_or_create("T", 0).queue.segments) == 1
    assert world.files.status(path) is None


def test_a_short_queue_file_with_entries_is_extended_and_requests_a_scan_of_the_whole_log(world: World) -> None:
    filled_queue(world, 15)
    path = "/store/consumequeue/T/0/00000000000000000200"
    kept = world.files.read(path)[:50]
    world.files.write(path, kept)
    table = table_of(world)
    calls: list[str] = []
    assert table.load(before_loss=lambda: calls.append("queues begin again")) == []
    assert calls == ["queues begin again"]
    assert table.lost_entries
    assert world.files.read(path) == kept.ljust(200, b"\0")
    assert [str(one) for one in table.extended] == [f"{path} @ 0: file size: expected 200, found 50"]


def test_a_file_size_that_is_impossible_for_one_queue_changes_no_other_queue(world: World) -> None:
    for topic, entries in (("A", 3), ("B", 15)):
        queue = ConsumeQueue(world, f"/store/consumequeue/{topic}/0", 200, topic, 0)
        for number in range(entries):
            queue.put(number * 100, 100, 0, number)
    for size_bytes in (400, 100):
        with pytest.raises(CorruptFileError, match="file"):
            ConsumeQueueTable(world, "/store/consumequeue", size_bytes).load()
        status = world.files.status("/store/consumequeue/A/0/00000000000000000000")
        assert status is not None
        assert status.size_bytes == 200
