"""Disk watermarks: the effect of each of them."""

import errno
from typing import Any, NamedTuple

import pytest

from tests.store.rigs import Make
from tornlog.store.config import StoreConfig
from tornlog.store.errors import is_disk_full
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.real.world import real_world
from tornlog.store.retention.cleaning import DiskWatermark
from tornlog.store.running_flags import RefusalReason, RunningFlags
from tornlog.store.world import World


class Space(NamedTuple):
    used_bytes: int
    usable_bytes: int


class Disks:
    """Files that only report the usage of their disks, each of 1000 bytes."""

    def __init__(self, **used: int) -> None:
        self.used = used

    def space(self, path: str) -> Space:
        used = self.used[path.rpartition("/")[2]]
        if used < 0:
            raise OSError(errno.EIO, "Input/output error", path)
        return Space(used, 1000 - used)


def watermark(disks: Disks, flags: RunningFlags, **settings: Any) -> DiskWatermark:
    return DiskWatermark(disks, StoreConfig("/store", **settings), flags)  # type: ignore[arg-type]


@pytest.fixture
def flags() -> RunningFlags:
    return RunningFlags(real_world().tasks)


@pytest.mark.parametrize(
    ("log", "queues", "delete", "at_once", "full"),
    [
        (10, 10, False, False, False),
        (750, 750, False, False, False),
        (751, 10, True, False, False),  # rounded up to 76 %
        (10, 751, True, False, False),
        (850, 10, True, False, False),
        (851, 10, True, True, False),
        (900, 10, True, True, False),
        (901, 10, True, True, True),
        (10, 901, True, True, True),
        (-1, 10, True, False, False),
        (10, -1, True, False, False),
    ],
)
def test_each_disk_watermark_has_its_effect_for_log_and_queue_disks(
    flags: RunningFlags, log: int, queues: int, delete: bool, at_once: bool, full: bool
) -> None:
    pressure = watermark(Disks(commitlog=log, consumequeue=queues), flags).measure_pressure()

    assert pressure == (delete, at_once)
    assert flags.bits == (RefusalReason.DISK_FULL if full else 0)


def test_of_several_log_disks_the_one_with_the_most_free_space_counts(flags: RunningFlags) -> None:
    disks = Disks(one=990, two=500, consumequeue=10)
    mark = watermark(disks, flags, store_path_commit_log="/one,/two")

    assert mark.measure_pressure() == (False, False)
    disks.used["two"] = 990
    assert mark.measure_pressure() == (True, True)
    assert flags.bits == RefusalReason.DISK_FULL


def test_a_log_disk_of_unknown_usage_does_not_hide_a_full_disk(flags: RunningFlags) -> None:
    disks = Disks(one=-1, two=990, consumequeue=10)

    assert watermark(disks, flags, store_path_commit_log="/one,/two").measure_pressure() == (True, True)
    assert flags.bits == RefusalReason.DISK_FULL


def test_puts_stay_refused_while_the_usage_of_a_disk_is_unknown(flags: RunningFlags) -> None:
    disks = Disks(commitlog=950, consumequeue=10)
    mark = watermark(disks, flags)
    for log, queues, bits in ((950, 10, 16), (-1, -1, 16), (10, -1, 16), (-1, 10, 16), (10, 10, 0)):
        disks.used = {"commitlog": log, "consumequeue": queues}
        mark.measure_pressure()
        assert flags.bits == bits, (log, queues)


def test_disk_full_refusal_ends_below_the_lower_watermark_and_keeps_other_refusals(flags: RunningFlags) -> None:
    disks = Disks(commitlog=950, consumequeue=10)
    mark = watermark(disks, flags)
    flags.add_refusal(RefusalReason.NOT_WRITEABLE)
    for used, bits in ((950, 18), (880, 18), (851, 18), (850, 2), (880, 2), (901, 18), (10, 2)):
        disks.used["commitlog"] = used
        mark.measure_pressure()
        assert flags.bits == bits, used


@pytest.mark.parametrize(("ratio", "limit"), [(5, 100), (100, 950), (60, 600)])
def test_the_deletion_ratio_is_limited_to_10_to_95_percent(flags: RunningFlags, ratio: int, limit: int) -> None:
    disks = Disks(commitlog=limit, consumequeue=0)
    mark = watermark(disks, flags, disk_max_used_space_ratio=ratio, disk_space_clean_forcibly_ratio=0.99)
    assert not mark.measure_pressure().delete
    disks.used["commitlog"] = limit + 1
    assert mark.measure_pressure().delete


@pytest.mark.parametrize(("number", "full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False)])
def test_disk_full_and_quota_errors_are_distinguished_from_others(number: int, full: bool) -> None:
    assert is_disk_full(OSError(number, "x")) == full
    assert not is_disk_full(ValueError(number, "x"))


def test_above_the_highest_watermark_puts_are_refused_and_segments_removed_early(
    world: World, bench: Any, shop: Make
) -> None:
    found = shop(world).start().put(range(40)).settle()
    used = world.files.space("/store").used_bytes
    bench.disk.capacity_bytes = int(used / 0.95)
    world.tasks.sleep(15_000)
    assert found.store.flags.bits == RefusalReason.DISK_FULL
    refused = found.store.put_message(Message.create("T", b"x"))
    assert refused.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert found.bodies(0) == list(range(40))  # messages can still be read
    assert found.log_bases()[0] == 0

    world.tasks.sleep(60_000)  # the first cleaning and its effects
    assert found.log_bases()[0] >= 5
    assert found.store.flags.bits == 0
    assert found.put(range(40, 42)).settle().bodies(38) == [38, 39, 40, 41]
    assert found.store.shutdown()


def test_without_forced_cleaning_no_segment_is_removed_early(world: World, bench: Any, shop: Make) -> None:
    found = shop(world, clean_file_forcibly_enable=False).start().put(range(40)).settle()
    bench.disk.capacity_bytes = int(world.files.space("/store").used_bytes / 0.95)
    world.tasks.sleep(90_000)
    assert found.log_bases()[0] == 0
    found.age(2, 1)
    world.tasks.sleep(15_000)
    assert found.log_bases()[0] == 1  # expired segments are removed at any hour
    assert found.store.flags.bits == RefusalReason.DISK_FULL


def test_dispatch_continues_while_puts_are_refused(world: World, bench: Any, shop: Make) -> None:
    found = shop(world).start().put(range(3))
    found.store.flags.add_refusal(RefusalReason.DISK_FULL)
    assert found.settle().bodies(0) == [0, 1, 2]
    bench.disk.capacity_bytes = 1 << 40
    world.tasks.sleep(15_000)
    assert found.put(range(3, 4)).settle().bodies(0) == [0, 1, 2, 3]


@pytest.mark.parametrize("abruptly", [False, True])
def test_a_store_on_a_full_disk_stops_cleanly_and_measures_again_at_the_next_start(
    lab: Make, shop: Make, abruptly: bool
) -> None:
    bench = lab()

    def body(world: World) -> None:
        found = shop(world).start().put(range(6)).settle()
        bench.disk.capacity_bytes = world.files.space("/store").used_bytes
        world.tasks.sleep(2_000)
        assert found.store.flags.bits == RefusalReason.DISK_FULL
        if not abruptly:
            assert found.store.shutdown()

    bench.run(body)
    image = bench.switch_off(abruptly=abruptly)

    def again(world: World) -> None:
        found = shop(world).start()
        assert found.put(range(6, 7)).settle().bodies(0) == list(range(7))

    lab(image).run(again)
