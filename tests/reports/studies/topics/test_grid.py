import pytest

from tornlog.reports.studies.topics.assumptions import (
    AS_ASSUMED,
    PACKED,
    check_reading,
    check_writing,
    reading_in_grid,
    writing_in_grid,
)
from tornlog.reports.studies.topics.grid import cells, measure_grid, memory_of

TINY = memory_of(1)


@pytest.mark.slow
def test_a_grid_has_a_row_for_each_cell_and_is_the_same_each_time() -> None:
    one, other = (list(measure_grid(["hdd"], [4], 1_000, TINY, seed=2)) for _ in range(2))

    assert one == other
    assert [(row.disk, row.flush, row.variant, row.topics) for row in one] == [
        (disk, flush, variant.name, topics) for disk, flush, variant, topics in cells(["hdd"], [4])
    ]
    assert [row.at_full.late is None for row in one] == [row.flush == "sync" for row in one]
    assert all(row.at_full.sustained.puts_per_second > 0 for row in one)
    assert all(0 < row.at_rate.p50_us <= row.at_rate.p99_us <= row.at_rate.most_us for row in one)
    assert all(0 <= row.at_rate.busy_share <= 1 for row in one)


def test_assumptions_stand_beside_what_the_grid_has() -> None:
    rows = list(measure_grid(["hdd"], [8], 1_000, TINY, seed=2))
    known = [*writing_in_grid(rows, "hdd", 8), *reading_in_grid(rows, "hdd", 8)]
    writing = list(check_writing("hdd", 8, 1_000, TINY, seed=2))
    reading = list(check_reading("hdd", 8, 1_000, TINY, seed=2))

    assert [(one.assumption, one.layout, one.sustained is None) for one in known] == [
        (AS_ASSUMED, "shared", False),
        (AS_ASSUMED, "partitioned", False),
        (PACKED, "partitioned", False),
        (AS_ASSUMED, "shared", True),
        (AS_ASSUMED, "partitioned", True),
    ]
    assert [(one.assumption, one.layout) for one in writing] == [
        ("twice the memory", "shared"),
        ("nothing flushed but by the system", "shared"),
        ("queues placed as written", "shared"),
        ("twice the memory", "partitioned"),
        ("nothing flushed but by the system", "partitioned"),
    ]
    assert [(one.assumption, one.layout) for one in reading] == [
        ("1 MiB read ahead at most", "shared"),
        ("maps not read around faults", "shared"),
        ("1 MiB read ahead at most", "partitioned"),
    ]
    assert all(one.few_lag is not None for one in reading)
