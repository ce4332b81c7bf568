"""What recording costs is measured where programs are recorded, beside strace where there is one."""

import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tornlog.reports.bench import tables
from tornlog.reports.bench.figure import Figure
from tornlog.reports.bench.recorder import call_under_strace, is_recordable, recorded, why_no_strace
from tornlog.reports.bench.workplace import BenchSettings, Workplace

pytestmark = pytest.mark.skipif(not is_recordable(), reason="programs are not recorded on this system")


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(BenchSettings(str(tmp_path), seconds=0.1))


@pytest.mark.parametrize("kind", ["calls", "stores"])
def test_a_recorded_step_costs_some_microseconds(place: Workplace, kind: str) -> None:
    with place:
        assert 5 < recorded(place, kind=kind).rate < 5_000


@pytest.mark.skipif(bool(why_no_strace()), reason="strace is not installed")
def test_a_call_under_strace_costs_some_microseconds(place: Workplace) -> None:
    with place:
        assert 5 < call_under_strace(place).rate < 5_000


def test_where_there_is_no_strace_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert why_no_strace() == "strace is not on the PATH"
    monkeypatch.setattr(tables, "why_missing", lambda: "")
    out = Console(file=StringIO(), width=100)
    tables.print_bench(out, [Figure("sheep", "sheep/s", None, (1.0,))], 1)

    assert "not measured beside strace: strace is not on the PATH" in out.file.getvalue()  # type: ignore[attr-defined]


def test_a_recorder_that_fails_is_no_measurement(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")

    with place, pytest.raises(RuntimeError, match="the recorder has ended with 1"):
        recorded(place, kind="calls")
