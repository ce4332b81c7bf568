"""Queue and index retention: entries are removed after their messages, never before."""

from typing import Any

import pytest

from tests.store.rigs import Make
from tornlog.faults.disk.image import Image
from tornlog.store.formats.consume_queue import BLANK_ENTRY_BYTES
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC
from tornlog.store.formats.half_message import HALF_TOPIC, OP_TOPIC
from tornlog.store.formats.messages import GetMessageStatus, Message, PutMessageStatus
from tornlog.store.world import World


def test_a_queue_file_is_removed_after_its_last_message_expires(world: World, bench: Any, shop: Make) -> None:
    found = shop(world).start().put(range(46)).settle()
    assert found.queue_bases() == [0, 10, 20, 30, 40]
    found.age(2, 9).clean()
    assert found.queue_bases() == [10, 20, 30, 40]
    assert found.store.get_min_offset_in_queue("T", 0) == 18
    assert found.bodies(18) == list(range(18, 46))

    found.age(2, 8).clean()
    assert found.queue_bases() == [30, 40]
    assert found.store.get_min_offset_in_queue("T", 0) == 34
    early = found.store.get_message("T", 0, 33)
    assert (early.status, early.next_begin_offset) == (GetMessageStatus.OFFSET_TOO_SMALL, 34)
    assert (early.min_offset, early.max_offset) == (34, 46)
    assert found.store.shutdown()
    names = [call for call in bench.failures.calls if call[0] == "unlink" and "/T/" in call[1]]
    log = bench.failures.calls.index(("sync_directory", "/store/commitlog"))
    assert log < bench.failures.calls.index(names[0])
    for name in names:
        at = bench.failures.calls.index(name)
        directory, _, base = name[1].rpartition("/")
        following = f"{directory}/{int(base) + 200:020d}"
        before = [("sync", following), ("sync_directory", directory)]
        assert [call for call in bench.failures.calls[:at] if "sync" in call[0]][-2:] == before


def test_after_a_failed_sync_before_a_removal_the_checkpoint_does_not_advance(
    world: World, bench: Any, shop: Make
) -> None:
    found = shop(world).start().put(range(46)).settle()
    bench.failures.plan("sync", "/consumequeue/T/0/")
    found.age(2, 9).clean()
    assert found.queue_bases() == [0, 10, 20, 30, 40]
    before = found.store.checkpoint.logics_msg_timestamp_ms
    found.put(range(46, 50)).settle()
    assert not found.store.shutdown()
    assert isinstance(found.store.flush_queues.last_error, OSError)
    assert found.store.checkpoint.logics_msg_timestamp_ms == before


def test_a_queue_file_that_ends_with_blank_entries_expires_with_its_last_real_entry(world: World, shop: Make) -> None:
    found = shop(world).start().put(range(30)).settle()
    first = found.store.queues.find("T", 0).queue.segments[0].file
    first.store(8 * 20, BLANK_ENTRY_BYTES * 2)
    found.age(2, 2).clean()
    assert found.store.get_min_offset_in_queue("T", 0) == 4
    assert found.queue_bases() == [0, 10, 20]
    assert found.bodies(4)[:4] == [4, 5, 6, 7]

    found.age(2, 2).clean()
    assert found.queue_bases() == [10, 20]


def test_cleaning_expired_queues_keeps_a_queue_with_an_invalid_newest_entry(world: World, shop: Make) -> None:
    found = shop(world).start().put(range(14), "Old").put(range(14, 20)).settle()
    newest = found.store.queues.find("Old", 0).queue.segments[-1]
    newest.file.store(3 * 20, bytes(20))
    found.store.clean_expired_consumer_queue()
    assert found.queue_bases("Old") == [0, 10]


def test_a_queue_of_expired_messages_keeps_its_last_file_and_counter(world: World, shop: Make) -> None:
    found = shop(world).start().put(range(14), "Old").put(range(14, 20)).settle()
    found.age(2, 8).clean()
    assert found.queue_bases("Old") == [10]
    assert found.store.get_min_offset_in_queue("Old", 0) == 14
    assert found.store.get_max_offset_in_queue("Old", 0) == 14
    early = found.store.get_message("Old", 0, 12)
    assert (early.status, early.next_begin_offset) == (GetMessageStatus.OFFSET_TOO_SMALL, 14)
    assert found.store.get_message("Old", 0, 14).status is GetMessageStatus.OFFSET_OVERFLOW_ONE

    found.put(range(20, 22), "Old").settle()
    assert found.bodies(14, "Old") == [20, 21]
    assert found.store.shutdown()
    again = shop(world)
    assert again.bodies(14, "Old") == [20, 21]
    assert again.store.get_min_offset_in_queue("Old", 0) == 14


@pytest.mark.parametrize("method", ["unlink", "sync_directory"])
def test_a_failed_removal_does_not_stop_the_cleaning_of_other_queues(
    world: World, bench: Any, shop: Make, method: str
) -> None:
    found = shop(world).start()
    for number in range(12):
        found.put(range(number, number + 1), "A").put(range(number, number + 1), "B")
    found.settle()
    bench.failures.plan(method, "consumequeue/A")
    found.age(2, 10).clean()
    assert found.queue_bases("B") == [10]
    assert found.store.get_min_offset_in_queue("B", 0) == 10
    assert len(found.store.queues.find_or_create("A", 0).queue.segments) == 2
    assert isinstance(found.store.retention.last_error, OSError)

    world.tasks.sleep(10_000)
    assert found.queue_bases("A") == [10]
    assert found.store.get_min_offset_in_queue("A", 0) == 10


def test_index_files_of_expired_records_are_removed_after_the_log(world: World, shop: Make) -> None:
    found = shop(world).start().put(range(46)).settle()
    files = world.files.list_directory("/store/index")
    found.age(2, 12).clean()

    left = world.files.list_directory("/store/index")
    assert 0 < len(left) < len(files)
    assert left == files[-len(left) :]
    assert found.store.query_message("T", "k3", 32, 0, world.clock.now_ms()).records == []
    assert len(found.store.query_message("T", "k40", 32, 0, world.clock.now_ms()).records) == 1


def test_expire_callbacks_run_once_per_change_and_again_after_an_error(world: World, shop: Make) -> None:
    found = shop(world).start().put(range(12)).settle()
    told: list[int] = []

    def expire(log_min_offset: int) -> None:
        told.append(log_min_offset)
        if len(told) == 1:
            raise OSError("not now")

    found.store.retention.queues.expirers.append(expire)
    found.age(2, 2).clean(ms=35_000)
    assert told == [2048, 2048]
    found.age(2, 1).clean()
    assert told == [2048, 2048, 3072]


def test_cleaning_expired_queues_removes_queues_without_a_message_and_they_restart_at_0(
    world: World, shop: Make
) -> None:
    found = shop(world).start().put(range(14), "Old").put(range(14, 20)).settle()
    found.store.clean_expired_consumer_queue()
    assert found.queue_bases("Old") == [0, 10]  # its messages are still in the log
    found.age(2, 8).clean()

    found.store.clean_expired_consumer_queue()
    assert world.files.list_directory("/store/consumequeue") == ["T"]
    assert found.store.get_min_offset_in_queue("Old", 0) == -1
    assert found.store.get_message("Old", 0, 0).status is GetMessageStatus.NO_MESSAGE_IN_QUEUE
    found.put(range(30, 33), "Old").settle()
    assert found.bodies(0, "Old") == [30, 31, 32]
    assert found.store.shutdown()

    again = shop(world)
    assert again.bodies(0, "Old") == [30, 31, 32]
    assert again.bodies(found.store.get_min_offset_in_queue("T", 0)) == list(range(16, 20))


def test_cleaning_expired_queues_keeps_a_queue_with_an_undispatched_message(world: World, shop: Make) -> None:
    found = shop(world).start().put(range(14), "Old").put(range(14, 20)).settle()
    found.age(2, 8).clean()
    dispatch = found.store.dispatch.dispatchers[0]
    held = world.tasks.signal("held")

    def hold(record: Any) -> None:
        held.wait(None)
        dispatch(record)

    found.store.dispatch.dispatchers[0] = hold
    put = found.store.put_message(Message.create("Old", b"late"))
    assert put.status is PutMessageStatus.PUT_OK
    found.store.clean_expired_consumer_queue()
    assert found.queue_bases("Old") == [10]
    held.notify()
    world.tasks.sleep(100)
    assert found.store.get_max_offset_in_queue("Old", 0) == 15
    assert found.store.get_message("Old", 0, 14).status is GetMessageStatus.FOUND


def test_a_put_during_the_removal_of_its_queue_starts_a_new_queue_and_can_be_pulled(
    world: World, shop: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = shop(world).start().put(range(14), "Old").put(range(14, 20)).settle()
    found.age(2, 8).clean()
    queues, tasks = found.store.queues, []
    forget = queues.forget_queue

    def put_and_wait(queue: Any) -> None:
        tasks.append(world.tasks.spawn("put", lambda: found.put(range(30, 31), "Old")))
        world.tasks.sleep(50)  # the put waits, otherwise it would be dispatched to the removed queue
        forget(queue)

    monkeypatch.setattr(queues, "forget_queue", put_and_wait)
    found.store.clean_expired_consumer_queue()
    tasks[0].join(None)
    found.settle()
    assert found.bodies(0, "Old") == [30]


def test_cleaning_expired_queues_keeps_a_queue_that_gets_a_message_during_the_check(
    world: World, shop: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = shop(world).start().put(range(14), "Old").put(range(14, 20)).settle()
    found.age(2, 8).clean()
    queue = found.store.queues.find("Old", 0)
    entry = queue.entry

    def put_behind(offset: int) -> Any:
        newest = entry(offset)
        monkeypatch.setattr(queue, "entry", entry)
        found.put(range(30, 31), "Old").settle()
        return newest

    monkeypatch.setattr(queue, "entry", put_behind)
    found.store.clean_expired_consumer_queue()
    assert found.bodies(14, "Old") == [30]


@pytest.mark.parametrize("topic", [SCHEDULE_TOPIC, HALF_TOPIC, OP_TOPIC])
def test_cleaning_expired_queues_keeps_queues_with_externally_stored_offsets_or_without_files(
    world: World, shop: Make, topic: str
) -> None:
    found = shop(world).start().put(range(20)).settle()
    found.store.queues.find_or_create("Asked", 0)
    numbered = found.store.queues.find_or_create(topic, 0)
    numbered.put(0, 100, 0, 0)
    found.age(2, 8).clean()
    found.store.clean_expired_consumer_queue()

    assert found.store.queues.find("Asked", 0) is not None
    assert found.store.queues.find(topic, 0) is numbered


@pytest.mark.parametrize(("method", "times"), [("unlink", 1), ("unlink", 2), ("sync_directory", 1)])
def test_a_queue_that_cannot_be_removed_keeps_its_queue_offsets(
    world: World, bench: Any, shop: Make, method: str, times: int
) -> None:
    found = shop(world).start().put(range(14), "Old").put(range(14, 20)).settle()
    found.store.retention.queues.remove_expired = lambda: None
    found.age(2, 8).clean()
    for _ in range(times):
        bench.failures.plan(method, "consumequeue/Old")
        with pytest.raises(OSError, match="Input/output error"):
            found.store.clean_expired_consumer_queue()
    assert found.store.get_max_offset_in_queue("Old", 0) == 14
    found.put(range(20, 21), "Old").settle()
    assert found.bodies(14, "Old") == [20]


def test_a_queue_restarts_if_the_removal_of_its_last_file_may_not_be_durable(
    world: World, bench: Any, shop: Make
) -> None:
    found = shop(world).start().put(range(4), "Old").put(range(4, 20)).settle()
    found.store.retention.queues.remove_expired = lambda: None
    found.age(2, 8).clean()
    bench.failures.plan("sync_directory", "consumequeue/Old")
    with pytest.raises(OSError, match="Input/output error"):
        found.store.clean_expired_consumer_queue()
    assert found.store.get_max_offset_in_queue("Old", 0) == 0
    found.put(range(20, 21), "Old").settle()
    assert found.bodies(0, "Old") == [20]
    assert found.store.shutdown()
    assert shop(world).bodies(0, "Old") == [20]


def test_cleaning_expired_queues_removes_the_extension_with_the_queue(world: World, shop: Make, short: Make) -> None:
    config = short(enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=200)
    found = shop(world, config).start().put(range(14), "Old").put(range(14, 20)).settle()
    found.age(2, 8).clean()
    found.store.clean_expired_consumer_queue()
    assert world.files.list_directory("/store/consumequeue") == ["T"]
    assert world.files.list_directory("/store/consumequeue_ext") == ["T"]

    found.put(range(30, 33), "Old").settle()
    assert found.bodies(0, "Old") == [30, 31, 32]
    assert found.store.shutdown()
    assert shop(world, config).bodies(0, "Old") == [30, 31, 32]


def test_stopping_does_not_wait_for_the_cleaning_of_queues(world: World, shop: Make) -> None:
    found = (
        shop(world, delete_consume_queue_files_interval_ms=1_000_000).start().put(range(46)).settle().age(2, 9).clean()
    )
    before_ms = world.clock.now_ms()
    assert found.store.shutdown()
    assert world.clock.now_ms() - before_ms < 1_000
    assert found.queue_bases() == [10, 20, 30, 40]


def test_queues_can_be_listed_while_a_queue_is_removed(world: World, shop: Make) -> None:
    queues = shop(world).store.queues
    made = [queues.find_or_create(topic, 0) for topic in ("B", "A", "C")]
    queues.forget_queue(made[0])
    assert [queue.topic for queue in queues.all_queues()] == ["A", "C"]
    assert queues.find_or_create("B", 0) is not made[0]


@pytest.mark.parametrize("abruptly", [False, True])
@pytest.mark.parametrize("count", [1, 5, 7, 10, 11])
def test_a_queue_begins_where_the_log_does_after_segments_were_deleted_by_hand(
    lab: Make, shop: Make, count: int, *, abruptly: bool
) -> None:
    bench = lab()

    def fill(world: World) -> None:
        found = shop(world).start().put(range(24)).settle()
        assert (found.queue_bases(), found.log_bases()[:12]) == ([0, 10, 20], list(range(12)))
        assert abruptly or found.store.shutdown()

    bench.run(fill)
    image = bench.switch_off(abruptly=abruptly)
    oldest = sorted(path for path in image.files if "/commitlog/" in path)[:count]
    first = 2 * count

    def body(world: World) -> None:
        found = shop(world)
        assert found.report.findings == []
        assert found.store.get_min_offset_in_queue("T", 0) == first
        assert found.store.get_offset_in_queue_by_time("T", 0, 0) == first
        for offset in range(first):
            early = found.store.get_message("T", 0, offset)
            assert (early.status, early.next_begin_offset) == (GetMessageStatus.OFFSET_TOO_SMALL, first)
        for offset in range(first, 24):
            assert found.bodies(offset) == list(range(offset, 24))
        found.start().world.tasks.sleep(80_000)
        assert found.queue_bases() == [base for base in (0, 10, 20) if base + 10 > first]
        assert found.store.get_min_offset_in_queue("T", 0) == first
        assert found.store.shutdown()

    left = {path: file for path, file in image.files.items() if path not in oldest}
    lab(Image(left, image.directories)).run(body)
