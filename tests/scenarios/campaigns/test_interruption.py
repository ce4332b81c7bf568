"""SIGINT, SIGTERM and SIGKILL on real processes: finished results are written, and all worker processes end."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tornlog.scenarios.campaigns.runner import batches_of, run_batches
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.sim.interruption import Interruption, interruptible

SECONDS_MAX = 30.0
"""The time limit for the end of a command: one or two seconds on an idle machine.

The interrupted work would take many minutes.
"""

HANG = """\
import sys

from tornlog.scenarios.mutants.mutant import Mutant, Patch
from tornlog.store.message_store import MessageStore

LOADS = []


def load(self, sound):
    LOADS.append(self)
    if len(LOADS) > {loads}:
        sys.stderr.write("at work\\n")
        while True:
            pass
    return sound(self)


sound = MessageStore.load
HANG = Mutant("hang", "hangs in a load", (Patch(MessageStore, "load", lambda self: load(self, sound)),), ())
"""

NOISY = """\
import sys
from dataclasses import replace

from tornlog.scenarios import mutants
from tornlog.scenarios.mutants.mutant import Patch
from tornlog.store.message_store import MessageStore


def load(self):
    sys.stderr.write("at work\\n")
    return sound(self)


sound = MessageStore.load
MUTANTS = [
    replace(bug, id="noisy", patches=(*bug.patches, Patch(MessageStore, "load", load)))
    for bug in (mutants.MUTANTS["ack-before-flush"],)
]
"""


class Command:
    """A tornlog process in its own session and process group, as if started by a terminal."""

    def __init__(self, *words: str, importtime: bool = False) -> None:
        options = ["-X", "importtime"] if importtime else []
        self.process = subprocess.Popen(
            [sys.executable, *options, "-m", "tornlog", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, text: str) -> None:
        """Read standard error up to the first line that contains a text."""
        assert self.process.stderr is not None
        assert any(text in line for line in self.process.stderr), f"it ended without {text!r}"

    def end(self, number: int) -> tuple[str, str]:
        """Send a signal to the main process only, and return the remaining output."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=120)

    def interrupt_after(self, cpu_seconds: float) -> tuple[str, str]:
        """Send SIGINT to the whole process group after it has used some CPU time, and return the output."""
        deadline = time.monotonic() + 300
        while self._cpu_seconds() < cpu_seconds and self.process.poll() is None:
            assert time.monotonic() < deadline, "it does not start to work"
            time.sleep(0.05)
        began = time.monotonic()
        os.killpg(self.process.pid, signal.SIGINT)
        output = self.process.communicate(timeout=60)
        assert self.process.returncode == 130
        assert time.monotonic() - began < SECONDS_MAX
        return output

    def _cpu_seconds(self) -> float:
        ticks = sum(ticks for _, group, _, ticks in _processes() if group == self.process.pid)
        return ticks / os.sysconf("SC_CLK_TCK")

    def workers(self) -> list[int]:
        """Return the processes of the command's session that have not ended."""
        return [pid for pid, session, state, _ in _processes() if session == self.process.pid and state not in "ZX"]

    def require_no_process_left(self) -> None:
        """Wait until all processes of the session have ended, because a kill by the kernel takes a moment."""
        for pid in self.workers():
            with suppress(ProcessLookupError), os.fdopen(os.pidfd_open(pid)) as handle:
                assert select.select([handle], [], [], 60)[0], f"process {pid} is still there"
        assert self.workers() == []

    def close(self) -> None:
        """Kill the remaining processes."""
        for pid in self.workers():
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()


def _processes() -> Iterator[tuple[int, int, str, int]]:
    """Yield the id, session, state and CPU ticks of every process."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session, *rest = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield int(stat.parent.name), int(session), state, int(rest[7]) + int(rest[8])


@pytest.fixture
def hanging_scenario(tmp_path: Path) -> str:
    file = tmp_path / "hang.py"
    file.write_text(HANG.format(loads=20))
    return str(file)


# -- Ctrl-C ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupted_run_writes_all_of_its_results(tmp_path: Path, jobs: int) -> None:
    out = tmp_path / "out"
    files = {name: tmp_path / name for name in ("run.json", "junit.xml", "summary.md")}
    command = Command(
        *("run", "--seeds", "100000", "--mutant", "ack-before-flush", "--jobs", str(jobs), "--out", str(out)),
        *("--json", str(files["run.json"]), "--junit", str(files["junit.xml"])),
        *("--summary", str(files["summary.md"])),
    )
    with closing(command):
        printed, noise = command.interrupt_after(1.0 + 2.0 * jobs)
    assert noise == ""
    assert "interrupted" in printed.splitlines()[0]
    document = json.loads(files["run.json"].read_text())
    assert document["interrupted"] is True
    ran = {row["name"] for row in document["scenarios"]}
    assert ran | set(document["not_run"]) == set(SCENARIOS)
    assert not ran & set(document["not_run"])
    assert sum(row["violations"] for row in document["scenarios"]) > 0
    assert document["failures"]
    assert all(Path(path).exists() for path in document["failures"])
    assert "reproduce: tornlog replay" in printed
    assert "interrupted" in (out / "report.html").read_text()
    assert "interrupted" in files["summary.md"].read_text().splitlines()[0]
    assert files["junit.xml"].read_text().count("<testcase ") == len(SCENARIOS)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupted_mutation_run_names_the_mutants_that_were_not_run(tmp_path: Path, jobs: int) -> None:
    file = tmp_path / "mutants.json"
    command = Command("mutants", "--narrowed", "--jobs", str(jobs), "--seeds", "100000", "--json", str(file))
    with closing(command):
        printed, noise = command.interrupt_after(1.0 + 2.0 * jobs)
    assert noise == ""
    assert printed.startswith("interrupted")
    rows = json.loads(file.read_text())
    assert any(row.get("not_run") for row in rows)
    assert any(row.get("found") for row in rows)


@pytest.mark.ci
@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupted_fuzzing_writes_its_results(tmp_path: Path, jobs: int) -> None:
    file = tmp_path / "fuzzed.json"
    command = Command(
        *("fuzz", "index", "checkpoint", "--time", "10m", "--seed", "0", "--mutant", "record-crc-unchecked"),
        *("--jobs", str(jobs), "--json", str(file)),
    )
    with closing(command):
        _, noise = command.interrupt_after(1.5 + jobs)  # first imports take a second
    assert noise == ""
    document = json.loads(file.read_text())
    assert document["interrupted"] is True
    assert document["formats"][0]["inputs"] > 0


# -- SIGTERM and SIGKILL ---------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_sigterm_keeps_the_results_so_far_and_leaves_no_hung_worker(
    tmp_path: Path, hanging_scenario: str, jobs: str
) -> None:
    out, file = tmp_path / "out", tmp_path / "run.json"
    words = ("second-start-refused", "--seeds", "1000", "--mutant", hanging_scenario, "--jobs", jobs)
    with closing(Command("run", *words, "--out", str(out), "--json", str(file))) as command:
        command.wait_for("at work")
        printed, noise = command.end(signal.SIGTERM)
        assert command.process.returncode == 128 + signal.SIGTERM
        assert noise.replace("at work\n", "") == ""
        assert "interrupted" in printed.splitlines()[0]
        document = json.loads(file.read_text())
        assert document["interrupted"] is True
        assert document["scenarios"][0]["seeds"] > 0
        assert "interrupted" in (out / "report.html").read_text().lower()
        command.require_no_process_left()


def test_a_worker_process_ends_when_the_main_process_is_killed(hanging_scenario: str) -> None:
    words = ("second-start-refused", "--seeds", "1000", "--mutant", hanging_scenario, "--jobs", "2")
    with closing(Command("run", *words)) as command:
        command.wait_for("at work")
        command.process.kill()
        command.process.wait()
        command.require_no_process_left()


@pytest.mark.parametrize(
    "words",
    [
        ("explore", "sync-flush-power-cut"),
        ("explore", "sync-flush-power-cut", "--jobs", "2"),
        ("explore", "sync-flush-power-cut", "--schedules"),
        ("mutants", "--jobs", "2", "--seeds", "1000"),
    ],
    ids=" ".join,
)
def test_sigterm_ends_other_campaigns_with_results(
    tmp_path: Path, hanging_scenario: str, words: tuple[str, ...]
) -> None:
    file = tmp_path / "result.json"
    with closing(Command(*words, "--mutant", hanging_scenario, "--json", str(file))) as command:
        command.wait_for("at work")
        printed, noise = command.end(signal.SIGTERM)
        assert command.process.returncode == 128 + signal.SIGTERM
        assert noise.replace("at work\n", "") == ""
        assert "interrupted" in printed
        assert file.read_text()
        command.require_no_process_left()


def test_an_interrupted_shrink_keeps_the_smallest_run(tmp_path: Path) -> None:
    bug, result = tmp_path / "noisy.py", tmp_path / "result.json"
    bug.write_text(NOISY)
    words = ("sync-flush-power-cut", "--seeds", "20", "--mutant", str(bug), "--out", str(tmp_path))
    with closing(Command("run", *words)) as run:
        run.process.communicate()
        (failure, *_) = tmp_path.glob("failures/*.json")
    with closing(Command("shrink", str(failure), "--time", "10m", "--json", str(result))) as command:
        command.wait_for("at work")
        printed, _ = command.end(signal.SIGTERM)
        assert command.process.returncode == 128 + signal.SIGTERM
    assert printed.startswith("interrupted: ")
    assert json.loads(result.read_text())["interrupted"] is True
    assert json.loads(failure.read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["typer", "tornlog.reports.cli.options", "tornlog.scenarios.campaigns.runner"])
def test_a_signal_during_imports_prints_one_line(number: signal.Signals, module: str) -> None:
    with closing(Command("run", "--seeds", "1000", importtime=True)) as command:
        command.wait_for(f" {module}")
        printed, noise = command.end(number)
    assert command.process.returncode == 128 + number
    assert printed == ""
    assert [line for line in noise.splitlines() if not line.startswith("import time:")] == ["tornlog: interrupted"]


# -- in one process --------------------------------------------------------------------------------


def test_after_an_interruption_only_finished_work_has_results() -> None:
    assert Interruption().exit_code == 130
    with interruptible() as interruption:
        assert interruption.result_unless_requested(lambda: 7) == 7
        assert interruption.result_unless_requested(lambda: os.kill(os.getpid(), signal.SIGINT)) is None
        assert interruption.is_requested
        assert interruption.result_unless_requested(lambda: 7) is None
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_between_two_work_items_raises_no_error() -> None:
    with interruptible() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.is_requested


def test_a_second_sigterm_does_not_interrupt_the_cleanup() -> None:
    with interruptible() as interruption:
        assert interruption.result_unless_requested(lambda: os.kill(os.getpid(), signal.SIGTERM)) is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.exit_code == 143
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_an_error_of_uninterrupted_work_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        Interruption().result_unless_requested(lambda: 1 // 0)


def test_an_interrupted_batch_keeps_its_first_seeds() -> None:
    scenario, interruption = SCENARIOS["second-start-refused"], Interruption()

    def stop(tally: object, more: int) -> None:
        interruption.reason = "Ctrl-C"

    tallies = run_batches(batches_of([scenario], range(100)), on_progress=stop, interruption=interruption)
    assert tallies[scenario.name].seeds == 1
