"""`tornlog run --against`: the same seeds, run by the code of two commits."""

import json
from pathlib import Path

import pytest

from tests.command_line import tornlog

RUN = ("run", "sync-flush-power-cut", "clean-shutdown", "--no-corpus")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of four seeds."""
    file = tmp_path_factory.mktemp("before") / "before.json"
    assert tornlog(*RUN, "--seeds", 4, "--json", file).exit_code == 0
    return file


def test_the_same_code_runs_the_same_events(before: Path) -> None:
    result = tornlog(*RUN, "--seeds", 4, "--against", before)

    assert result.exit_code == 0
    assert f"Compared with {before}: 2 of 2 scenarios ran the same events in every seed" in result.output
    assert "change" not in result.output


def test_other_code_has_a_row_for_each_scenario_that_differs(before: Path, tmp_path: Path) -> None:
    now = tmp_path / "now.json"
    result = tornlog(*RUN, "--seeds", 4, "--mutant", "ack-before-flush", "--against", before, "--json", now)

    assert result.exit_code == 1
    first, second = json.loads(now.read_text())["against"]
    assert first == {"name": "sync-flush-power-cut", "change": "breaks more", "before": 0, "now": 4}
    assert second["name"] == "clean-shutdown"
    assert "breaks more" in result.output
    assert "0 of 2 scenarios ran the same events" in result.output

    mended = tornlog(*RUN, "--seeds", 4, "--against", now, "--json", tmp_path / "mended.json")
    assert mended.exit_code == 0
    (row, _) = json.loads((tmp_path / "mended.json").read_text())["against"]
    assert row == {"name": "sync-flush-power-cut", "change": "breaks less", "before": 4, "now": 0}


def test_code_that_differs_without_breaking_a_promise_has_other_events(before: Path, tmp_path: Path) -> None:
    document = json.loads(before.read_text())
    document["scenarios"][0]["digest"] = "0" * 32
    del document["scenarios"][1]
    (tmp_path / "other.json").write_text(json.dumps(document))

    result = tornlog(*RUN, "--seeds", 4, "--against", tmp_path / "other.json")

    assert "other events" in result.output
    assert "0 of 1 scenario ran the same events" in result.output


def test_scenarios_of_one_campaign_are_named(before: Path, tmp_path: Path) -> None:
    document = json.loads(before.read_text())
    document["scenarios"][1]["name"] = "gone-scenario"
    (tmp_path / "other.json").write_text(json.dumps(document))
    now = tmp_path / "now.json"

    result = tornlog(*RUN, "--seeds", 4, "--against", tmp_path / "other.json", "--json", now)

    assert "1 of 1 scenario ran the same events" in result.output
    assert "Not compared, only in the earlier campaign: gone-scenario" in result.output
    assert "Not compared, only in this campaign: clean-shutdown" in result.output
    _, alone, gone = json.loads(now.read_text())["against"]
    assert alone == {"name": "clean-shutdown", "change": "only in this campaign", "before": None, "now": 0}
    assert gone == {"name": "gone-scenario", "change": "only in the earlier campaign", "before": 0, "now": None}


def test_other_seeds_are_not_compared(before: Path) -> None:
    assert "4 seeds before, now 3" in tornlog(*RUN, "--seeds", 3, "--against", before).output


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "--against"), ('{"format": "tornlog-shrink/1", "scenarios": []}', "expected tornlog-run/1")],
)
def test_another_file_is_refused_before_any_run(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "before.json").write_text(text)

    result = tornlog(*RUN, "--seeds", 1, "--against", tmp_path / "before.json")

    assert (result.exit_code, said in result.output) == (2, True), result.output
