import pytest

from tornlog.faults.devices.flash import FlashDrive, nvme_ssd, sata_ssd
from tornlog.faults.devices.spread import Spread
from tornlog.faults.devices.storage import BLOCK_BYTES
from tornlog.sim.choices import Choices


def drive() -> FlashDrive:
    flush = Spread([1_000])
    return FlashDrive(
        Choices("1").stream("d"), command_ns=10, bytes_per_second=BLOCK_BYTES * 10**9, flush=flush
    )


def test_a_write_costs_its_commands_and_its_bytes() -> None:
    assert drive().write(0, [(0, 5), (9, 1)]) == 2 * 10 + 6 * 1
    assert drive().read(7, (0, 5)) == 7 + 10 + 5


def test_a_flush_costs_only_if_something_was_written() -> None:
    flash = drive()

    assert flash.flush(5) == 5
    written_ns = flash.write(5, [(0, 1)])
    assert flash.flush(written_ns) == written_ns + 1_000
    assert flash.flush(written_ns + 1_000) == written_ns + 1_000


def test_requests_follow_one_another() -> None:
    flash = drive()

    assert flash.write(0, [(0, 1)]) == 11
    assert flash.write(0, [(1, 1)]) == 22


def test_reading_gigabytes_takes_what_data_sheets_say() -> None:
    blocks = (1 << 30) // BLOCK_BYTES
    stream = Choices("1").stream("d")

    assert (1 << 30) / sata_ssd(stream).read(0, (0, blocks)) == pytest.approx(0.5, rel=0.01)  # GB/s
    assert (1 << 30) / nvme_ssd(stream).read(0, (0, blocks)) == pytest.approx(2.5, rel=0.01)
