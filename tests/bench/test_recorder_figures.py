import os
import resource
import subprocess
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tests.bench import recorder, tables
from tests.bench.figure import Figure
from tests.bench.recorded_programs import PROGRAMS, missing_tool
from tests.bench.recorder import is_recordable, why_no_strace
from tests.bench.workplace import BenchSettings, Workplace

pytestmark = pytest.mark.skipif(not is_recordable(), reason="programs are not recorded on this system")

Commands = list[tuple[list[str], str]]


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(BenchSettings(str(tmp_path), seconds=0.1))


@pytest.fixture
def run_commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Return the commands run and the trace of each, empty without one."""
    commands = []
    run = subprocess.run

    def watched(command: list[str], **keywords: Any) -> "subprocess.CompletedProcess[str]":
        done = run(command, **keywords)
        trace = Path(keywords.get("cwd", "."), "trace")
        commands.append((command, trace.read_text() if trace.exists() else ""))
        return done

    monkeypatch.setattr(subprocess, "run", watched)
    return commands


@pytest.mark.parametrize(("kind", "many"), [("calls", 2_100), ("stores", 2_100), ("syncs", 200), ("promises", 200)])
def test_the_recorder_runs_with_100_steps_and_then_with_many(
    place: Workplace, run_commands: Commands, kind: str, many: int
) -> None:
    with place:
        recorder.measure_recorded(place, kind=kind)  # checks that each call is a step
    assert [command[-2:] for command, _ in run_commands] == [[kind, "100"], [kind, str(many)]]


@pytest.mark.skipif(bool(why_no_strace()), reason="strace is not installed")
def test_strace_runs_with_100_calls_and_then_with_200(place: Workplace, run_commands: Commands) -> None:
    with place:
        recorder.measure_under_strace(place, "promises")
    for call in ("pwrite64(", "fsync(", "write(1"):
        assert [trace.count(call) for _, trace in run_commands] == [100, 200]


def test_all_processes_of_a_figure_run_on_the_same_processor(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.sched_getaffinity(0)
    seen = []
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: seen.append(os.sched_getaffinity(0)))
    with place:
        recorder.measure_without_recording(place, "calls")
        recorder.measure_under_strace(place, "calls")
    assert seen == [{max(before)}] * 4
    assert os.sched_getaffinity(0) == before


def test_the_cost_of_a_call_is_the_difference_between_two_runs_divided_by_the_extra_calls(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent_us = 0

    def run(command: list[str], **_: Any) -> None:
        nonlocal spent_us
        spent_us += 30_000 + 7 * int(command[-1])  # the start, and each call

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(resource, "getrusage", lambda _: SimpleNamespace(ru_utime=spent_us / 1e6, ru_stime=0.0))
    with place:
        assert recorder.measure_without_recording(place, "calls").rate == pytest.approx(7)


def test_a_missing_strace_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert why_no_strace() == "strace is not on the PATH"
    monkeypatch.setattr(tables, "why_missing", lambda: "")
    out = Console(file=StringIO(), width=100)
    tables.print_bench(out, [Figure("sheep", "sheep/s", None, (1.0,))], 1)
    assert "not measured beside strace: strace is not on the PATH" in out.file.getvalue()  # type: ignore[attr-defined]


def test_a_recorder_that_fails_raises_an_error(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with place, pytest.raises(RuntimeError, match="the recorder has ended with 1"):
        recorder.measure_recorded(place, kind="calls")


@pytest.mark.ci
@pytest.mark.parametrize("name", PROGRAMS)
def test_known_programs_make_a_step_for_each_durable_write(place: Workplace, run_commands: Commands, name: str) -> None:
    if tool := missing_tool(name):
        pytest.skip(f"{tool} is not installed")
    with place:
        recorder.measure_recorded(place, kind=name)  # checks that each write is a step
    assert [command[-1] for command, _ in run_commands if "tests.bench.recorder" in command] == ["100", "200"]
