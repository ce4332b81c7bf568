from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tornlog.reports.pipeline.analysis.analysis import analyse_rows, find_sweep, rows_of
from tornlog.reports.pipeline.spark.engine import InProcessEngine
from tornlog.reports.pipeline.sweep.request import SweepRequest
from tornlog.reports.pipeline.sweep.summed import detections, sum_sweep
from tornlog.reports.pipeline.sweep.sweep import run_sweep
from tornlog.reports.pipeline.sweep.table import Table

NAMES = ("sync-flush-power-cut", "combined-faults", "recovery-on-dying-disk")


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [None, "ack-before-flush"])
def test_totals_computed_without_spark_equal_those_of_spark(
    spark: SparkSession, tmp_path: Path, mutant: str | None
) -> None:
    table = Table(str(tmp_path / "sweep"))
    run_sweep(SweepRequest(NAMES, 0, 20, mutant=mutant, block_seeds=7), table, InProcessEngine())
    by_spark = {
        name: found.to_pylist() for name, found in analyse_rows(rows_of(spark, [find_sweep(table.place)])).items()
    }
    sums = sum_sweep(table)
    assert sums.pass_rates() == by_spark["pass_rates"]
    assert sums.put_latency() == by_spark["put_latency"]
    assert bool(by_spark["put_latency"]) == (mutant is None)
    found = [] if mutant is None else detections(table, mutant)
    assert sorted(found, key=lambda row: row["scenario"]) == by_spark["detections"]
    times = {row["name"]: row["times"] for row in by_spark["coverage"] if row["times"]}
    assert dict(sums.injected + sums.marks) == times
    assert dict(sums.pairs) == {
        (row["first"], row["second"]): row["seeds"] for row in by_spark["pairs"] if row["seeds"]
    }
    violated = sum(row["violated"] for row in by_spark["pass_rates"])
    assert sums.broken.total() == sums.signatures.total() == violated
    assert bool(violated) == (mutant is not None)
    assert sums.judged.total() == 60


def test_seeds_whose_process_died_count_as_seeds_without_a_verdict(sweep_of: Any) -> None:
    lost = {"outcome": "crashed", "disk": None, "policy": None, "sync_flush": None, "injected": None, "marks": None}
    place = sweep_of({}, lost, {"put_latency": None})
    sums = sum_sweep(Table(place))
    assert sums.judged == {"xfs": 2}
    first, second = sums.pass_rates()
    assert (first["disk"], first["other"], first["pass_rate"]) == (None, 1, 0.0)
    assert (second["disk"], second["held"]) == ("xfs", 2)
    assert sums.put_latency() == []


def test_the_detection_of_a_surviving_mutant_counts_every_seed(sweep_of: Any) -> None:
    place = sweep_of({"mutant": "m"}, {"mutant": "m"})
    (row,) = detections(Table(place), "m")
    assert row == {
        "mutant": "m", "scenario": "a", "found": False, "invariant": None, "seeds": 2, "seconds": 2.0,
    }  # fmt: skip
