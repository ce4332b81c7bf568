"""A full disk: puts are refused, no message is lost, and puts succeed when space returns."""

from typing import Any

import pytest

from tests.store.rigs import Make
from tornlog.faults.disk.image import Image
from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.running_flags import RefusalReason
from tornlog.store.world import World

from .conftest import body_of

SYNC = FlushDiskType.SYNC_FLUSH


def put_until_refused(found: Any, first: int) -> tuple[int, PutMessageStatus]:
    """Put messages until one is refused; return its number and the answer."""
    for number in range(first, first + 1000):
        status = found.store.put_message(Message.create("T", body_of(number), keys=f"k{number}")).status
        if status is not PutMessageStatus.PUT_OK:
            return number, status
    raise AssertionError("never refused")


@pytest.mark.parametrize("flush", FlushDiskType)
def test_a_put_is_refused_on_a_full_disk_and_accepted_when_space_returns(
    world: World, bench: Any, shop: Make, short: Make, flush: FlushDiskType
) -> None:
    config = short(flush_disk_type=flush, disk_space_warning_level_ratio=1.0)
    found = shop(world, config).start().put(range(2)).settle()
    bench.disk.capacity_bytes = world.files.space("/store").used_bytes + 1500
    refused_at, status = put_until_refused(found, 2)
    assert status is PutMessageStatus.CREATE_MAPEDFILE_FAILED
    assert put_until_refused(found, refused_at) == (refused_at, status)
    assert bench.disk.injected["disk full"] > 0
    assert found.settle().bodies(0) == list(range(refused_at))

    bench.disk.capacity_bytes = 1 << 30
    found.put(range(refused_at, refused_at + 20))
    assert found.settle().bodies(0) == list(range(refused_at + 20))
    assert found.store.flags.bits == 0
    assert found.store.shutdown()
    assert shop(world, config).bodies(0) == list(range(refused_at + 20))


def test_queue_files_are_created_once_a_full_disk_has_space_again(world: World, bench: Any, shop: Make) -> None:
    found = shop(world, message_index_enable=False, disk_space_warning_level_ratio=1.0).start()
    found.put(range(1), "First").settle()
    bench.disk.capacity_bytes = world.files.space("/store").used_bytes
    put = found.store.put_message(Message.create("T", body_of(1)))
    assert put.status is PutMessageStatus.PUT_OK  # there is space for the log, but not for its queue
    world.tasks.sleep(300_000)
    assert found.store.dispatch.behind_bytes > 0
    assert found.store.flags.bits == 0

    bench.disk.capacity_bytes = None
    world.tasks.sleep(2_000)
    assert found.bodies(0) == [1]
    assert found.put(range(2, 30)).settle().bodies(0) == list(range(1, 30))
    assert found.store.shutdown()


def test_a_failed_start_on_a_full_disk_changes_no_message(lab: Make, shop: Make) -> None:
    bench = lab()

    def body(world: World) -> None:
        found = shop(world).start().put(range(7)).settle()
        assert found.store.shutdown()

    bench.run(body)
    bench = lab(bench.switch_off())
    bench.disk.capacity_bytes = 1

    def full(world: World) -> None:
        with pytest.raises(OSError, match="No space left on device"):
            shop(world).start()

    bench.run(full)
    image = bench.switch_off(abruptly=True)

    def again(world: World) -> None:
        found = shop(world).start()
        assert found.put(range(7, 9)).settle().bodies(0) == list(range(9))

    lab(image).run(again)


COUNT = 40


def written(lab: Make, shop: Make, config: StoreConfig, *lost: str) -> Image:
    """Return the disk of a store with COUNT messages that was stopped, without the files of some paths."""
    bench = lab()
    assert bench.run(lambda world: shop(world, config).start().put(range(COUNT)).settle().store.shutdown())
    image = bench.switch_off()
    files = {path: file for path, file in image.files.items() if not any(text in path for text in lost)}
    return Image(files, image.directories)


LAST_FILE, QUEUES, INDEX = "consumequeue/T/0/00000000000000000600", "/consumequeue/", "/index/"


@pytest.mark.parametrize("lost", [(LAST_FILE,), (QUEUES,), (INDEX,), (LAST_FILE, INDEX), (QUEUES, INDEX)])
@pytest.mark.parametrize("flush", FlushDiskType)
def test_a_store_opens_on_a_full_disk_and_builds_queues_and_index_once_space_returns(
    lab: Make, shop: Make, short: Make, flush: FlushDiskType, lost: tuple[str, ...]
) -> None:
    config = short(flush_disk_type=flush, disk_space_warning_level_ratio=0.9)
    bench = lab(written(lab, shop, config, *lost))

    def full(world: World) -> None:
        bench.disk.capacity_bytes = world.files.space("/store").used_bytes + 64
        found = shop(world, config)
        assert isinstance(found.report.lacks_room, OSError)
        assert found.report.dispatched_to < found.report.end_offset
        assert found.store.flags.bits & RefusalReason.DISK_FULL
        found.start()
        visible = found.bodies(0)
        assert visible == list(range(len(visible)))
        assert (len(visible) < COUNT) == (lost[0] != INDEX)
        put = found.store.put_message(Message.create("T", body_of(COUNT)))
        assert put.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        world.tasks.sleep(20_000)
        assert found.store.flags.bits & RefusalReason.DISK_FULL

        bench.disk.capacity_bytes = None
        world.tasks.sleep(15_000)
        assert found.store.flags.bits == 0
        assert found.bodies(0) == list(range(COUNT))
        assert found.put(range(COUNT, COUNT + 3)).settle().bodies(0) == list(range(COUNT + 3))
        for number in range(COUNT + 3):
            assert len(found.store.query_message("T", f"k{number}", 32, 0, 1 << 60).records) == 1, number
        assert found.store.shutdown()

    bench.run(full)
    lab(bench.switch_off()).run(lambda world: bodies_of(shop(world, config), COUNT + 3))


def bodies_of(found: Any, count: int) -> None:
    assert found.report.lacks_room is None
    assert found.bodies(0) == list(range(count))


@pytest.mark.parametrize("dies_before_start", [True, False])
def test_after_a_load_on_a_full_disk_the_checkpoint_covers_no_queue(
    lab: Make, shop: Make, short: Make, *, dies_before_start: bool
) -> None:
    config = short(recover_whole_log=False)
    bench = lab(written(lab, shop, config, LAST_FILE))

    def full(world: World) -> None:
        bench.disk.capacity_bytes = world.files.space("/store").used_bytes + 64
        found = shop(world, config)
        assert found.report.lacks_room is not None
        if not dies_before_start:
            found.start()
            world.tasks.sleep(20_000)
            assert not found.store.shutdown()

    bench.run(full)
    lab(bench.switch_off(abruptly=True)).run(lambda world: bodies_of(shop(world, config), COUNT))


def test_a_put_after_a_load_on_a_full_disk_continues_the_queue_offsets(lab: Make, shop: Make, short: Make) -> None:
    config = short()
    bench = lab(written(lab, shop, config, LAST_FILE))

    def full(world: World) -> None:
        bench.disk.capacity_bytes = world.files.space("/store").used_bytes + 64
        found = shop(world, config).start()
        bench.disk.capacity_bytes = None
        found.store.flags.clear_refusal(RefusalReason.DISK_FULL)
        append = found.store.put_message(Message.create("T", body_of(COUNT))).append
        assert append is not None
        assert append.queue_offset == COUNT

    bench.run(full)


def test_retention_frees_space_after_a_load_on_a_full_disk(lab: Make, shop: Make, short: Make) -> None:
    config = short(disk_space_warning_level_ratio=0.9, clean_file_forcibly_enable=True)
    bench = lab(written(lab, shop, config, LAST_FILE))

    def full(world: World) -> None:
        bench.disk.capacity_bytes = world.files.space("/store").used_bytes + 64
        found = shop(world, config)
        assert found.report.lacks_room is not None
        found.start()
        world.tasks.sleep(300_000)
        assert found.store.flags.bits == 0
        found.put(range(COUNT, COUNT + 3)).settle()
        first = found.store.get_min_offset_in_queue("T", 0)
        assert first > 0
        assert found.bodies(first) == list(range(first, COUNT + 3))
        assert found.store.shutdown()

    bench.run(full)
