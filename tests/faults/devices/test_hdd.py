from random import Random
from statistics import mean

import pytest

from tornlog.faults.devices.hdd import HardDisk
from tornlog.faults.devices.storage import BLOCK_BYTES

TURN_NS = 60_000_000_000 // 7_200


def test_what_lies_side_by_side_is_written_at_the_speed_of_the_platter() -> None:
    took_ns = HardDisk().write(0, [(1_000, 25_600)])

    assert 25_600 * BLOCK_BYTES / took_ns * 1e9 == pytest.approx(200e6, rel=0.05)


def test_a_block_that_has_just_passed_is_a_turn_away() -> None:
    disk = HardDisk()
    first_ns = disk.write(0, [(0, 1)])

    assert disk.write(first_ns, [(1, 1)]) - first_ns == pytest.approx(TURN_NS, rel=0.03)


def test_blocks_anywhere_cost_a_seek_and_half_a_turn_on_average() -> None:
    disk, random, now_ns, took = HardDisk(), Random(1), 0, []
    for _ in range(2_000):
        done_ns = disk.read(now_ns, (random.randrange(disk.blocks), 1))
        took.append(done_ns - now_ns)
        now_ns = done_ns

    assert 11e6 < mean(took) < 15e6  # 75 a second, as such drives do


def test_the_further_the_longer() -> None:
    def seek_ns(block: int) -> int:
        return HardDisk()._seek_ns(block)

    assert seek_ns(10) == 0
    assert 500_000 < seek_ns(1_000) < seek_ns(1 << 20) < seek_ns(1 << 29) < 20_000_000


def test_a_request_waits_for_the_one_before_it() -> None:
    disk = HardDisk()
    first_ns = disk.write(0, [(0, 100)])

    assert disk.flush(0) == first_ns
    assert disk.write(0, [(5_000, 1)]) > first_ns
