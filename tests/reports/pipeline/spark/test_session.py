from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tornlog.reports.pipeline.spark.engine import InProcessEngine, SparkEngine
from tornlog.reports.pipeline.spark.session import OldSparkError, require_data_sources, session
from tornlog.reports.pipeline.sweep.request import SweepRequest
from tornlog.reports.pipeline.sweep.sweep import run_sweep
from tornlog.reports.pipeline.sweep.table import Table


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with session("local[2]") as running:
        yield running


def test_a_spark_without_python_data_sources_is_refused_with_the_version_needed() -> None:
    with pytest.raises(OldSparkError, match=r"needs Spark 4\.0 or newer, and 4\.2 for streams; pyspark 3\.5\.9 is"):
        require_data_sources("3.5.9")
    require_data_sources("4.0.0")


@pytest.mark.slow
def test_a_sweep_has_the_same_rows_on_spark_and_in_this_process(spark: SparkSession, tmp_path: Path) -> None:
    request = SweepRequest(("clean-shutdown", "segment-rollover-crash"), 0, 12, block_seeds=5)
    tables = []
    for name, engine in (("spark", SparkEngine(spark.sparkContext)), ("here", InProcessEngine())):
        table = Table(str(tmp_path / name))
        assert run_sweep(request, table, engine).is_complete
        tables.append(table.read().drop(["wall_seconds"]))

    assert tables[0].num_rows == 24
    assert tables[0].equals(tables[1])


@pytest.mark.ci
def test_results_are_yielded_as_soon_as_they_are_ready_and_an_error_ends_the_work(spark: SparkSession) -> None:
    engine = SparkEngine(spark.sparkContext)
    assert sorted(engine.results(abs, [-3, 2, -1, 0])) == [0, 1, 2, 3]
    assert list(engine.results(abs, [])) == []

    with pytest.raises(Exception, match="bad operand type"):
        list(engine.results(abs, [1, "one"]))


@pytest.mark.ci
def test_no_tasks_are_submitted_after_the_iterator_is_closed(spark: SparkSession) -> None:
    handed_out = []

    def items() -> Iterator[int]:
        for number in range(1000):
            handed_out.append(number)
            yield number

    results = SparkEngine(spark.sparkContext).results(abs, items())
    next(results)
    results.close()

    assert len(handed_out) <= 8


@pytest.mark.ci
def test_a_local_session_listens_on_loopback_only_and_has_no_ui(
    spark: SparkSession, other_listen_addresses: Callable[[int], list[str]]
) -> None:
    jvm: Any = spark.sparkContext._jvm

    assert other_listen_addresses(jvm.java.lang.ProcessHandle.current().pid()) == []
    assert spark.sparkContext.uiWebUrl is None
