import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.command_line import tornlog

invoke = partial(tornlog, "analyze")


@pytest.mark.slow
def test_an_analysis_writes_json_and_files(sweep_of: Any, tmp_path: Path) -> None:
    place, out = sweep_of({"mutant": "m", "outcome": "violated", "invariant": "DUR"}, {}), tmp_path / "out"
    result = invoke(place, "--master", "local[1]", "--json", "-", "--out", out)
    document = json.loads(result.stdout)

    assert result.exit_code == 0
    assert (document["format"], document["rows"]) == ("tornlog-analysis/1", 2)
    (described,) = document["sweeps"]
    assert (described["place"], described["scenarios"], described["seeds"]) == (place, ["a", "b"], 200)
    assert set(document["tables"]) == {
        "pass_rates",
        "mutants",
        "detections",
        "coverage",
        "pairs",
        "put_latency",
        "trends",
    }
    assert document["tables"]["mutants"][0]["invariant"] == "DUR"
    assert "bit rot" in document["never"]["faults"]
    assert "index rolls" in document["never"]["marks"]
    assert [Path(path).exists() for path in document["files"]] == [True] * 7
    page = Path(document["report"])
    assert page == out / "report.html"
    assert "Every promise held in 1 seed" in page.read_text(), "a mutant's breaches are no news of the store"
    assert "1 of 1 seed of mutants broke a promise" in page.read_text()


@pytest.mark.slow
def test_the_terminal_shows_totals_and_broken_promises(sweep_of: Any) -> None:
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
        "4 rows: 1 of 3 seeds broke a promise",
        "Unmodified store by scenario",
        "a 3 1 0 66.66 (25.35-92.18)",
        "a 3 1 0 66.66 (25.35-92.18)",
        "xfs",
        "pct",
        "Mutants by scenario",
        "m DUR 1 1.0 1 of 1 1",
        "index rolls 12",
        "xfs sync 1 1 1.5 ms 1.5 ms 1.5 ms 1.5 ms 1.5 ms",
    ):
        assert line in lines
    assert "bit rot" in result.stdout.partition("faults that never occurred: ")[2]


def test_a_directory_without_a_sweep_exits_2_and_is_named(tmp_path: Path) -> None:
    result = invoke(tmp_path)

    assert result.exit_code == 2
    assert "no sweep.json" in " ".join(result.output.split())


def test_an_analysis_without_spark_is_a_usage_error(sweep_of: Any) -> None:
    result = invoke(sweep_of({}), "--master", "in-process")

    assert result.exit_code == 2
    assert "needs Spark" in result.output


@pytest.mark.slow
def test_unreadable_row_files_are_named_and_skipped_and_the_exit_code_is_3(sweep_of: Any, tmp_path: Path) -> None:
    place = Path(sweep_of({}, {}, {}, {}))
    first, second, third, _ = sorted((place / "rows").iterdir())
    first.write_bytes(b"")
    second.write_bytes(second.read_bytes()[:-9])
    column = pq.read_metadata(third).row_group(0).column(0)
    raw = bytearray(third.read_bytes())
    raw[column.dictionary_page_offset + column.total_compressed_size - 1] ^= 1
    third.write_bytes(raw)
    result = invoke(place, "--master", "local[1]", "--json", tmp_path / "found.json", "--out", tmp_path / "out")
    document = json.loads((tmp_path / "found.json").read_text())

    assert result.exit_code == 3
    (described,) = document["sweeps"]
    assert [one["file"] for one in described["damaged"]] == [f"rows/{one.name}" for one in (first, second, third)]
    assert document["rows"] == 1
    for one in (first, second, third):
        assert f"{one}: " in result.stderr
    assert "3 damaged files of rows" in (tmp_path / "out" / "report.html").read_text()
    for one in (place / "rows").iterdir():
        one.write_bytes(b"PAR1")
    result = invoke(place)
    assert result.exit_code == 2
    assert "has no rows yet" in result.output
