"""`tornlog analyze`: what it prints, writes and refuses."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from tornlog.__main__ import application


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(application(), ["analyze", *map(str, arguments)])


def test_an_analysis_is_a_document_and_files(sweep_of: Any, tmp_path: Path) -> None:
    place, out = sweep_of({"mutant": "m", "outcome": "violated", "invariant": "DUR"}, {}), tmp_path / "out"
    result = invoke(place, "--master", "local[1]", "--json", "-", "--out", out)
    document = json.loads(result.stdout)

    assert result.exit_code == 0
    assert (document["format"], document["rows"]) == ("tornlog-analysis/1", 2)
    (described,) = document["sweeps"]
    assert (described["place"], described["scenarios"], described["seeds"]) == (place, ["a", "b"], 200)
    assert set(document["tables"]) == {"pass_rates", "mutants", "detections", "coverage", "put_latency"}
    assert document["tables"]["mutants"][0]["invariant"] == "DUR"
    assert "bit rot" in document["never"]["faults"]
    assert "index rolls" in document["never"]["marks"]
    assert [Path(path).exists() for path in document["files"]] == [True] * 5
    page = Path(document["report"])
    assert page == out / "report.html"
    assert "1 of 2 seeds broke a promise" in page.read_text()


def test_the_terminal_has_sums_and_what_broke(sweep_of: Any) -> None:
    broken = {"outcome": "violated", "invariant": "DUR", "seed": 1}
    place = sweep_of(
        {},
        broken,
        {"mutant": "m", **broken},
        {"marks": [("index rolls", 12)], "put_latency": [{"us": 1500, "puts": 1}]},
    )
    result = invoke(place, "--master", "local[1]")

    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for line in (
        "4 rows",
        "pass rates of the store as it is",
        "a 3 1 0 66.66",
        "a xfs pct 66.66",
        "pass rates of mutants",
        "m DUR 1 1.0 1 of 1 1",
        "mark index rolls 12 1",
        "sync xfs 1 1 1.5 1.5 1.5 1.5 1.5",
    ):
        assert line in lines
    assert "faults that never came about: bit rot, " in result.stdout


def test_a_directory_without_a_sweep_exits_2_and_is_named(tmp_path: Path) -> None:
    result = invoke(tmp_path)

    assert result.exit_code == 2
    assert "no sweep.json" in " ".join(result.output.split())


def test_without_spark_there_is_no_analysis(sweep_of: Any) -> None:
    result = invoke(sweep_of({}), "--master", "in-process")

    assert result.exit_code == 2
    assert "done by Spark" in result.output
