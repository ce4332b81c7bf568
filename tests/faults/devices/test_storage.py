import pytest

from tornlog.faults.devices.storage import MeasuredStorage


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
