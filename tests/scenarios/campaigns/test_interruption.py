"""Ctrl-C, on real processes: what was done is told and left, soon, and nobody makes a noise."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tornlog.scenarios.campaigns.runner import batches_of, run_batches
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.sim.interruption import Interruption, interruptible

SECONDS_MAX = 30.0
"""One or two on an idle machine; what is left to do when they are interrupted would take many minutes."""


class Run:
    """A tornlog in a process group of its own, as a terminal starts it."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tornlog", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def cpu_seconds(self) -> float:
        """Return how much CPU time it and its children have had."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == self.process.pid:
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def interrupt_after(self, cpu_seconds: float) -> tuple[str, str, float]:
        """Send SIGINT to the whole group when it is at work; return what it says, and what it took to end."""
        deadline = time.monotonic() + 300
        while self.cpu_seconds() < cpu_seconds and self.process.poll() is None:
            assert time.monotonic() < deadline, "it does not get to work"
            time.sleep(0.05)
        began = time.monotonic()
        try:
            os.killpg(self.process.pid, signal.SIGINT)
            out, err = self.process.communicate(timeout=60)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.communicate()
        return out, err, time.monotonic() - began


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupted_run_leaves_all_that_it_found(out: Path, tmp_path: Path, jobs: int) -> None:
    files = {name: tmp_path / name for name in ("run.json", "junit.xml", "summary.md")}
    run = Run(
        *("run", "--seeds", "100000", "--mutant", "ack-before-flush", "--jobs", str(jobs), "--out", str(out)),
        *("--json", str(files["run.json"]), "--junit", str(files["junit.xml"])),
        *("--summary", str(files["summary.md"])),
    )
    told, noise, seconds = run.interrupt_after(1.0 + 2.0 * jobs)
    assert run.process.returncode == 130
    assert noise == ""
    assert "interrupted" in told.splitlines()[0]
    document = json.loads(files["run.json"].read_text())
    assert document["interrupted"] is True
    ran = {row["name"] for row in document["scenarios"]}
    assert ran | set(document["not_run"]) == set(SCENARIOS)
    assert not ran & set(document["not_run"])
    assert sum(row["violations"] for row in document["scenarios"]) > 0
    assert document["failures"]
    assert all(Path(path).exists() for path in document["failures"])
    assert "again: tornlog replay" in told
    assert "interrupted" in (out / "report.html").read_text()
    assert "interrupted" in files["summary.md"].read_text().splitlines()[0]
    assert files["junit.xml"].read_text().count("<testcase ") == len(SCENARIOS)
    assert seconds < SECONDS_MAX


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupted_hunt_names_the_mutants_it_did_not_get_to(tmp_path: Path, jobs: int) -> None:
    file = tmp_path / "hunts.json"
    run = Run("mutants", "--narrowed", "--jobs", str(jobs), "--seeds", "100000", "--json", str(file))
    told, noise, seconds = run.interrupt_after(1.0 + 2.0 * jobs)
    assert run.process.returncode == 130
    assert noise == ""
    assert told.startswith("interrupted")
    rows = json.loads(file.read_text())
    assert any(row.get("not_run") for row in rows)
    assert any(row.get("found") for row in rows)
    assert seconds < SECONDS_MAX


@pytest.mark.ci
@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupted_fuzzing_hands_in_what_it_has(tmp_path: Path, jobs: int) -> None:
    file = tmp_path / "fuzzed.json"
    run = Run(
        *("fuzz", "index", "checkpoint", "--time", "10m", "--seed", "0", "--mutant", "record-crc-unchecked"),
        *("--jobs", str(jobs), "--json", str(file)),
    )
    _, noise, seconds = run.interrupt_after(2.0 + 3.0 * jobs)  # modules that nobody has imported yet take a second
    assert run.process.returncode == 130
    assert noise == ""
    document = json.loads(file.read_text())
    assert document["interrupted"] is True
    assert document["formats"][0]["inputs"] > 0
    assert seconds < SECONDS_MAX


def test_what_a_signal_breaks_off_is_lost_and_what_was_done_is_not() -> None:
    with interruptible() as interruption:
        assert interruption.unless_wanted(lambda: 7) == 7
        assert interruption.unless_wanted(lambda: os.kill(os.getpid(), signal.SIGINT)) is None
        assert interruption.is_wanted
        assert interruption.unless_wanted(lambda: 7) is None
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_between_two_works_ends_nothing_in_its_midst() -> None:
    with interruptible() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.is_wanted


def test_an_error_of_work_that_nobody_interrupts_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        Interruption().unless_wanted(lambda: 1 // 0)


def test_an_interrupted_batch_keeps_its_first_seeds() -> None:
    scenario, interruption = SCENARIOS["second-start-is-refused"], Interruption()

    def stop_after_three(tally: object, more: int) -> None:
        interruption.reason = "Ctrl-C"

    tallies = run_batches(batches_of([scenario], range(100)), on_progress=stop_after_three, interruption=interruption)
    assert tallies[scenario.name].seeds == 1
