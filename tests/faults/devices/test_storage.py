from collections.abc import Sequence

import pytest

from tornlog.faults.devices.drives import MODELS
from tornlog.faults.devices.storage import JournalledStorage, MeasuredStorage, Run
from tornlog.sim.choices import Choices


class Notes:
    """A device that logs its commands; each takes 1 ns."""

    blocks = 40_000

    def __init__(self) -> None:
        self.asked: list[object] = []

    def write(self, now_ns: int, runs: Sequence[Run]) -> int:
        self.asked.append(list(runs))
        return now_ns + 1

    def read(self, now_ns: int, run: Run) -> int:
        raise AssertionError("a sync reads nothing")

    def flush(self, now_ns: int) -> int:
        self.asked.append("flush")
        return now_ns + 1


def test_a_sync_writes_the_data_then_the_journal_then_its_commit() -> None:
    device = Notes()
    storage = JournalledStorage(device)

    assert storage.sync(100, [(35_000, 2)]) == 105
    assert device.asked == [[(35_000, 2)], [(0, 2)], "flush", [(2, 1)], "flush"]


def test_the_journal_continues_and_wraps_around() -> None:
    device = Notes()
    storage = JournalledStorage(device)
    for _ in range(32_768 // 3 + 1):
        storage.sync(0, [])
    firsts = [asked[0][0] for asked in device.asked if asked != "flush"]

    assert firsts[:4] == [0, 2, 3, 5]
    assert max(firsts) < 32_768
    assert firsts[-2:] == [32_766, 0]


def test_a_sync_waits_for_a_running_sync() -> None:
    storage = JournalledStorage(Notes())

    assert storage.sync(0, []) == 4
    assert storage.sync(1, []) == 8


def test_files_are_placed_after_the_journal_until_the_device_is_full() -> None:
    storage = JournalledStorage(Notes())

    assert storage.place(10) == 32_768
    assert storage.place(5) == 32_778
    with pytest.raises(ValueError, match="40000 blocks"):
        storage.place(10_000)


def test_a_page_sync_takes_as_long_as_on_real_drives() -> None:
    took_us = {}
    for name, model in MODELS.items():
        storage, now_ns = model.make(Choices("1").stream(name)), 0
        first = storage.place(2_000)
        for block in range(1_000):
            now_ns = storage.sync(now_ns, [(first + block, 1)])
        took_us[name] = now_ns / 1_000 / 1_000

    assert 12_000 < took_us["hdd"] < 30_000
    assert 800 < took_us["sata-ssd"] < 4_000
    assert 40 < took_us["nvme-ssd"] < 200


def test_syncs_take_the_measured_durations_in_order() -> None:
    storage = MeasuredStorage([10, 80, 30])
    storage.use_measured_syncs()

    assert [storage.sync(at, [(0, 1)]) - at for at in (0, 100, 200, 300)] == [10, 80, 30, 10]


def test_syncs_before_the_measured_sequence_take_the_median() -> None:
    storage = MeasuredStorage([10, 80, 30])

    assert [storage.sync(at, []) - at for at in (0, 100)] == [30, 30]
    storage.use_measured_syncs()
    assert storage.sync(200, []) == 210


def test_overlapping_measured_syncs_run_one_after_another() -> None:
    storage = MeasuredStorage([10])
    storage.use_measured_syncs()

    assert [storage.sync(0, [(0, 1)]) for _ in range(3)] == [10, 20, 30]


def test_measured_storage_without_durations_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        MeasuredStorage([])
