import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.bench import command
from tests.bench.figure import Figure
from tests.bench.workplace import BenchSettings
from tornlog.command_line import application_of


def bench(*arguments: object) -> Result:
    return CliRunner().invoke(application_of("bench", command.bench), [str(each) for each in arguments])


def test_bench_prints_medians_and_floors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    figures = [Figure("sheep counted", "sheep/s", 100.0, (90.0, 1250.0, 120.0))]
    asked: list[tuple[int, BenchSettings, tuple[str, ...]]] = []

    def run_bench(
        rounds: int, on_begin: Callable[[str], None], settings: BenchSettings, only: tuple[str, ...]
    ) -> list[Figure]:
        on_begin("round 1: sheep counted")
        asked.append((rounds, settings, only))
        return figures

    monkeypatch.setattr(command, "run_bench", run_bench)
    result = bench("--rounds", 3)
    assert result.exit_code == 0
    (line,) = [line for line in result.stdout.splitlines() if "sheep counted" in line]
    assert line.split() == ["sheep", "counted", "120", "90", "1,250", "100", "sheep/s"]
    document = json.loads(bench("--json", "-").stdout)
    assert document == {"format": "tornlog-bench/1", "figures": [figure.to_json() for figure in figures]}
    bench("--quick", "--only", "query", "--only", "get", "--dir", tmp_path, "--log-bytes", 5000)
    assert asked == [
        (3, BenchSettings(), ()),
        (5, BenchSettings(), ()),
        (1, BenchSettings(str(tmp_path), log_bytes=5000).quick(), ("query", "get")),
    ]


@pytest.mark.parametrize("arguments", [("--rounds", "0"), ("--only", "sheep")])
def test_a_wrong_option_exits_2_and_is_named(arguments: tuple[str, str]) -> None:
    result = bench(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert arguments[0] in result.stderr
