import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.bench.latency import command
from tests.bench.latency.command import latency
from tests.bench.latency.real_source import VERSION, real_store_program
from tests.conformance.maven import JavaMissing, JavaProgram
from tornlog.command_line import application_of
from tornlog.reports.studies.latency.real.memory_limit import MemoryLimitUnavailable, limited
from tornlog.reports.studies.latency.real.turns import MODEL_SOURCE, OWN_SOURCE


def invoke(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(application_of("latency", latency), list(map(str, arguments)))
    return result.exit_code, " ".join(result.output.split())


@pytest.mark.slow
def test_both_stores_are_measured_in_turns_with_free_and_with_short_memory(
    fetched: Callable[[Callable[[], JavaProgram]], JavaProgram], tmp_path: Path
) -> None:
    fetched(real_store_program)
    try:
        with limited(["true"], 1 << 30):
            pass
    except MemoryLimitUnavailable as error:
        pytest.skip(str(error))
    code, output = invoke(
        "--load", "4MiB", "--turns", 1, "--seconds", 0.1, "--dir", tmp_path, "--out", tmp_path / "out"
    )
    with (tmp_path / "out" / "latency-turns.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))

    assert code == 0, output
    modes = [("sync", "0"), ("async", "0"), ("async", "1"), ("pool", "0")]
    assert [(row["source"], row["memory_mib"], row["load_mib_per_s"], row["flush"], row["warmed"]) for row in rows] == [
        (source, memory, load, *mode)
        for sources in ((OWN_SOURCE, VERSION), (MODEL_SOURCE,))
        for load in ("", "4")
        for memory in ("", "256")
        for source in sources
        for mode in modes
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]  # stores and the neighbour's files are gone


def test_a_missing_jdk_is_a_usage_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse() -> JavaProgram:
        raise JavaMissing("mvn is not on the PATH")

    monkeypatch.setattr(command, "real_store_program", refuse)
    code, output = invoke("--out", tmp_path / "out")

    assert code == 2
    assert "mvn is not on the PATH" in output
