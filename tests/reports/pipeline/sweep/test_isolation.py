import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tornlog.reports.pipeline.sweep import sweep
from tornlog.reports.pipeline.sweep.sweep import isolated_rows, rows_of
from tornlog.scenarios.campaigns.runner import Batch
from tornlog.scenarios.campaigns.seeds import SeedResult
from tornlog.scenarios.claims.catalogue import SCENARIOS

BATCH = Batch(SCENARIOS["clean-shutdown"], 10, 5)


def without_times(rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "wall_seconds": 0.0} for row in rows]


def runner_that(deed: Callable[[], object], at: int) -> Callable[..., Iterator[SeedResult]]:
    """Return a replacement for the batch runner that acts differently at one seed."""

    def results(batch: Batch, **_: object) -> Iterator[SeedResult]:
        for seed in batch.seeds:
            if seed == at:
                deed()
            yield SeedResult(batch.scenario.name, seed, "held", digest=f"of {seed}")

    return results


def test_rows_are_the_same_with_and_without_a_child_process() -> None:
    assert without_times(isolated_rows(BATCH)) == without_times(rows_of(BATCH))


@pytest.mark.parametrize("at", [10, 12, 14])
def test_a_seed_that_kills_its_process_has_a_row_and_other_seeds_run(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    monkeypatch.setattr(sweep, "results_of", runner_that(lambda: os.kill(os.getpid(), signal.SIGKILL), at))
    rows = list(isolated_rows(BATCH))

    assert [row["seed"] for row in rows] == [10, 11, 12, 13, 14]
    (lost,) = [row for row in rows if row["outcome"] != "held"]
    assert (lost["seed"], lost["outcome"], lost["error"]) == (at, "crashed", "the process ended with -9")
    assert (lost["digest"], lost["parameters"]) == ("", None)


def test_a_seed_that_hangs_has_a_row_and_other_seeds_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "results_of", runner_that(lambda: time.sleep(600), 12))
    rows = list(isolated_rows(BATCH, seconds_max=0.5))

    assert [row["outcome"] for row in rows] == ["held", "held", "timed-out", "held", "held"]
    assert rows[2]["error"] == "no result within 0.5 s"
