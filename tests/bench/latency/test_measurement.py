import csv
import gzip
from array import array
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.bench.latency.command import latency
from tests.bench.latency.measurement import MEASUREMENT_NAME, read_measurement, write_measurement
from tornlog.command_line import application_of
from tornlog.reports.studies.latency.real.device import MeasuredDevice
from tornlog.reports.studies.latency.real.file_system import SyncCosts, SyncRequests
from tornlog.reports.studies.latency.real.memory_limit import Pressure
from tornlog.reports.studies.latency.real.model import simulated_turns
from tornlog.reports.studies.latency.real.neighbour import NeighbourReport
from tornlog.reports.studies.latency.real.puts import MeasuredPuts
from tornlog.reports.studies.latency.real.turns import (
    MODEL_SOURCE,
    MachineCondition,
    MeasuredCell,
    MeasuredTurn,
    Mode,
    TurnParts,
    TurnPlan,
)

US = 1_000
LIMITED = MachineCondition(256 << 20, None)
SYNCS = SyncCosts(*(SyncRequests(kind, 2, 1, 120.5) for kind in ("overwritten", "preallocated", "appended")))
PLAN = TurnPlan([LIMITED], [2], seconds=0.05, modes=[Mode("sync"), Mode("pool")], syncs=SYNCS)
PARTS = TurnParts(
    MeasuredDevice(array("q", [80 * US]), array("q", [200 * US]), array("q", [20_000 * US])),
    {
        (LIMITED, mode, producers): array("q", [us * US])
        for mode, producers, us in (
            (Mode("sync"), 1, 120),
            (Mode("async"), 1, 20),
            (Mode("async"), 2, 25),
            (Mode("pool"), 2, 30),
        )
    },
    0.5,
)


@pytest.fixture
def measured(tmp_path: Path) -> tuple[Path, list[MeasuredTurn]]:
    """Return a measurement file, and its turns: of two stores and of the model."""
    stores = [
        MeasuredTurn(
            MeasuredCell("real", mode, LIMITED, 2),
            0,
            MeasuredPuts(array("q", [3, 5]), array("q", [8, 9])),
            Pressure(1, 2, 3, 4),
            load,
            0.75,
        )
        for mode, load in ((Mode("sync"), NeighbourReport(1.0, 2, 3.0, 4.0, 0.5)), (Mode("pool"), None))
    ]
    turns = [*stores, *simulated_turns(PLAN, 0, PARTS)]
    write_measurement(PLAN, turns, tmp_path / MEASUREMENT_NAME)
    return tmp_path / MEASUREMENT_NAME, turns


def test_a_measurement_that_is_read_again_gives_the_same_turns_of_the_model(
    measured: tuple[Path, list[MeasuredTurn]],
) -> None:
    path, turns = measured
    plan, stores, parts = read_measurement(path)

    assert plan._replace(sources=PLAN.sources) == PLAN
    assert list(plan.sources) == list(PLAN.sources)
    assert parts == {0: PARTS}
    assert [*stores, *simulated_turns(plan, 0, parts[0])] == turns


def test_an_earlier_measurement_is_reported_again(measured: tuple[Path, list[MeasuredTurn]], tmp_path: Path) -> None:
    arguments = ["--again", str(measured[0]), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(application_of("latency", latency), arguments)
    with (tmp_path / "out" / "latency-turns.csv").open(newline="") as file:
        rows = [(row["source"], row["flush"]) for row in csv.DictReader(file)]

    assert result.exit_code == 0, result.output
    assert rows == [("real", "sync"), ("real", "pool"), (MODEL_SOURCE, "sync"), (MODEL_SOURCE, "pool")]


def test_another_file_is_no_measurement(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "other", "wt") as file:
        file.write('{"rows": []}\n')
    result = CliRunner().invoke(application_of("latency", latency), ["--again", str(tmp_path / "other")])

    assert result.exit_code == 2
    assert "expected tornlog-latency-measurement/1, found None" in " ".join(result.output.split())
