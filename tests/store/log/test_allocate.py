from typing import Any

import pytest

from tests.one_life import with_settings
from tests.store.rigs import Make, started
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.message_store import MessageStore
from tornlog.store.world import World

BODY = bytes(400)  # two messages fill a segment


def log_files(image: Any) -> list[int]:
    return [int(path.rpartition("/")[2]) for path in image.files if path.startswith("/store/commitlog/")]


@pytest.mark.parametrize("step", ["map", "sync", "sync_directory"])
def test_a_put_without_a_next_segment_is_refused_and_a_later_put_is_stored(step: str, lab: Make, small: Make) -> None:
    bench = lab()
    bench.failures.plan(step, "commitlog")

    def body(world: World) -> None:
        store = started(world, small())
        refused = store.put_message(Message.create("T", BODY))
        stored = store.put_message(Message.create("T", BODY))

        assert refused.status is PutMessageStatus.CREATE_MAPEDFILE_FAILED
        assert refused.append is None
        assert stored.status is PutMessageStatus.PUT_OK
        assert stored.append is not None
        assert (stored.append.wrote_offset, stored.append.queue_offset) == (0, 0)
        assert store.shutdown()

    bench.run(body)
    assert log_files(bench.switch_off()) == [0]


@pytest.mark.parametrize("step", ["map", "sync", "sync_directory"])
def test_no_further_segment_is_created_after_a_failed_creation(step: str, lab: Make, small: Make) -> None:
    bench = lab()
    bench.failures.plan(step, "commitlog")

    def body(world: World) -> None:
        store = started(world, small())
        refused = store.put_message(Message.create("T", BODY))
        assert refused.status is PutMessageStatus.CREATE_MAPEDFILE_FAILED
        world.tasks.sleep(1)  # enough time to create the following segment

    bench.run(body)
    image = bench.switch_off()
    assert log_files(image) == []

    def again(world: World) -> None:
        store = started(world, small())
        assert (store.log.min_offset, store.max_phy_offset) == (-1, 0), "a log that never held anything is empty"
        store.close()

    lab(image).run(again)


@pytest.mark.parametrize("step", ["map", "sync", "sync_directory"])
def test_a_failed_creation_of_the_following_segment_is_retried_when_a_put_needs_it(
    step: str, lab: Make, small: Make
) -> None:
    bench = lab()

    def body(world: World) -> None:
        store = started(world, small())
        store.commit_log.queue.add(store.allocate.make_segment(0))
        bench.failures.plan(step, "commitlog/00000000000000002048" if step != "sync_directory" else "commitlog")
        answers = []
        for _ in range(12):
            answers.append(store.put_message(Message.create("T", BODY)).status)
            world.tasks.sleep(1)
        refused = answers.count(PutMessageStatus.CREATE_MAPEDFILE_FAILED)
        assert answers.count(PutMessageStatus.PUT_OK) == 12 - refused
        assert refused <= 1
        assert store.get_max_offset_in_queue("T", 0) == 12 - refused
        assert store.shutdown()

    bench.run(body)
    image = bench.switch_off()

    def again(world: World) -> None:
        store = MessageStore(world, small())
        report = store.load()
        assert report.findings == []
        assert store.max_phy_offset > 5 * 1024

    lab(image).run(again)


@with_settings(timing=SyncTiming(3_000_000_000, 3_000_000_000))
def test_a_put_waits_five_seconds_for_its_segment_and_a_later_put_uses_it(
    world: World, bench: Any, small: Make
) -> None:
    store = started(world, small(flush_disk_type=FlushDiskType.ASYNC_FLUSH))
    begin_ns = world.clock.monotonic_ns()
    early = store.put_message(Message.create("T", BODY))
    assert early.status is PutMessageStatus.CREATE_MAPEDFILE_FAILED
    assert world.clock.monotonic_ns() - begin_ns == 5_000_000_000
    late = store.put_message(Message.create("T", BODY))
    assert late.status is PutMessageStatus.PUT_OK
    assert world.clock.monotonic_ns() - begin_ns == 6_000_000_000
    made = [call for call in bench.failures.calls if call == ("map", "/store/commitlog/00000000000000000000")]
    assert len(made) == 1


def first_record(lab: Make, small: Make) -> bytes:
    """Return the bytes of a log that has one record."""

    def body(world: World) -> bytes:
        master = started(world, small())
        assert master.put_message(Message.create("T", BODY)).append is not None
        found = bytes(master.log.segments[0].file.view(0, master.log.max_offset))
        assert master.shutdown()
        return found

    return bytes(lab().run(body))


def slave_with_unused_file(world: World, config: StoreConfig) -> MessageStore:
    """Return a slave with a segment from an abandoned beginning."""
    store = started(world, config)
    unused = store.allocate.take_segment(0)
    assert unused is not None
    store.log.add(unused)
    world.tasks.sleep(1)  # the following segment is created too
    return store


@pytest.mark.parametrize("step", ["", "unlink", "sync_directory"])
def test_a_slave_that_starts_at_a_later_offset_removes_earlier_files(step: str, lab: Make, small: Make) -> None:
    bench, record = lab(), first_record(lab, small)

    def follow(world: World) -> None:
        store = slave_with_unused_file(world, small())
        if step:
            bench.failures.plan(step, "commitlog")
            with pytest.raises(OSError, match="commitlog"):
                store.commit_log.append_replicated(5 * 1024, record, 1)
        assert store.commit_log.append_replicated(5 * 1024, record, 1)
        assert sorted(world.files.list_directory("/store/commitlog"))[0] == f"{5 * 1024:020}"
        store.close()

    bench.run(follow)


def test_a_slave_removes_the_file_that_a_failed_creation_and_a_failed_removal_left(lab: Make, small: Make) -> None:
    bench, record = lab(), first_record(lab, small)

    def follow(world: World) -> None:
        store = started(world, small())
        for step in ("sync", "unlink"):
            bench.failures.plan(step, "commitlog")
        assert store.allocate.take_segment(0) is None
        assert world.files.list_directory("/store/commitlog")[:1] == [f"{0:020}"]
        assert store.commit_log.append_replicated(5 * 1024, record, 1)
        assert sorted(world.files.list_directory("/store/commitlog"))[0] == f"{5 * 1024:020}"
        store.close()

    bench.run(follow)


@pytest.mark.parametrize("step", ["unlink", "sync_directory"])
def test_a_slave_never_writes_into_an_unlinked_file_after_a_failed_removal(step: str, lab: Make, small: Make) -> None:
    bench, record = lab(), first_record(lab, small)

    def follow(world: World) -> None:
        store = slave_with_unused_file(world, small())
        bench.failures.plan(step, "commitlog")
        with pytest.raises(OSError, match="commitlog"):
            store.commit_log.append_replicated(5 * 1024, record, 1)
        assert store.commit_log.append_replicated(0, record, 1)  # from another master, whose log begins there
        assert world.files.read("/store/commitlog/00000000000000000000").startswith(record)
        assert store.shutdown()

    bench.run(follow)


def test_a_new_segment_contains_no_bytes_of_a_leftover_file(world: World, small: Make) -> None:
    store = started(world, small())
    world.files.write("/store/commitlog/00000000000000000000", b"\xff" * 1024)
    store.put_message(Message.create("T", b"x"))
    segment = store.log.segments[0]
    assert bytes(segment.file.view(segment.wrote.get(), 1024)).count(0) == 1024 - segment.wrote.get()


@pytest.mark.parametrize("step", ["unlink", "sync_directory"])
def test_an_unused_segment_that_cannot_be_removed_is_tolerated(step: str, lab: Make, small: Make) -> None:
    bench = lab()

    def body(world: World) -> None:
        store = started(world, small())
        store.put_message(Message.create("T", BODY))
        world.tasks.sleep(1)
        bench.failures.plan(step, "commitlog")
        assert store.shutdown()

    bench.run(body)
    image = bench.switch_off()
    assert "/store/abort" not in image.files

    def again(world: World) -> None:
        store = MessageStore(world, small())
        assert store.load().findings == []
        store.start()
        for _ in range(3):
            assert store.put_message(Message.create("T", BODY)).status is PutMessageStatus.PUT_OK
        assert store.shutdown()

    lab(image).run(again)
