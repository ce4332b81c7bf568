import pytest

from tornlog.reports.cli import console
from tornlog.reports.cli.console import show_progress, with_progress


def test_without_a_terminal_few_progress_lines_are_printed_but_always_the_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 1.0, 6.0, 7.0])
    monkeypatch.setattr(console, "monotonic", lambda: next(times))

    assert list(with_progress("simulating", ["hdd", "ssd", "nvme"], 3, str.upper)) == ["hdd", "ssd", "nvme"]
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == ["simulating: 2 of 3, SSD", "simulating: 3 of 3, NVME"]


def test_progress_without_a_total_shows_the_number_of_done_items(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 9.0])
    monkeypatch.setattr(console, "monotonic", lambda: next(times))

    assert list(with_progress("changing assumptions", [1], None)) == [1]
    assert capsys.readouterr().err == "changing assumptions: 1\n"


def test_long_work_prints_a_progress_line_every_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(console, "monotonic", lambda: now)
    with show_progress("running seeds", 5_000) as update:
        for now in (1.0, 61.0, 90.0, 122.0):
            update(completed=int(now) * 10, facts="0 broken")
    with show_progress("running seeds", 150.0) as update:  # short work has no progress lines
        now = 200.0
        update(completed=78.0, facts="9 seeds")

    assert capsys.readouterr().err.splitlines() == [
        "running seeds: 610 of 5,000, 0 broken",
        "running seeds: 1,220 of 5,000, 0 broken",
        "running seeds: 9 seeds",
    ]
