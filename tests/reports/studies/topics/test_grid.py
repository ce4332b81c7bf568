import pytest

from tornlog.faults.devices.pages import PageCacheLimits
from tornlog.reports.studies.topics.grid import (
    AS_ASSUMED,
    PACKED,
    LayoutResult,
    grid_cells,
    measure_each,
    reading_cases,
    reading_in_grid,
    writing_cases,
    writing_in_grid,
)

TINY = PageCacheLimits(dirty_bytes_max=1 << 20)


def grid_results(topics: int) -> list[LayoutResult]:
    return [cell.measure() for cell in grid_cells(["hdd"], [topics], 1_000, TINY, seed=2)]


@pytest.mark.slow
def test_cases_measured_in_several_processes_have_the_same_results_and_order() -> None:
    cases = [
        *reading_cases("hdd", 4, 1_000, TINY, seed=2),
        *writing_cases("hdd", 4, 1_000, TINY, seed=2),
        *grid_cells(["hdd"], [4], 1_000, TINY, seed=2),
    ]

    assert list(measure_each(cases, jobs=2)) == list(measure_each(cases))


@pytest.mark.slow
def test_a_grid_has_a_row_for_each_cell_and_is_the_same_each_time() -> None:
    one, other = (grid_results(4) for _ in range(2))

    assert one == other
    assert [(row.disk, row.flush, row.variant, row.topics) for row in one] == [
        (cell.disk, cell.setup.flush, cell.variant.name, cell.setup.topics)
        for cell in grid_cells(["hdd"], [4], 1_000, TINY, seed=2)
    ]
    assert [row.at_full.late is None for row in one] == [row.flush == "sync" for row in one]
    assert all(row.at_full.sustained.puts_per_second > 0 for row in one)
    assert all(0 < row.at_rate.p50_us <= row.at_rate.p99_us <= row.at_rate.most_us for row in one)
    assert all(0 <= row.at_rate.busy_share <= 1 for row in one)


@pytest.mark.slow
def test_changed_assumptions_are_shown_beside_the_results_of_the_grid() -> None:
    rows = grid_results(8)
    known = [*writing_in_grid(rows, "hdd", 8), *reading_in_grid(rows, "hdd", 8)]
    writing = [one.measure() for one in writing_cases("hdd", 8, 1_000, TINY, seed=2)]
    reading = [one.measure() for one in reading_cases("hdd", 8, 1_000, TINY, seed=2)]

    assert [(one.assumption, one.layout, one.sustained is None) for one in known] == [
        (AS_ASSUMED, "shared", False),
        (AS_ASSUMED, "partitioned", False),
        (PACKED, "partitioned", False),
        (AS_ASSUMED, "shared", True),
        (AS_ASSUMED, "partitioned", True),
    ]
    assert [(one.assumption, one.layout) for one in writing] == [
        ("twice the memory", "shared"),
        ("flushed only by the kernel", "shared"),
        ("queues placed as written", "shared"),
        ("twice the memory", "partitioned"),
        ("flushed only by the kernel", "partitioned"),
    ]
    assert [(one.assumption, one.layout) for one in reading] == [
        ("read-ahead up to 1 MiB", "shared"),
        ("no read around faults of maps", "shared"),
        ("read-ahead up to 1 MiB", "partitioned"),
    ]
    assert all(one.few_lag is not None for one in reading)
