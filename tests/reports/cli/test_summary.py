"""The summary in Markdown that pages of CI services show."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.scenario import Scenario

Tornlog = Callable[..., Result]
NAME, OTHER = "sync-flush-survives-power-loss", "clean-stop-loses-nothing"


def test_it_is_appended_to_what_is_there_and_has_a_row_for_each_scenario(
    tornlog: Tornlog, tmp_path: Path
) -> None:
    file = tmp_path / "summary.md"
    file.write_text("# Before\n")

    assert tornlog("run", NAME, OTHER, "--seeds", 3, "--summary", file).exit_code == 0

    lines = file.read_text().splitlines()
    assert lines[0] == "# Before"
    assert lines[1].startswith("### tornlog: 6 seeds in ")
    assert lines[1].endswith(", every promise held")
    rows = [line for line in lines if line.startswith((f"| {NAME} |", f"| {OTHER} |"))]
    assert [row.count("|") for row in rows] == [6, 6]
    assert all(row.endswith("| 0 |") for row in rows)
    assert any(line.startswith("Never: ") for line in lines)
    assert "is broken" not in file.read_text()


def test_a_broken_promise_comes_with_its_command_and_its_story(tornlog: Tornlog, tmp_path: Path) -> None:
    file = tmp_path / "summary.md"

    done = tornlog(
        "run", NAME, "--seeds", 4, "--mutant", "ack-before-flush", "--out", tmp_path, "--summary", file
    )

    assert done.exit_code == 1
    text = file.read_text()
    assert f"#### {NAME}: STATUS is broken" in text
    assert f"\n~~~~\ntornlog replay {tmp_path}/failures/{NAME}-status-answer.json\n~~~~\n" in text
    assert "before it:" in text
    assert text.count("~~~~") == 4
    assert text.count("<details>") == text.count("</details>") == 2


def test_what_the_harness_failed_on_is_told(
    tornlog: Tornlog, broken_scenario: Scenario, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(SCENARIOS, broken_scenario.name, broken_scenario)
    file = tmp_path / "summary.md"

    assert tornlog("run", broken_scenario.name, "--seeds", 1, "--summary", file).exit_code == 3

    assert "#### broken: no verdict" in file.read_text()
