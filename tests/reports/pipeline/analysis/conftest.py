"""Analysis fixtures: a Spark session per module, and sweeps with invented rows."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tornlog.reports.pipeline.spark.engine import own_code_version
from tornlog.reports.pipeline.spark.session import session
from tornlog.reports.pipeline.sweep.request import Block, StartedSweep, SweepRequest
from tornlog.reports.pipeline.sweep.table import Table

Row = dict[str, Any]
SweepOf = Callable[..., str]

_PLAIN: Row = {
    "scenario": "a",
    "seed": 0,
    "mutant": None,
    "disk": "xfs",
    "policy": "pct",
    "sync_flush": True,
    "producers": 1,
    "outcome": "held",
    "digest": "of this run",
    "injected": [],
    "marks": [],
    "put_latency": [],
    "code": own_code_version(),
    "wall_seconds": 1.0,
}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with session("local[2]") as running:
        yield running


@pytest.fixture
def sweep_of(tmp_path: Path) -> SweepOf:
    """Return a function that writes rows as a sweep; missing fields get defaults."""

    def make(*rows: Row, name: str = "sweep [1]", **begun: Any) -> str:
        place = str(tmp_path / name)
        table = Table(place)
        table.start_sweep(StartedSweep(SweepRequest(("a", "b"), 0, 100), **begun))
        code = {"code": begun["code"]} if "code" in begun else {}
        for number, row in enumerate(rows):  # one file per row, so that tests cannot depend on the order of rows
            table.write(Block("a", number, 1), [{**_PLAIN, **code, "seed": number, **row}])
        return place

    return make
