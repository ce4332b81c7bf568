import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tornlog.reports.pipeline.audit.audit import audit
from tornlog.reports.pipeline.spark.engine import InProcessEngine, SparkEngine
from tornlog.reports.pipeline.spark.session import session
from tornlog.reports.pipeline.sweep.request import SweepRequest
from tornlog.reports.pipeline.sweep.sweep import SweepProgress, run_sweep
from tornlog.reports.pipeline.sweep.table import Table
from tornlog.scenarios.claims.catalogue import SCENARIOS

pytestmark = pytest.mark.slow

NAME = "clean-shutdown"
SMALL = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
SECONDS_MAX = 120.0
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def environment(bare_python: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An archive that contains a Python, for --ship."""
    place = tmp_path_factory.mktemp("environment")
    python = place / "python"
    python.write_text(f'#!/bin/sh\nexec {bare_python} "$@"\n')
    python.chmod(0o755)
    with tarfile.open(place / "packed.tar.gz", "w:gz") as archive:
        archive.add(python, "bin/python")
    return f"{place}/packed.tar.gz#environment"


@pytest.fixture(autouse=True)
def without_idle_session(cluster: Any) -> Iterator[None]:
    """Stop the session and its executors after a test, because a process has one session."""
    assert SparkSession.getActiveSession() is None
    yield
    assert SparkSession.getActiveSession() is None
    until(lambda: not cluster.executors())


@contextmanager
def session_of_two(master: str, config: Mapping[str, str], ship: list[str]) -> Iterator[SparkSession]:
    """Yield a session once both workers have an executor for it, and stop it."""
    with session(master, config=config, ship=ship) as running:
        until(lambda: len(finished_tasks(running)) == 2)
        yield running


@pytest.fixture
def spark(cluster: Any, wheel: Path, environment: str) -> Iterator[SparkSession]:
    with session_of_two(cluster.master, SMALL, [str(wheel), environment]) as running:
        yield running


@pytest.fixture
def invoke(cluster: Any, bare_python: Path, tmp_path: Path) -> Callable[..., Done]:
    """Return a function that sweeps twenty seeds on a master, in a process of its own."""

    def call(*arguments: object, master: str = cluster.master) -> Done:
        options = ["--seeds", 20, "--scenario", NAME, "--out", tmp_path / "out", "--master", master]
        settings = {**SMALL, "spark.pyspark.python": bare_python}
        for name, value in settings.items():
            options += ["--conf", f"{name}={value}"]
        return subprocess.run(
            [sys.executable, "-m", "tornlog", "sweep", *map(str, (*options, *arguments))],
            env={**os.environ, "COLUMNS": "400"},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=2 * SECONDS_MAX,
        )

    return call


@pytest.fixture
def other_wheel(wheel: Path, tmp_path: Path) -> Path:
    """A wheel of the same version with one more line."""
    changed = tmp_path / wheel.name
    module = "tornlog/scenarios/runs/store_run.py"
    assert module in zipfile.ZipFile(wheel).namelist()
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            line_more = b"# changed\n" if name == module else b""
            new.writestr(name, old.read(name) + line_more)
    return changed


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def rows_of(table: Table) -> Any:
    return table.read().drop(["wall_seconds"])


def finished_tasks(spark: SparkSession) -> dict[str, int]:
    """Return the number of finished tasks by executor."""
    jvm: Any = spark.sparkContext._jsc
    executors = jvm.sc().statusStore().executorList(False)
    found = [executors.apply(number) for number in range(executors.size())]
    return {one.id(): one.completedTasks() for one in found if one.id() != "driver"}


def test_the_python_of_the_workers_has_all_packages_except_tornlog(bare_python: Path, tmp_path: Path) -> None:
    def tried(line: str) -> Done:
        command = [bare_python, "-c", line]
        return subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True, check=False)

    assert tried("import greenlet, isal, pyarrow, rich, typer").returncode == 0
    assert "No module named 'tornlog'" in tried("import tornlog").stderr


def test_the_command_ships_the_requested_parts(invoke: Callable[..., Done], wheel: Path, tmp_path: Path) -> None:
    result = invoke("--ship", wheel)

    assert result.returncode == 0, result.stdout
    assert Table(str(tmp_path / "out")).read().num_rows == 20


def test_without_shipped_parts_the_command_names_the_missing_packages(invoke: Callable[..., Done]) -> None:
    result = invoke()

    assert result.returncode == 2, result.stdout
    assert "executors lack tornlog: ship them, or install them where executors run" in result.stdout


def test_a_shipped_wheel_of_other_code_is_refused(invoke: Callable[..., Done], other_wheel: Path) -> None:
    result = invoke("--ship", other_wheel)

    assert result.returncode == 2, result.stdout
    assert "ship or install the driver's code" in result.stdout


def test_a_cluster_inside_the_driver_accepts_shipped_parts(
    invoke: Callable[..., Done], wheel: Path, tmp_path: Path
) -> None:
    result = invoke("--ship", wheel, master="local-cluster[2,1,1024]")

    assert result.returncode == 0, result.stdout
    assert Table(str(tmp_path / "out")).read().num_rows == 20


def test_two_workers_audit_a_store_with_the_shipped_wheel(
    cluster: Any, bare_python: Path, wheel: Path, source: Path, tmp_path: Path
) -> None:
    with tarfile.open(source / "tests/golden/02-multi-rollover/store.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    root = tmp_path / "before"
    settings = {**SMALL, "spark.pyspark.python": str(bare_python)}
    with session_of_two(cluster.master, settings, [str(wheel)]) as spark:
        engine = SparkEngine(spark.sparkContext)
        found = audit(engine, str(root))
        assert (found.counts["records"], found.counts["entries"], found.counts["indexEntries"]) == (145, 145, 138)
        assert found.findings.violations == []
        assert min(finished_tasks(spark).values()) > 0

        queue = min((root / "consumequeue").glob("*/*/*"))
        raw = queue.read_bytes()
        queue.write_bytes(raw[:7] + bytes([raw[7] ^ 1]) + raw[8:])
        entry, record = audit(engine, str(root)).findings.violations
    assert (entry.promise.value, entry.file) == ("CQ-VALID", str(queue.relative_to(root)))
    assert (entry.offset, entry.field) == (0, "phyOffset")
    assert record.promise.value == "CQ-COMPLETE"  # the session does not use this Java any more


def test_two_workers_run_a_sweep_with_the_shipped_wheel(spark: SparkSession, wheel: Path, tmp_path: Path) -> None:
    request = SweepRequest(tuple(SCENARIOS), 0, 6, block_seeds=3)
    shipped, here = Table(str(tmp_path / "shipped")), Table(str(tmp_path / "here"))
    assert run_sweep(request, shipped, SparkEngine(spark.sparkContext)).is_complete
    run_sweep(request, here, InProcessEngine())

    assert rows_of(shipped).num_rows == 6 * len(SCENARIOS)
    assert rows_of(shipped).equals(rows_of(here))
    blocks = finished_tasks(spark)
    assert len(blocks) == 2
    assert min(blocks.values()) > 0
    assert sum(blocks.values()) == 2 * len(SCENARIOS) + len(blocks)  # each core was asked for its packages first

    def origin(_: int) -> str:
        from tornlog.scenarios.runs import store_run

        return store_run.__file__

    found = spark.sparkContext.parallelize(range(20), 20).map(origin).distinct().collect()
    assert found == [f"./{wheel.stem}.zip/tornlog/scenarios/runs/store_run.py"]


def test_the_cluster_listens_only_on_loopback(
    spark: SparkSession, cluster: Any, other_listen_addresses: Callable[[int], list[str]]
) -> None:
    spark.sparkContext.parallelize(range(2), 2).map(abs).collect()
    jvm: Any = spark.sparkContext._jvm
    driver = jvm.java.lang.ProcessHandle.current().pid()

    assert len(cluster.executors()) == 2
    for pid in (driver, *cluster.daemons, *cluster.executors()):
        assert other_listen_addresses(pid) == []


def test_every_seed_has_a_row_even_if_an_executor_dies(spark: SparkSession, cluster: Any, tmp_path: Path) -> None:
    request = SweepRequest((NAME,), 0, 200, block_seeds=10)
    victim, *_ = cluster.executors()

    def at_the_third_block(progress: SweepProgress) -> None:
        if progress.done == 30:
            os.kill(victim, signal.SIGKILL)

    broken, here = Table(str(tmp_path / "broken")), Table(str(tmp_path / "here"))
    assert run_sweep(request, broken, SparkEngine(spark.sparkContext), on_progress=at_the_third_block).is_complete
    run_sweep(request, here, InProcessEngine())

    assert victim not in cluster.executors()
    assert rows_of(broken).equals(rows_of(here))
