"""A disk without room refuses, loses nothing, and is as good as new when room returns."""

from collections.abc import Callable
from typing import Any

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.store.config import FlushDiskType
from tornlog.store.message import Message, PutMessageStatus
from tornlog.store.running_flags import Refusal
from tornlog.store.world import World

from .conftest import body_of

Make = Callable[..., Any]

SYNC = FlushDiskType.SYNC_FLUSH


def put_until_refused(found: Any, first: int) -> tuple[int, PutMessageStatus]:
    """Put messages until one is refused; return its number and the answer."""
    for number in range(first, first + 1000):
        status = found.store.put_message(Message.of("T", body_of(number), keys=f"k{number}")).status
        if status is not PutMessageStatus.PUT_OK:
            return number, status
    raise AssertionError("never refused")


@pytest.mark.parametrize("flush", FlushDiskType)
def test_a_put_without_room_for_a_segment_is_refused_and_the_next_one_with_room_is_not(
    lab: Make, shop: Make, short: Make, flush: FlushDiskType
) -> None:
    bench = lab()

    def body(world: World) -> None:
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

    bench.run(body)


def test_queue_files_that_find_no_room_for_minutes_are_made_when_it_returns(lab: Make, shop: Make, short: Make) -> None:
    bench = lab()

    def body(world: World) -> None:
        config = short(message_index_enable=False, disk_space_warning_level_ratio=1.0)
        found = shop(world, config).start()
        found.put(range(1), "First").settle()
        bench.disk.capacity_bytes = world.files.space("/store").used_bytes
        put = found.store.put_message(Message.of("T", body_of(1)))
        assert put.status is PutMessageStatus.PUT_OK  # the log has room, its queue has none
        world.tasks.sleep(300_000)
        assert found.store.dispatch.behind_bytes > 0
        assert found.store.flags.bits == 0

        bench.disk.capacity_bytes = None
        world.tasks.sleep(2_000)
        assert found.bodies(0) == [1]
        assert found.put(range(2, 30)).settle().bodies(0) == list(range(1, 30))
        assert found.store.shutdown()

    bench.run(body)


def test_a_full_disk_refuses_and_forced_cleaning_makes_it_write_again(lab: Make, shop: Make, short: Make) -> None:
    bench = lab()

    def body(world: World) -> None:
        found = shop(world, short(flush_disk_type=SYNC)).start().put(range(2)).settle()
        bench.disk.capacity_bytes = world.files.space("/store").used_bytes + 40 * 1024
        refused_at, _ = put_until_refused(found, 2)
        world.tasks.sleep(15_000)
        assert found.store.flags.bits & Refusal.DISK_FULL
        assert found.bodies(0) == list(range(refused_at))
        world.tasks.sleep(90_000)
        assert found.store.flags.bits == 0

        found.put(range(refused_at, refused_at + 10)).settle()
        first = found.store.get_min_offset_in_queue("T", 0)
        assert first > 0
        assert found.bodies(first) == list(range(first, refused_at + 10))
        assert found.store.shutdown()

    bench.run(body)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("spare_bytes", [0, 100, 1024, 3000, 9000])
def test_what_a_store_acknowledged_on_a_full_disk_survives_its_crash(
    lab: Make, shop: Make, short: Make, profile: str, spare_bytes: int
) -> None:
    bench = lab()
    config = short(flush_disk_type=SYNC, disk_space_warning_level_ratio=1.0)

    def body(world: World) -> int:
        found = shop(world, config).start().put(range(2)).settle()
        bench.disk.capacity_bytes = world.files.space("/store").used_bytes + spare_bytes
        refused_at, _ = put_until_refused(found, 2)
        world.tasks.sleep(5_000)
        return refused_at

    acknowledged = bench.run(body)
    bench.kernel.kill(bench.machine)
    image = bench.disk.crash(PROFILES[profile])

    def again(world: World) -> None:
        found = shop(world, config).start()
        assert found.bodies(0)[:acknowledged] == list(range(acknowledged))
        found.put(range(acknowledged, acknowledged + 3)).settle()
        assert found.bodies(0)[-3:] == list(range(acknowledged, acknowledged + 3))
        assert found.store.shutdown()

    lab(image).run(again)


def test_a_start_on_a_full_disk_fails_with_its_error_and_harms_nothing(lab: Make, shop: Make, short: Make) -> None:
    bench = lab()

    def body(world: World) -> None:
        found = shop(world, short()).start().put(range(7)).settle()
        assert found.store.shutdown()

    bench.run(body)
    bench = lab(bench.switch_off())
    bench.disk.capacity_bytes = 1

    def full(world: World) -> None:
        with pytest.raises(OSError, match="No space left on device"):
            shop(world, short()).start()

    bench.run(full)
    image = bench.switch_off(abruptly=True)

    def again(world: World) -> None:
        found = shop(world, short()).start()
        assert found.put(range(7, 9)).settle().bodies(0) == list(range(9))

    lab(image).run(again)
