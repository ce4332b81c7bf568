from array import array
from contextlib import ExitStack
from pathlib import Path

import pytest

from tornlog.reports.studies.latency.real.device import DeviceFile, MeasuredDevice
from tornlog.reports.studies.latency.real.model import MachineModel, system_of
from tornlog.reports.studies.latency.real.turns import MachineCondition, Mode, TurnPlan
from tornlog.sim.choices import Choices

MIB = 1 << 20


@pytest.fixture
def device_file(tmp_path: Path) -> DeviceFile:
    try:
        return DeviceFile(tmp_path)
    except OSError as error:
        pytest.skip(f"no O_DIRECT here: {error}")


def test_a_measured_drive_takes_the_measured_times() -> None:
    drive = MeasuredDevice(20_000, 4_096_000_000, array("q", [700_000])).drive(Choices("").stream("drive"))
    written_ns = drive.write(0, [(5, 4)])

    assert written_ns == 20_000 + 4 * 1_000
    assert drive.flush(written_ns) == written_ns + 700_000


def test_the_disk_under_a_directory_is_measured_and_the_file_removed(device_file: DeviceFile, tmp_path: Path) -> None:
    found = device_file.measure(8)
    device_file.close()

    assert len(found.flush_ns) == 8
    assert min(found.command_ns, found.bytes_per_second, *found.flush_ns) > 0
    assert list(tmp_path.iterdir()) == []


def test_a_condition_sets_the_memory_and_the_neighbour_of_the_model() -> None:
    device = MeasuredDevice(1, 1, array("q", [1]))
    free, short = (system_of(one, device) for one in (MachineCondition(), MachineCondition(256 * MIB, 50 * MIB)))

    assert (short.memory_bytes, short.is_full, short.neighbour.write_bytes_per_s) == (256 * MIB, True, 50 * MIB)
    assert free.memory_bytes > 256 * MIB
    assert (free.is_full, free.neighbour.write_bytes_per_s) == (False, 0)


@pytest.mark.slow
def test_the_model_simulates_each_cell_of_a_turn_at_its_arrivals(device_file: DeviceFile, tmp_path: Path) -> None:
    device_file.close()
    plan = TurnPlan([MachineCondition()], [2], seconds=0.1, modes=(Mode("sync"), Mode("pool")))
    with ExitStack() as stack:
        found = list(MachineModel(plan, tmp_path, stack)(0))

    assert [(one.cell.source, one.cell.mode.flush, len(one.puts.latencies_ns)) for one in found] == [
        ("simulated", "sync", 40),
        ("simulated", "pool", 200),
    ]
