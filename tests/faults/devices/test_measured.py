import pytest

from tornlog.faults.devices.measured import MeasuredStorage
from tornlog.faults.devices.spread import Spread
from tornlog.sim.choices import Choices


def test_a_sync_takes_what_one_of_about_as_many_blocks_took() -> None:
    storage = MeasuredStorage(Choices("1").stream("d"), {1: Spread([10]), 8: Spread([80])})

    assert storage.sync(0, [(0, 1), (7, 1)]) == 10
    assert storage.sync(100, [(0, 6)]) == 180
    assert storage.sync(1_000, []) == 1_010


def test_syncs_that_overlap_follow_one_another() -> None:
    storage = MeasuredStorage(Choices("1").stream("d"), {1: Spread([10])})

    assert [storage.sync(0, [(0, 1)]) for _ in range(3)] == [10, 20, 30]


def test_without_a_measurement_there_is_no_storage() -> None:
    with pytest.raises(ValueError, match="at least one"):
        MeasuredStorage(Choices("1").stream("d"), {})
