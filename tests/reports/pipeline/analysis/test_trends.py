from typing import Any

import pytest
from pyspark.sql import SparkSession

from tornlog.reports.pipeline.analysis.analysis import analyse_rows, find_sweep, rows_of, trends_table

pytestmark = pytest.mark.slow

OLD = {"code": "tornlog 0.1.0 (ffff)", "began": "2026-01-01T00:00:00+00:00"}
NEW = {"code": "tornlog 0.1.0 (0000)", "began": "2026-02-01T00:00:00+00:00"}


def test_trends_compare_the_runs_of_each_code_version_with_earlier_versions(spark: SparkSession, sweep_of: Any) -> None:
    broke = {"outcome": "violated", "digest": "of a breach"}
    new = sweep_of({"seed": 0}, {"seed": 1, **broke}, {"seed": 2}, {"seed": 9, "wall_seconds": 5.0}, name="new", **NEW)
    old = sweep_of({"seed": 0}, {"seed": 1}, {"seed": 2, **broke}, {"seed": 3, "mutant": "m"}, name="old", **OLD)
    again = sweep_of({"seed": 0}, name="again", **{**NEW, "began": "2026-03-01T00:00:00+00:00"})
    sweeps = [find_sweep(place) for place in (new, again, old)]
    figures = ("seeds", "held", "violated", "other", "again", "broke", "mended", "seconds_per_seed", "pass_rate")
    found = trends_table(spark, sweeps).to_pylist()

    assert [(row["code"], row["began"], row["mutant"], row["scenario"]) for row in found] == [
        (OLD["code"], OLD["began"], None, "a"),
        (OLD["code"], OLD["began"], "m", "a"),
        (NEW["code"], NEW["began"], None, "a"),
    ]
    assert [tuple(row[name] for name in figures) for row in found] == [
        (3, 2, 1, 0, 0, 0, 0, 1.0, 2 / 3),
        (1, 1, 0, 0, 0, 0, 0, 1.0, 1.0),
        (4, 3, 1, 0, 3, 1, 1, 2.0, 3 / 4),
    ]
    rates = analyse_rows(rows_of(spark, sweeps))["pass_rates"].to_pylist()
    assert [row["seeds"] for row in rates] == [6, 1], "what both codes ran alike counts once there"
