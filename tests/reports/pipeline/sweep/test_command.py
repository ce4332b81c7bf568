import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.command_line import tornlog
from tornlog.reports.pipeline.spark.engine import InProcessEngine
from tornlog.reports.pipeline.sweep.request import SweepRequest
from tornlog.reports.pipeline.sweep.sweep import run_sweep
from tornlog.reports.pipeline.sweep.sweeping import spark_properties_with_ui
from tornlog.reports.pipeline.sweep.table import Table

pytestmark = pytest.mark.slow

NAME = "clean-shutdown"


@pytest.fixture
def invoke(tmp_path: Path) -> Any:
    def call(*arguments: object, master: str = "in-process") -> Result:
        out = ("--out", str(tmp_path / "out"), "--master", master)
        return tornlog("sweep", *arguments, *out)

    return call


def test_a_sweep_without_violations_exits_0_and_prints_its_outcomes(invoke: Any) -> None:
    result = invoke("--seeds", 30, "--scenario", NAME, "--json", "-")
    document = json.loads(result.stdout)

    assert result.exit_code == 0
    assert document["format"] == "tornlog-sweep-result/1"
    assert (document["seeds"], document["rows"], document["complete"]) == (30, 30, True)
    assert (document["outcomes"], document["failures"]) == ({"held": 30}, [])
    again = json.loads(invoke("--seeds", 30, "--scenario", NAME, "--json", "-").stdout)
    assert (again["rows"], again["outcomes"]) == (30, {})


def test_a_sweep_with_a_violation_exits_1_and_writes_a_replayable_failure(invoke: Any) -> None:
    result = invoke("--seeds", 40, "--scenario", NAME, "--mutant", "ack-before-flush", "--json", "-", "--shrink", "5s")
    document = json.loads(result.stdout)

    assert result.exit_code == 1
    assert document["outcomes"]["violated"] == sum(document["signatures"].values()) > 0
    assert len(document["failures"]) == len(document["signatures"])
    for path in document["failures"]:
        replayed = tornlog("replay", path, "--json", "-")
        assert replayed.exit_code == 1
        assert json.loads(replayed.stdout)["same"]


def test_the_summary_has_a_table_and_the_command_to_resume(invoke: Any) -> None:
    result = invoke(
        "--seeds", 600, "--scenario", NAME, "--mutant", "ack-before-flush", "--stop-after", 1, "--shrink", "1s"
    )

    assert "violated" in result.stdout
    assert re.search(r"\d+ seeds left: repeat the call to continue", result.stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--seeds", "x"),
        ("--seeds", "5", "--scenario", "no-such"),
        ("--seeds", "5", "--disk", "no-such"),
        ("--seeds", "5", "--mutant", "no-such"),
        ("--seeds", "5", "--stop-after", "0"),
        ("--seeds", "-1:3"),
    ],
)
def test_invalid_options_of_a_sweep_exit_2(invoke: Any, arguments: tuple[str, ...]) -> None:
    assert invoke(*arguments).exit_code == 2


def test_the_error_for_an_invalid_time_names_its_option(invoke: Any) -> None:
    result = invoke("--seeds", 3, "--shrink", "0s")

    assert result.exit_code == 2
    assert "--shrink" in result.output
    assert "--time" not in result.output


def test_a_place_with_another_sweep_exits_2(invoke: Any) -> None:
    assert invoke("--seeds", 3, "--scenario", NAME).exit_code == 0
    other = invoke("--seeds", 4, "--scenario", NAME)

    assert other.exit_code == 2
    assert "other seeds" in other.output


def test_compaction_leaves_the_same_rows_in_one_file(invoke: Any, tmp_path: Path) -> None:
    options = ("--seeds", 230, "--scenario", "segment-allocation-crash", "--json", "-")
    files = json.loads(invoke(*options).stdout)["files"]
    before = Table(str(tmp_path / "out")).read()
    compacted = json.loads(invoke(*options, "--compact").stdout)

    assert (files, compacted["files"], compacted["rows"]) == (None, 1, 230)
    assert [path.name for path in (tmp_path / "out" / "rows").iterdir()] == [
        "segment-allocation-crash-0000000000-230.parquet"
    ]
    assert Table(str(tmp_path / "out")).read().equals(before)


@pytest.mark.parametrize(
    ("master", "conf", "given"),
    [
        ("local[2]", None, None),
        ("in-process", None, None),
        ("local-cluster[2,1,1024]", None, ["spark.ui.enabled=true"]),
        ("yarn", ["a=b"], ["spark.ui.enabled=true", "a=b"]),
        ("spark://head:7077", ["spark.ui.enabled=false"], ["spark.ui.enabled=false"]),
    ],
)
def test_the_spark_ui_is_on_by_default_only_on_a_cluster(
    master: str, conf: list[str] | None, given: list[str] | None
) -> None:
    assert spark_properties_with_ui(master, conf) == given


@pytest.mark.slow
def test_an_interrupted_sweep_on_spark_reports_its_progress_and_can_be_resumed(tmp_path: Path) -> None:
    seeds, out = 1500, tmp_path / "out"
    command = [
        *(sys.executable, "-m", "tornlog", "sweep", "--seeds", str(seeds), "--scenario", NAME),
        *("--out", str(out), "--master", "local[2]"),
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as running:
        deadline = time.monotonic() + 600
        while not list(out.glob("rows/*.parquet")) and running.poll() is None:
            assert time.monotonic() < deadline, "no block was done in ten minutes"
            time.sleep(0.02)
        os.killpg(running.pid, signal.SIGINT)
        printed, noise = running.communicate(timeout=120)

    assert running.returncode == 130
    assert printed.startswith("interrupted: ")
    assert "seeds left: repeat the call to continue" in printed
    assert "Traceback" not in noise
    assert (out / "report.html").exists()
    assert 0 < Table(str(out)).read().num_rows < seeds


def test_a_sweep_does_not_overwrite_a_report_of_another_command(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("of a run")
    done = subprocess.run(
        [*(sys.executable, "-m", "tornlog", "sweep", "--seeds", "1", "--scenario", NAME, "--out", str(tmp_path))],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "it has the report of another command" in done.stderr
    assert (tmp_path / "report.html").read_text() == "of a run"


def test_a_spark_sweep_that_is_killed_twice_produces_the_same_table(tmp_path: Path) -> None:
    seeds, out = 1500, tmp_path / "out"
    command = [
        *(sys.executable, "-m", "tornlog", "sweep", "--seeds", str(seeds), "--scenario", NAME),
        *("--out", str(out), "--master", "local[2]"),
    ]
    for files in (1, 3):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            deadline = time.monotonic() + 600
            while len(list(out.glob("rows/*.parquet"))) < files and running.poll() is None:
                assert time.monotonic() < deadline, "no block was done in ten minutes"
                time.sleep(0.02)
            os.kill(running.pid, signal.SIGKILL)
    assert Table(str(out)).read().num_rows < seeds, "it was killed too late"
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    whole = Table(str(tmp_path / "whole"))
    run_sweep(SweepRequest((NAME,), 0, seeds), whole, InProcessEngine())
    rows = [table.read().drop(["wall_seconds"]) for table in (Table(str(out)), whole)]
    assert rows[0].num_rows == seeds
    assert rows[0].equals(rows[1])
