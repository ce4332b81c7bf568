from random import Random
from statistics import mean

import pytest

from tornlog.faults.devices.drives import DurationDistribution, FlashDrive, HardDisk, nvme_ssd, sata_ssd
from tornlog.faults.devices.storage import BLOCK_BYTES
from tornlog.sim.choices import Choices

TURN_NS = 60_000_000_000 // 7_200


def test_adjacent_blocks_are_written_at_full_speed() -> None:
    took_ns = HardDisk().write(0, [(1_000, 25_600)])

    assert 25_600 * BLOCK_BYTES / took_ns * 1e9 == pytest.approx(200e6, rel=0.05)


def test_a_block_that_just_passed_the_head_costs_a_full_rotation() -> None:
    disk = HardDisk()
    first_ns = disk.write(0, [(0, 1)])

    assert disk.write(first_ns, [(1, 1)]) - first_ns == pytest.approx(TURN_NS, rel=0.03)


def test_a_random_block_costs_a_seek_and_half_a_rotation_on_average() -> None:
    disk, random, now_ns, took = HardDisk(), Random(1), 0, []
    for _ in range(2_000):
        done_ns = disk.read(now_ns, (random.randrange(disk.blocks), 1))
        took.append(done_ns - now_ns)
        now_ns = done_ns

    assert 11e6 < mean(took) < 15e6  # 75 reads a second, as on real drives


def test_longer_seeks_take_more_time() -> None:
    def seek_ns(block: int) -> int:
        return HardDisk()._seek_ns(block)

    assert seek_ns(10) == 0
    assert 500_000 < seek_ns(1_000) < seek_ns(1 << 20) < seek_ns(1 << 29) < 20_000_000


def test_a_request_waits_for_the_one_before_it() -> None:
    disk = HardDisk()
    first_ns = disk.write(0, [(0, 100)])

    assert disk.flush(0) == first_ns
    assert disk.write(0, [(5_000, 1)]) > first_ns


def drive() -> FlashDrive:
    flush = DurationDistribution([1_000])
    return FlashDrive(Choices("1").stream("d"), command_ns=10, bytes_per_second=BLOCK_BYTES * 10**9, flush=flush)


def test_a_flash_write_takes_command_time_and_transfer_time() -> None:
    assert drive().write(0, [(0, 5), (9, 1)]) == 2 * 10 + 6 * 1
    assert drive().read(7, (0, 5)) == 7 + 10 + 5


def test_a_flush_without_writes_takes_no_time() -> None:
    flash = drive()

    assert flash.flush(5) == 5
    written_ns = flash.write(5, [(0, 1)])
    assert flash.flush(written_ns) == written_ns + 1_000
    assert flash.flush(written_ns + 1_000) == written_ns + 1_000


def test_flash_requests_do_not_overlap() -> None:
    flash = drive()

    assert flash.write(0, [(0, 1)]) == 11
    assert flash.write(0, [(1, 1)]) == 22


def test_long_sequential_reads_have_the_bandwidth_of_data_sheets() -> None:
    blocks = (1 << 30) // BLOCK_BYTES
    stream = Choices("1").stream("d")

    assert (1 << 30) / sata_ssd(stream).read(0, (0, blocks)) == pytest.approx(0.5, rel=0.01)  # GB/s
    assert (1 << 30) / nvme_ssd(stream).read(0, (0, blocks)) == pytest.approx(2.5, rel=0.01)


def test_drawn_durations_have_the_measured_distribution() -> None:
    spread, stream = DurationDistribution([30, 10, 20, 10]), Choices("1").stream("disk")
    drawn = [spread.draw(stream, "sync") for _ in range(4_000)]

    assert set(drawn) == {10, 20, 30}
    assert drawn.count(10) == pytest.approx(2_000, rel=0.1)


def test_the_default_draw_is_the_shortest_duration() -> None:
    assert DurationDistribution([30, 10, 20]).draw(Choices.for_replay([]).stream("disk"), "sync") == 10


def test_a_spread_passes_through_its_points() -> None:
    spread = DurationDistribution.from_points([(0.0, 100), (0.5, 200), (0.99, 1_000), (1.0, 5_000)])

    assert spread.quantile(0.5) == pytest.approx(200, rel=0.01)
    assert spread.quantile(0.25) == pytest.approx(150, rel=0.01)
    assert spread.quantile(0.99) == pytest.approx(1_000, rel=0.25)  # the distribution is steep at this point
    assert 4_500 < spread.quantile(1.0) <= 5_000


@pytest.mark.parametrize(
    "points", [[(0.0, 1), (0.9, 2)], [(0.1, 1), (1.0, 2)], [(0.0, 1), (0.5, 2), (0.5, 3), (1.0, 4)]]
)
def test_points_that_are_not_a_distribution_are_refused(points: list[tuple[float, int]]) -> None:
    with pytest.raises(ValueError, match="shares"):
        DurationDistribution.from_points(points)


@pytest.mark.parametrize("durations", [[], [-1, 5]])
def test_an_empty_or_negative_spread_is_refused(durations: list[int]) -> None:
    with pytest.raises(ValueError, match="durations"):
        DurationDistribution(durations)


def test_a_scaled_spread_multiplies_every_quantile() -> None:
    assert DurationDistribution([10, 20]).scaled(1.5).ns == (15, 30)
