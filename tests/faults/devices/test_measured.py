import pytest

from tornlog.faults.devices.measured import MeasuredStorage


def test_syncs_take_what_was_measured_in_the_order_in_which_it_was() -> None:
    storage = MeasuredStorage([10, 80, 30])
    storage.begin()

    assert [storage.sync(at, [(0, 1)]) - at for at in (0, 100, 200, 300)] == [10, 80, 30, 10]


def test_syncs_before_those_that_were_measured_take_the_usual_time() -> None:
    storage = MeasuredStorage([10, 80, 30])

    assert [storage.sync(at, []) - at for at in (0, 100)] == [30, 30]
    storage.begin()
    assert storage.sync(200, []) == 210


def test_syncs_that_overlap_follow_one_another() -> None:
    storage = MeasuredStorage([10])
    storage.begin()

    assert [storage.sync(0, [(0, 1)]) for _ in range(3)] == [10, 20, 30]


def test_without_a_measurement_there_is_no_storage() -> None:
    with pytest.raises(ValueError, match="at least one"):
        MeasuredStorage([])
