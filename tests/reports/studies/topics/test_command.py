import csv
import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import Result

from tests.command_line import tornlog
from tornlog.reports.studies.topics import here
from tornlog.reports.studies.topics.tables import CHECKED_HEADER, HEADER

SMALL = ("--puts", 1_000, "--dirty-mib", 1)


invoke = partial(tornlog, "plot", "topics")


def rows_in(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def left_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    out = tmp_path_factory.mktemp("topics")
    result = invoke(*SMALL, "--disk", "hdd", "--topics", 1, "--topics", 8, "--out", out, "--json", out / "found.json")
    return out, result


@pytest.mark.slow
def test_topics_study_pictures_are_written_beside_their_data(left_files: tuple[Path, Result]) -> None:
    out, result = left_files
    rows = rows_in(out / "topics.csv")

    assert result.exit_code == 0, result.output
    assert {path.name for path in out.iterdir()} == {
        *(f"topics.{kind}" for kind in ("png", "svg", "csv")),
        *(f"topics-consumers.{kind}" for kind in ("png", "svg")),
        *(f"topics-assumptions.{kind}" for kind in ("png", "svg", "csv")),
        "found.json",
    }
    assert tuple(rows[0]) == HEADER
    assert [(row["flush"], row["layout"], row["topics"]) for row in rows] == [
        (flush, layout, number)
        for flush in ("sync", "async")
        for layout in ("shared", "partitioned", "packed")
        for number in ("1", "8")
    ]
    assert {row["source"] for row in rows} == {"simulated"}
    assert all(float(row["puts_per_s"]) > 0 for row in rows)
    assert all((row["few_lag_records_per_s"] == "") == (row["flush"] == "sync") for row in rows)
    assert tuple(rows_in(out / "topics-assumptions.csv")[0]) == CHECKED_HEADER
    assert "one log" not in result.output
    assert "hdd" in result.output
    assert str(out / "topics.png") in result.output.replace("\n", "")


@pytest.mark.slow
def test_the_topics_study_json_has_the_values_of_the_tables(left_files: tuple[Path, Result]) -> None:
    out, _ = left_files
    found = json.loads((out / "found.json").read_text())
    rows = rows_in(out / "topics.csv")

    assert found["format"] == "tornlog-topics/1"
    assert [row["puts_per_s"] for row in found["rows"]] == [float(row["puts_per_s"]) for row in rows]
    assert [row["few_lag_records_per_s"] is None for row in found["rows"]] == [
        row["few_lag_records_per_s"] == "" for row in rows
    ]
    assert len(found["assumptions"]) == len(rows_in(out / "topics-assumptions.csv"))
    assert {Path(path).name for path in found["files"]} | {"found.json"} == {path.name for path in out.iterdir()}


@pytest.mark.slow
def test_the_topics_study_writes_the_same_bytes_for_the_same_seed(
    left_files: tuple[Path, Result], tmp_path: Path
) -> None:
    out, _ = left_files
    result = invoke(*SMALL, "--disk", "hdd", "--topics", 1, "--topics", 8, "--out", tmp_path)

    assert result.exit_code == 0
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (out / path.name).read_bytes(), path.name


@pytest.mark.slow
def test_the_topics_study_on_this_machine_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_TURN_SECONDS", "_RATE_SECONDS", "_PULL_SECONDS"):
        monkeypatch.setattr(here, name, 0.05)
    document = tmp_path / "here.json"
    result = invoke(
        *("--disk", "here", "--topics", 2, "--topics", 4),
        *("--dir", tmp_path, "--out", tmp_path / "out", "--json", document),
    )
    found = json.loads(document.read_text())

    assert result.exit_code == 0, result.output
    assert [(row["source"], row["disk"], row["flush"], row["layout"]) for row in found["rows"]] == [
        ("real", "here", flush, layout) for flush in ("sync", "async") for layout in ("shared", "partitioned")
    ] * 2
    assert all(row["put_cpu_us"] > 0 for row in found["rows"])
    assert found["assumptions"] == []
    assert {Path(path).name for path in found["files"]} == {f"topics-here.{kind}" for kind in ("png", "svg", "csv")}
    assert {path.name for path in tmp_path.iterdir()} == {"here.json", "out"}


@pytest.mark.ci
def test_the_stdout_of_the_topics_study_has_only_json(tmp_path: Path) -> None:
    result = invoke(*SMALL, "--disk", "nvme-ssd", "--topics", 2, "--out", tmp_path, "--json", "-")

    assert json.loads(result.stdout)["format"] == "tornlog-topics/1"
