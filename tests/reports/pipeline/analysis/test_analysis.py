from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tornlog.reports.pipeline.analysis.analysis import (
    NoSweepError,
    analyse_rows,
    find_sweep,
    names_that_never_occurred,
    rows_of,
    write_tables,
)
from tornlog.reports.pipeline.spark.engine import InProcessEngine
from tornlog.reports.pipeline.sweep.request import StartedSweep, SweepRequest
from tornlog.reports.pipeline.sweep.sweep import run_sweep
from tornlog.reports.pipeline.sweep.table import Table
from tornlog.reports.quantities import confidence_bounds
from tornlog.scenarios.campaigns.coverage import FAULTS, MARKS

pytestmark = pytest.mark.slow

Row = dict[str, Any]
Analysis = Callable[..., dict[str, list[Row]]]


@pytest.fixture
def analysis(spark: SparkSession) -> Analysis:
    def of(*places: str) -> dict[str, list[Row]]:
        tables = analyse_rows(rows_of(spark, [find_sweep(place) for place in places]))
        return {name: table.to_pylist() for name, table in tables.items()}

    return of


def test_pass_rates_have_a_row_for_each_mutant_scenario_disk_and_policy(analysis: Analysis, sweep_of: Any) -> None:
    place = sweep_of(
        {},
        {"outcome": "violated"},
        {"disk": "btrfs"},
        {"outcome": "crashed", "disk": None, "policy": None},
        {"mutant": "m"},
        {},
    )
    rates = analysis(place)["pass_rates"]
    found = [tuple(row.values())[:9] for row in rates]

    assert found == [
        (None, "a", None, None, 1, 0, 0, 1, 0.0),
        (None, "a", "btrfs", "pct", 1, 1, 0, 0, 1.0),
        (None, "a", "xfs", "pct", 3, 2, 1, 0, 2 / 3),
        ("m", "a", "xfs", "pct", 1, 1, 0, 0, 1.0),
    ]
    assert [(row["rate_low"], row["rate_high"]) for row in rates] == [
        confidence_bounds(held, seeds) for held, seeds in ((0, 1), (1, 1), (2, 3), (1, 1))
    ]


def test_detection_counts_seeds_up_to_the_first_that_fails(analysis: Analysis, sweep_of: Any) -> None:
    def ran(scenario: str, seed: int, **more: Any) -> Row:
        return {"mutant": "m", "scenario": scenario, "seed": seed, "wall_seconds": 0.5, **more}

    broke = {"outcome": "violated"}
    place = sweep_of(
        ran("a", 12, **broke, invariant="IDX"),
        ran("a", 11, **broke, invariant="DUR"),
        ran("a", 10),
        ran("b", 10),
        ran("b", 11),
        ran("b", 12),
        ran("c", 10, **broke, invariant="POS"),
        {**ran("a", 0, **broke, invariant="DUR"), "mutant": None},
        {**ran("a", 0), "mutant": "lives"},
    )
    tables = analysis(place)

    assert [tuple(row.values()) for row in tables["detections"]] == [
        ("lives", "a", False, None, 1, 0.5),
        ("m", "a", True, "DUR", 2, 1.0),
        ("m", "b", False, None, 3, 1.5),
        ("m", "c", True, "POS", 1, 0.5),
    ]
    assert [tuple(row.values()) for row in tables["mutants"]] == [
        ("lives", False, None, None, 1, 0.5, 1, 0, None, None),
        ("m", True, "c", "POS", 3, 1.5, 3, 2, 2.0, 1.0),
    ]


def test_coverage_has_a_row_for_every_fault_and_mark_even_with_count_0(
    analysis: Analysis, sweep_of: Any, spark: SparkSession
) -> None:
    place = sweep_of(
        {"injected": [("bit rot", 3), ("crash", 1), ("crash xfs", 1)], "marks": [("index rolls", 2)]},
        {"injected": [("bit rot", 1)], "marks": [("index rolls", 0)]},
        {"injected": None, "marks": None, "outcome": "timed-out"},
    )
    table = analysis(place)["coverage"]

    came_about = [tuple(row.values()) for row in table if row["seeds"]]
    assert came_about == [
        ("fault", "bit rot", 4, 2),
        ("mark", "index rolls", 2, 1),
        ("end", "crash", 1, 1),
        ("end", "crash xfs", 1, 1),
    ]
    arrow = analyse_rows(rows_of(spark, [find_sweep(place)]))["coverage"]
    assert names_that_never_occurred(arrow, "fault") == sorted(set(FAULTS) - {"bit rot"})
    assert names_that_never_occurred(arrow, "mark") == sorted(set(MARKS) - {"index rolls"})


def test_percentiles_are_computed_over_the_puts_of_all_runs(analysis: Analysis, sweep_of: Any) -> None:
    def puts(*counts: tuple[int, int]) -> list[Row]:
        return [{"us": us, "puts": count} for us, count in counts]

    place = sweep_of(
        {"put_latency": puts((1, 499), (10, 1))},
        {"put_latency": puts((1, 1), (2, 400), (5, 90), (700, 9))},
        {"put_latency": puts((7, 1)), "sync_flush": False, "producers": 3},
        {"put_latency": puts((9_999, 50)), "mutant": "m"},
        {"put_latency": None, "sync_flush": None, "disk": None, "producers": None},
    )
    found = [tuple(row.values()) for row in analysis(place)["put_latency"]]

    assert found == [(False, "xfs", 3, 1, 7, 7, 7, 7, 7), (True, "xfs", 1, 1000, 1, 2, 5, 700, 700)]


def test_a_run_in_two_sweeps_counts_once(analysis: Analysis, sweep_of: Any) -> None:
    first = sweep_of({"seed": 1, "mutant": "m", "wall_seconds": 4.0}, {"seed": 2, "mutant": "m"}, name="first")
    second = sweep_of({"seed": 2, "mutant": "m"}, {"seed": 2}, {"seed": 3, "mutant": "m"}, name="second")
    third = sweep_of({"seed": 1, "mutant": "m"}, {"seed": 2, "digest": "of another run"}, name="third")
    tables = analysis(first, second, third)

    assert [(row["mutant"], row["seeds"]) for row in tables["pass_rates"]] == [(None, 2), ("m", 3)]
    assert [(row["seeds"], row["seconds"]) for row in tables["mutants"]] == [(3, 6.0)]


def test_the_tables_of_a_real_sweep_agree_with_its_rows(
    analysis: Analysis, spark: SparkSession, tmp_path: Path
) -> None:
    table = Table(str(tmp_path / "real"))
    run_sweep(SweepRequest(("clean-shutdown", "torn-record"), 0, 15), table, InProcessEngine())
    tables, rows = analysis(table.place), table.read().to_pylist()

    cells = Counter((row["scenario"], row["disk"], row["policy"]) for row in rows)
    rates = tables["pass_rates"]
    assert {(row["scenario"], row["disk"], row["policy"]): row["held"] for row in rates} == cells
    times: Counter[str] = sum((Counter(dict(row["injected"])) for row in rows), Counter())
    assert {row["name"]: row["times"] for row in tables["coverage"] if row["times"]}.items() >= times.items()
    for group in tables["put_latency"]:
        of_group = [
            row for row in rows if all(row[name] == group[name] for name in ("sync_flush", "disk", "producers"))
        ]
        each = sorted(us for row in of_group for put in row["put_latency"] for us in [put["us"]] * put["puts"])
        assert (group["puts"], group["max_us"]) == (len(each), each[-1])
        assert group["p99_us"] == each[-(-len(each) * 99 // 100) - 1]
    assert (tables["mutants"], tables["detections"]) == ([], [])


def test_each_table_is_written_to_a_file_and_read_back_unchanged(
    spark: SparkSession, sweep_of: Any, tmp_path: Path
) -> None:
    place = sweep_of({"mutant": "m"}, {"put_latency": [{"us": 3, "puts": 2}]})
    tables = analyse_rows(rows_of(spark, [find_sweep(place)]))
    paths = write_tables(tables, tmp_path / "deep" / "out")

    assert [path.name for path in paths] == [f"{name}.parquet" for name in tables]
    assert all(pq.read_table(path).equals(tables[path.stem]) for path in paths)


def test_the_error_for_a_place_without_a_sweep_names_the_place(tmp_path: Path) -> None:
    with pytest.raises(NoSweepError, match=r"nowhere: expected a directory that .* wrote, found no sweep\.json"):
        find_sweep(str(tmp_path / "nowhere"))
    begun = Table(str(tmp_path / "begun"))
    begun.start_sweep(StartedSweep(SweepRequest(("a",), 0, 1)))
    with pytest.raises(NoSweepError, match="begun: the sweep there has no rows yet"):
        find_sweep(begun.place)
    (tmp_path / "begun" / "sweep.json").write_text("{")
    with pytest.raises(NoSweepError, match="begun: not the description of a sweep"):
        find_sweep(begun.place)
