import json
from pathlib import Path

import pytest

from tests.command_line import tornlog, usage_error
from tornlog.reports.timeline import page as timeline_module
from tornlog.reports.timeline import perfetto
from tornlog.reports.timeline.recording.record import RunRecording
from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.seeds import digest_of
from tornlog.scenarios.claims.catalogue import SCENARIOS


class Pen:
    """Records calls for drawings."""

    def timeline(self, run_recording: RunRecording) -> str:
        return f"{run_recording.subject.scenario} {run_recording.digest}"

    def trace(self, run_recording: RunRecording) -> str:
        return json.dumps(len(run_recording.moments))


@pytest.fixture
def fake_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_module, "timeline_page", Pen().timeline)
    monkeypatch.setattr(perfetto, "trace_json", Pen().trace)


@pytest.fixture
def stored(failure: Failure, tmp_path: Path) -> Path:
    file = tmp_path / "failure.json"
    file.write_text(failure.to_json())
    return file


def test_a_replay_writes_its_timeline_and_trace_files(
    fake_timeline: None, stored: Path, failure: Failure, tmp_path: Path
) -> None:
    page, trace = tmp_path / "new" / "page.html", tmp_path / "trace.json"
    result = tornlog("replay", stored, "--timeline", page, "--trace", trace, "--json", "-")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["drawn"] == [str(page), str(trace)]
    assert document["same"] is True
    assert page.read_text() == f"{failure.scenario} {failure.original.digest}"
    assert json.loads(trace.read_text()) > 50


def test_a_replay_without_timeline_options_writes_no_timeline(fake_timeline: None, stored: Path) -> None:
    result = tornlog("replay", stored, "--json", "-")
    assert "drawn" not in json.loads(result.stdout)


def test_a_single_seed_of_one_scenario_can_be_drawn_as_a_timeline(fake_timeline: None, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = tornlog("run", "clean-shutdown", "--seed", 3, "--timeline", page, "--json", "-")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["drawn"] == [str(page)]
    name = "clean-shutdown"
    assert page.read_text() == f"{name} {digest_of(SCENARIOS[name], 3)}"


def test_the_timeline_of_a_seed_uses_its_mutant_and_schedule(fake_timeline: None, tmp_path: Path) -> None:
    page, schedule = tmp_path / "page.html", tmp_path / "schedule"
    schedule.write_text("life-0/main @ spawn #1 -> life-0/main\n")
    more = ("--seed", 1, "--timeline", page, "--json", "-")
    plain = tornlog("run", "sync-flush-power-cut", *more)
    first = page.read_text()
    tornlog("run", "sync-flush-power-cut", "--mutant", "ack-before-flush", *more)
    assert page.read_text() != first
    result = tornlog("run", "sync-flush-power-cut", "--schedule", schedule, *more)
    assert page.read_text() != first
    assert (plain.exit_code, result.exit_code) == (0, 0)


@pytest.mark.parametrize("arguments", [("clean-shutdown", "--seeds", "2"), ("--seed", "1"), ("clean-shutdown",)])
def test_a_timeline_of_several_runs_is_a_usage_error(
    fake_timeline: None, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    page = tmp_path / "page.html"
    assert "expected one scenario and --seed" in usage_error("run", *arguments, "--timeline", page)
    assert not page.exists()


def test_timeline_pages_are_complete_html_documents(stored: Path, tmp_path: Path) -> None:
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    assert tornlog("replay", stored, "--timeline", page, "--trace", trace).exit_code == 1
    assert page.read_text().startswith("<!doctype html>")
    assert json.loads(trace.read_text())["traceEvents"]
