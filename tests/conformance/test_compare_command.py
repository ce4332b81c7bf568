"""`python -m tests.conformance`: output, files and exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.conformance import campaign, command
from tests.conformance.cases import CaseResult
from tests.conformance.maven import JavaProgram
from tests.conformance.observed import StoreDifference
from tests.conformance.real_store import RealStoreFailed
from tornlog.command_line import application_of


def compare(*arguments: object) -> Result:
    return CliRunner().invoke(application_of("compare", command.compare), [str(each) for each in arguments])


@pytest.mark.slow
def test_a_few_seeds_of_each_writer_are_compared_and_summed_up(program: JavaProgram, tmp_path: Path) -> None:
    file = tmp_path / "compared.json"
    result = compare("--seeds", "5:9", "--json", file)
    document = json.loads(file.read_text())

    assert result.exit_code == 0, result.output
    assert "8 directories" in result.stdout
    assert (document["format"], document["against"]) == ("tornlog-compare/1", "rocketmq-4.9.8")
    assert document["seeds"] == [5, 9]
    outcomes = ("agreed", "explained", "unexplained")
    assert sum(row[name] for row in document["directories"] for name in outcomes) == 8
    assert {row["writer"] for row in document["directories"]} == {"ours", "real"}
    assert document["records"] > 0
    assert document["failures"] == []


@pytest.mark.slow
def test_several_processes_report_the_same(program: JavaProgram) -> None:
    def found(jobs: int) -> Any:
        """Return everything except the number of explained cases: the real store names index files by its clock."""
        result = compare("--seeds", 12, "--written-by", "ours", "--jobs", jobs, "--json", "-")
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        return told["disks"], told["records"]

    assert found(1) == found(2)


@pytest.mark.slow
def test_our_store_can_write_with_the_bugs_of_a_version(program: JavaProgram) -> None:
    def records(*more: str) -> int:
        """Return the number of records in all stores. A run that a bug ends early leaves none to compare."""
        result = compare("--seeds", "40:52", "--written-by", "ours", "--json", "-", *more)
        assert result.exit_code == 0, result.output
        return int(json.loads(result.stdout)["records"])

    assert 0 < records("--as", "rocketmq-4.9.8") < records()


def test_unexplained_differences_are_saved_and_the_exit_code_is_1(
    program: JavaProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_case = campaign.compare

    def and_one_more(case: Any, real: Any) -> CaseResult:
        compared = compare_case(case, real)
        compared.differences.append(StoreDifference("here", "one thing", "another", None))
        return compared

    monkeypatch.setattr(campaign, "compare", and_one_more)
    result = compare("--seeds", "8:9", "--written-by", "ours", "--out", tmp_path)

    assert result.exit_code == 1
    assert "1 not explained" in result.stdout
    assert "here: ours one thing, real another" in result.stdout
    file = tmp_path / "failures/ours-8/failure.json"
    assert f"--replay {file}" in result.stdout
    assert json.loads(file.read_text())["failure"]["differences"][-1]["place"] == "here"
    again = compare("--replay", file)
    assert again.exit_code == 0, again.output
    assert again.stdout == "ours-8: explained\n"


def test_a_command_that_fails_in_the_real_store_is_an_error_of_the_harness(
    program: JavaProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(case: object, real: object) -> CaseResult:
        raise RealStoreFailed("it would not")

    monkeypatch.setattr(campaign, "compare", failing)
    result = compare("--seeds", "8:9", "--written-by", "ours")

    assert result.exit_code == 3
    assert "it would not" in result.stderr


def test_without_maven_the_command_names_maven_and_exits_2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = compare("--seeds", 1)
    assert result.exit_code == 2
    assert "mvn is not on the PATH" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [("--against", "rocketmq-1.0"), ("--written-by", "nobody"), ("--seeds", "none"), ("--as", "rocketmq-1.0")],
)
def test_an_impossible_option_is_a_usage_error(arguments: tuple[str, str]) -> None:
    assert compare(*arguments).exit_code == 2


def test_a_file_that_is_not_a_failure_is_a_usage_error(program: JavaProgram, tmp_path: Path) -> None:
    file = tmp_path / "failure.json"
    file.write_text("{}")
    assert compare("--replay", file).exit_code == 2
