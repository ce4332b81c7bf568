"""Annotations: one line per failure, which GitHub shows at the line of code."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.command_line import tornlog
from tornlog.faults.simulation.failure_text import FailureText, LineKind, TextLine
from tornlog.reports.results.annotations import annotation_lines
from tornlog.reports.results.model import FailureGroup, Failures, On, Result, Tone, Verdict
from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.failures.failure_text import failure_text

FAILURE = FailureText("a: b, c", [TextLine(LineKind.CLAIM, "none"), TextLine(LineKind.TEXT, "100% of\nit")], "again x")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "log.py").write_text("pass\n")
    return tmp_path


def lines_of(workspace: Path, *failures: FailureText, exit_code: int = 1, on: On = On.SUMMARY) -> list[str]:
    verdict = Verdict(Tone.BROKEN if exit_code else Tone.HELD, "the verdict")
    blocks = [Failures("Failures", on, groups=[FailureGroup(failures)])]
    return list(annotation_lines(Result("run", "", verdict, exit_code, {}, blocks=blocks), workspace))


def test_a_failure_is_an_error_with_its_text_and_the_command_that_reproduces_it(workspace: Path) -> None:
    (line,) = lines_of(workspace, FAILURE)

    assert line == "::error title=tornlog run%3A a%3A b%2C c::100%25 of%0Ait%0Areproduce: again x"


@pytest.mark.parametrize("directory", ["", "{workspace}/"])
def test_a_failure_in_a_file_of_the_checkout_is_annotated_there(directory: str, workspace: Path) -> None:
    place = f"{directory.format(workspace=workspace)}src/log.py:7"

    (line,) = lines_of(workspace, replace(FAILURE, code=place))

    assert line.startswith("::error file=src/log.py,line=7,title=")


@pytest.mark.parametrize("place", ["src/other.py:7", "/usr/bin/env:7", "../outside.py:7"])
def test_a_failure_in_another_file_has_no_place(place: str, workspace: Path) -> None:
    (workspace.parent / "outside.py").touch()

    (line,) = lines_of(workspace, replace(FAILURE, code=place))

    assert line.startswith("::error title=")


def test_a_command_that_failed_for_another_reason_has_one_error_with_its_verdict(workspace: Path) -> None:
    assert lines_of(workspace) == ["::error title=tornlog run::the verdict"]
    assert lines_of(workspace, FAILURE, on=On.PAGE) == ["::error title=tornlog run::the verdict"]


def test_a_passed_command_has_no_errors_and_others_at_most_ten(workspace: Path) -> None:
    assert lines_of(workspace, FAILURE, exit_code=0) == []
    assert len(lines_of(workspace, *[FAILURE] * 11)) == 10


def test_the_annotated_line_of_the_store_made_the_lost_change_or_is_the_last_one(failure: Failure) -> None:
    made = "16.300 ms  life-1/allocate: create commitlog/0  [log/allocate.py:228]"
    lost = "84.392 ms  disk: power cut: name lost: create commitlog/0, made at 16.300 ms by life-1/allocate, and so on"
    others = ["1.202 ms  life-0/allocate: create commitlog/0  [log/allocate.py:9]", made]
    last = "84.392 ms  life-1/producer-0: kill life-1  [log/commit_log.py:133 < message_store.py:370]"

    def code_of(*story: str) -> str:
        return failure_text(replace(failure, original=replace(failure.original, story=list(story)))).code

    assert code_of(*others, last, lost) == "store/log/allocate.py:228"
    assert code_of(*others, last) == "store/log/commit_log.py:133"
    assert code_of(last, lost) == "store/log/commit_log.py:133"
    assert code_of(lost) == ""


def test_a_run_with_a_summary_annotates_the_line_of_the_store_in_jobs_of_github(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("run", "sync-flush-power-cut", "--seeds", 4, "--mutant", "ack-before-flush", "--summary", tmp_path / "s")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(source))
    assert "::error" not in tornlog(*words).output

    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    output = tornlog(*words).output

    (line,) = (one for one in output.splitlines() if one.startswith("::error"))
    assert line.startswith("::error file=store/"), output
    assert "title=tornlog run%3A sync-flush-power-cut::STATUS: " in line
    assert "%0Areproduce: tornlog run sync-flush-power-cut --seed " in line
