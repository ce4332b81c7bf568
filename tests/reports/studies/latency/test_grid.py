import pytest

from tornlog.reports.studies.latency.grid import RATE_MAX, cells, measure_grid


def test_every_disk_flush_and_number_of_producers_has_its_series() -> None:
    found = list(measure_grid(["hdd", "nvme-ssd"], [1, 4], 100, seed=1))

    assert [(one.disk, one.setup.flush, one.setup.producers) for one in found] == cells(
        ["hdd", "nvme-ssd"], [1, 4]
    )
    assert len(found) == 12
    assert all(len(one.series.latencies_ns) == 100 for one in found)


def test_load_grows_with_the_producers_up_to_what_can_be_carried() -> None:
    rates = {
        (one.disk, one.setup.flush, one.setup.producers): one.setup.rate
        for one in measure_grid(["hdd", "nvme-ssd"], [1, 4, 64], 100, seed=1)
    }

    assert rates["hdd", "sync", 4] == pytest.approx(4 * rates["hdd", "sync", 1])
    assert rates["nvme-ssd", "sync", 64] == rates["hdd", "async", 64] == RATE_MAX
