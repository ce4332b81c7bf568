"""Requests that arrive while a drive is busy."""

from random import Random

import pytest

from tornlog.faults.devices.drives import DurationDistribution, FlashDrive, HardDisk, nvme_ssd, sata_ssd
from tornlog.faults.devices.storage import BLOCK_BYTES
from tornlog.sim.choices import Choices


def test_a_busy_hard_disk_accepts_the_next_request() -> None:
    disk = HardDisk()
    first_ns = disk.write(0, [(0, 100)])

    took_ns = disk.write(first_ns - 100_000, [(100, 100)]) - first_ns

    assert 100 * BLOCK_BYTES / took_ns * 1e9 == pytest.approx(200e6, rel=0.05)


def test_a_hard_disk_reads_ahead_into_its_buffer() -> None:
    disk = HardDisk()
    now_ns = disk.read(0, (0, 32))
    begun_ns = now_ns
    for at in range(32, 32_000, 32):
        now_ns = disk.read(now_ns + 10_000, (at, 32))

    assert (32_000 - 32) * BLOCK_BYTES / (now_ns - begun_ns) * 1e9 == pytest.approx(200e6, rel=0.05)
    assert disk.read(now_ns, (1 << 29, 1)) > now_ns + 5_000_000  # a read elsewhere needs a seek


def test_random_reads_of_a_hard_disk_are_two_orders_of_magnitude_slower_than_sequential_reads() -> None:
    def seconds(blocks: list[int]) -> float:
        disk, now_ns = HardDisk(), 0
        for block in blocks:
            now_ns = disk.read(now_ns, (block, 1))
        return now_ns / 1e9

    random = Random(1)
    count = 1_000
    anywhere = seconds([random.randrange(1 << 30) for _ in range(count)])

    assert 60 < count / anywhere < 100  # reads per second, as on real drives
    assert 100 < anywhere / seconds(list(range(count))) < 1_000


def drive(depth: int) -> FlashDrive:
    flush = DurationDistribution([1])
    return FlashDrive(
        Choices("1").stream("d"), command_ns=320, bytes_per_second=BLOCK_BYTES * 10**9, flush=flush, depth=depth
    )


def test_a_flash_drive_executes_several_commands_at_once() -> None:
    runs = [(2 * number, 1) for number in range(32)]

    assert drive(1).write(0, runs) == 32 * 321
    assert drive(32).write(0, runs) == 320 + 31 * 10 + 32
    assert drive(32).write(5, []) == 5
    deep = drive(32)
    assert [deep.read(0, (number, 1)) for number in range(3)] == [321, 332, 343]


@pytest.mark.parametrize(("name", "least", "most"), [("sata", 80_000, 120_000), ("nvme", 400_000, 700_000)])
def test_random_flash_writes_have_the_rate_of_data_sheets(name: str, least: int, most: int) -> None:
    stream = Choices("1").stream("d")
    flash = sata_ssd(stream, depth=32) if name == "sata" else nvme_ssd(stream, depth=64)
    now_ns, batch = 0, 64
    for _ in range(100):
        now_ns = flash.write(now_ns, [(number * 1_000, 1) for number in range(batch)])

    assert least < 100 * batch / now_ns * 1e9 < most
