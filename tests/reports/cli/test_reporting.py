import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.command_line import tornlog
from tornlog.reports.cli.options import command_line, is_option_given

NAME = "sync-flush-power-cut"


def test_the_json_of_a_run_has_disks_and_their_broken_promises(tmp_path: Path) -> None:
    options = ("--seeds", 12, "--mutant", "ack-before-flush", "--out", tmp_path, "--json", "-")
    document = json.loads(tornlog("run", NAME, *options).stdout)
    (row,) = document["scenarios"]
    assert sum(row["disks"].values()) == 12
    assert sum(cell["seeds"] for cell in row["broken"]) == row["violations"] > 0
    assert {cell["invariant"] for cell in row["broken"]} == {"STATUS"}
    assert all(cell["seeds"] <= row["disks"][cell["disk"]] for cell in row["broken"])
    assert document["report"] == str(tmp_path / "report.html")


def test_without_the_out_option_no_report_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "report" not in json.loads(tornlog("run", NAME, "--seeds", 1, "--json", "-").stdout)
    assert tornlog("mutants", "ack-before-flush", "--seeds", 5).exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_the_report_path_is_printed_in_the_line_before_the_verdict(tmp_path: Path) -> None:
    for arguments in (("run", NAME, "--seeds", 1), ("mutants", "ack-before-flush", "--seeds", 5)):
        out = tmp_path / arguments[0]
        assert tornlog(*arguments, "--out", out).stdout.splitlines()[-2] == str(out / "report.html")
        assert (out / "report.html").is_file()


def test_the_failure_that_finds_a_mutant_has_a_timeline(tmp_path: Path) -> None:
    tornlog("mutants", "ack-before-flush", "--seeds", 5, "--out", tmp_path)
    (timeline,) = (tmp_path / "timelines").iterdir()
    (failure,) = (tmp_path / "failures").iterdir()
    assert timeline.stem == failure.stem


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "tornlog run"),
        (("--deep", "b", "-n", "3", "a b"), "tornlog run b 'a b' --number 3 --deep"),
        (("--no-deep", "--one", "x", "--one", "y z"), "tornlog run --no-deep --one x --one 'y z'"),
        (("--number", "7"), "tornlog run --number 7"),
    ],
)
def test_the_shown_command_line_has_only_the_given_options(arguments: tuple[str, ...], line: str) -> None:
    app = typer.Typer()
    told: list[Any] = []

    @app.command()
    def run(
        context: typer.Context,
        names: list[str] = typer.Argument(None),  # noqa: B008
        number: int = typer.Option(7, "--number", "-n"),
        deep: bool = False,
        one: list[str] = typer.Option([]),  # noqa: B008
    ) -> None:
        told.append((command_line(context), is_option_given(context, "number")))

    assert CliRunner().invoke(app, list(arguments), prog_name="run").exit_code == 0
    assert told == [(line, "-n" in arguments or "--number" in arguments)]
