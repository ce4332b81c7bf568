"""The measurements measure what they say."""

from pathlib import Path

import pytest

from tornlog.scenarios import bench
from tornlog.scenarios.bench import Figure


def test_a_figure_is_the_median_of_its_samples() -> None:
    figure = Figure("sheep counted", "sheep/s", 100.0, (90.0, 1250.0, 120.0))
    assert figure.median == 120.0
    assert figure.to_json() == {
        "name": "sheep counted",
        "unit": "sheep/s",
        "floor": 100.0,
        "median": 120.0,
        "samples": [90.0, 1250.0, 120.0],
    }


def test_a_crash_run_is_complete_and_holds() -> None:
    assert bench.crash_runs() > 0.0  # it asserts one crash a run and no violation itself


def test_kernel_steps_are_counted() -> None:
    assert bench.kernel_steps() > 0.0


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(bench, "_PUTS", 200)
    monkeypatch.setattr(bench, "_LOG_BYTES", 1 << 20)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_real_puts_are_counted_and_leave_nothing_behind(small: Path) -> None:
    assert bench.real_puts() > 0.0
    assert list(small.iterdir()) == []


def test_a_recovery_scan_reads_every_record_and_leaves_nothing_behind(small: Path) -> None:
    assert bench.recovery_scan() > 0.0
    assert list(small.iterdir()) == []


def test_every_figure_is_measured_as_often_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("kernel_steps", "simulated_messages", "crash_runs", "real_puts", "recovery_scan")
    for name in names:
        monkeypatch.setattr(bench, name, lambda: 7.0)
    begun: list[str] = []
    figures = bench.run_bench(3, begun.append)
    assert [figure.name for figure in figures] == begun
    assert len(figures) == len(names)
    assert all(figure.samples == (7.0, 7.0, 7.0) for figure in figures)
