"""SIGTERM and SIGKILL on real processes: results so far are kept, and no worker process is left, hung ones included."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tornlog.sim.interruption import Interruption, interruptible

HANG = """\
import sys

from tornlog.scenarios.mutants.mutant import Mutant, Patch
from tornlog.store.message_store import MessageStore

LOADS = []


def load(self, sound):
    LOADS.append(self)
    if len(LOADS) > {loads}:
        print("at work", file=sys.stderr)
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
    print("at work", file=sys.stderr)
    return sound(self)


sound = MessageStore.load
MUTANTS = [
    replace(bug, id="noisy", patches=(*bug.patches, Patch(MessageStore, "load", load)))
    for bug in (mutants.MUTANTS["ack-before-flush"],)
]
"""


class Command:
    """A tornlog in a session of its own."""

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
        """Read standard error up to a line that holds some text."""
        assert self.process.stderr is not None
        assert any(text in line for line in self.process.stderr), f"it ended without {text!r}"

    def end(self, number: int) -> tuple[str, str]:
        """Send a signal to the main process alone; return its remaining output."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=120)

    def workers(self) -> list[int]:
        """Return the processes of its session that run, or hang."""
        return [pid for pid, session, state in _processes() if session == self.process.pid and state not in "ZX"]

    def close(self) -> None:
        """Kill everything that is left."""
        for pid in self.workers():
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()


def _processes() -> Iterator[tuple[int, int, str]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session, *_ = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield int(stat.parent.name), int(session), state


@pytest.fixture
def hang(tmp_path: Path) -> str:
    file = tmp_path / "hang.py"
    file.write_text(HANG.format(loads=20))
    return str(file)


def require_no_process_left(command: Command) -> None:
    """Wait for the end of each process of a command: a kill by the kernel takes a moment."""
    for pid in command.workers():
        with suppress(ProcessLookupError), os.fdopen(os.pidfd_open(pid)) as handle:
            assert select.select([handle], [], [], 60)[0], f"process {pid} is still there"
    assert command.workers() == []


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_sigterm_keeps_the_results_so_far_and_leaves_no_hung_worker(tmp_path: Path, hang: str, jobs: str) -> None:
    out, file = tmp_path / "out", tmp_path / "run.json"
    words = ("second-start-is-refused", "--seeds", "1000", "--mutant", hang, "--jobs", jobs)
    with closing(Command("run", *words, "--out", str(out), "--json", str(file))) as command:
        command.wait_for("at work")
        told, noise = command.end(signal.SIGTERM)
        assert command.process.returncode == 128 + signal.SIGTERM
        assert noise.replace("at work\n", "") == ""
        assert "interrupted" in told.splitlines()[0]
        document = json.loads(file.read_text())
        assert document["interrupted"] is True
        assert document["scenarios"][0]["seeds"] > 0
        assert "interrupted" in (out / "report.html").read_text().lower()
        require_no_process_left(command)


def test_a_worker_ends_with_a_main_process_that_is_killed(hang: str) -> None:
    with closing(
        Command("run", "second-start-is-refused", "--seeds", "1000", "--mutant", hang, "--jobs", "2")
    ) as command:
        command.wait_for("at work")
        command.process.kill()
        command.process.wait()
        require_no_process_left(command)


@pytest.mark.parametrize(
    "words",
    [
        ("explore", "sync-flush-survives-power-loss"),
        ("explore", "sync-flush-survives-power-loss", "--jobs", "2"),
        ("explore", "sync-flush-survives-power-loss", "--schedules"),
        ("mutants", "--jobs", "2", "--seeds", "1000"),
    ],
    ids=" ".join,
)
def test_sigterm_ends_other_campaigns_with_results(tmp_path: Path, hang: str, words: tuple[str, ...]) -> None:
    file = tmp_path / "result.json"
    with closing(Command(*words, "--mutant", hang, "--json", str(file))) as command:
        command.wait_for("at work")
        told, noise = command.end(signal.SIGTERM)
        assert command.process.returncode == 128 + signal.SIGTERM
        assert noise.replace("at work\n", "") == ""
        assert "interrupted" in told
        assert file.read_text()
        require_no_process_left(command)


def test_a_shrink_that_is_interrupted_says_so_and_keeps_the_smallest_run(tmp_path: Path) -> None:
    bug, result = tmp_path / "noisy.py", tmp_path / "result.json"
    bug.write_text(NOISY)
    with closing(Command("run", "sync-flush-survives-power-loss", "--seeds", "20", *mutant_of(bug, tmp_path))) as run:
        run.process.communicate()
        (failure, *_) = tmp_path.glob("failures/*.json")
    with closing(Command("shrink", str(failure), "--time", "10m", "--json", str(result))) as command:
        command.wait_for("at work")
        told, _ = command.end(signal.SIGTERM)
        assert command.process.returncode == 128 + signal.SIGTERM
    assert told.startswith("interrupted: ")
    assert json.loads(result.read_text())["interrupted"] is True
    assert json.loads(failure.read_text())


def mutant_of(file: Path, out: Path) -> tuple[str, ...]:
    return ("--mutant", str(file), "--out", str(out))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["typer", "tornlog.reports.cli.options", "tornlog.scenarios.campaigns.runner"])
def test_a_signal_during_imports_is_one_line(number: signal.Signals, module: str) -> None:
    with closing(Command("run", "--seeds", "1000", importtime=True)) as command:
        command.wait_for(f" {module}")
        told, noise = command.end(number)
    assert command.process.returncode == 128 + number
    assert told == ""
    assert [line for line in noise.splitlines() if not line.startswith("import time:")] == ["tornlog: interrupted"]


def test_a_second_sigterm_breaks_off_no_clean_up() -> None:
    with interruptible() as interruption:
        assert interruption.unless_wanted(lambda: os.kill(os.getpid(), signal.SIGTERM)) is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.exit_code == 143
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_an_interruption_before_any_signal_has_the_exit_code_of_ctrl_c() -> None:
    assert Interruption().exit_code == 130
