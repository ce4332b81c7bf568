import json
from collections.abc import Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import tornlog, usage_error
from tornlog.reports.cli import determinism as command
from tornlog.scenarios.campaigns.determinism import DeterminismReport, DigestDifference, WitnessError, WitnessProcess
from tornlog.scenarios.campaigns.determinism_witness import SeedStatement
from tornlog.scenarios.campaigns.interpreters import InterpreterError

NAME = "crash-in-recovery"


invoke = partial(tornlog, "run", "--check-determinism", "--processes", "1")


def run_returning(found: DeterminismReport) -> Any:
    return lambda scenarios, seeds, witnesses, **_: found


def test_equal_digests_exit_0_and_json_has_a_digest_for_each_scenario(tmp_path: Path) -> None:
    result = invoke(NAME, "--seeds", "2", "--json", str(tmp_path / "out.json"))
    assert result.exit_code == 0, result.output
    assert "2 runs, again with another process: the same digests" in result.output
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["format"] == "tornlog-determinism/1"
    assert (document["runs"], document["differences"], document["errors"]) == (2, [], [])
    assert list(document["digests"]) == [NAME]


def test_a_digest_difference_exits_4_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = (SeedStatement(NAME, 7, "held", digest, "") for digest in ("aa", "bb"))
    found = DeterminismReport(1, {}, [DigestDifference("another process", here, there, "they part")])
    monkeypatch.setattr(command, "compare_digests", run_returning(found))
    result = invoke(NAME)
    assert result.exit_code == 4
    assert "1 differ" in result.output
    assert f"{NAME} --seed 7: held aa here, held bb with another process; they part" in result.output


def test_a_harness_error_in_the_determinism_check_exits_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "compare_digests", run_returning(DeterminismReport(1, {}, [], ["a sheep fell over"])))
    result = invoke(NAME)
    assert (result.exit_code, "a sheep fell over" in result.output) == (3, True)


@pytest.mark.parametrize("error", [InterpreterError("no such python"), WitnessError("it died")])
def test_a_witness_process_without_a_result_exits_3(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(command, "compare_digests", fail)
    result = invoke(NAME)
    assert (result.exit_code, str(error) in result.output) == (3, True)


def test_other_python_versions_can_be_witnesses(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[str]] = []

    @contextmanager
    def witnesses_on(pythons: Sequence[str]) -> Any:
        asked.append(pythons)
        yield [WitnessProcess(f"Python {path}") for path in pythons]

    monkeypatch.setattr(command, "witnesses_on", witnesses_on)
    monkeypatch.setattr(command, "installed_pythons", lambda: ["/a", "/b"])
    monkeypatch.setattr(command, "compare_digests", run_returning(DeterminismReport(5, {})))
    result = invoke(NAME, "--python", "/c", "--python", "all")
    assert asked == [["/c", "/a", "/b"]]
    assert "5 runs, again with another process, Python /c, Python /a, Python /b: the same" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-scenario",),
        (NAME, "--seeds", "x"),
        (NAME, "--processes", "0"),
        (NAME, "--jobs", "2"),
        (NAME, "--seed", "1"),
    ],
)
def test_invalid_combinations_of_options_are_usage_errors(arguments: tuple[str, ...]) -> None:
    assert invoke(*arguments).exit_code == 2


def test_the_option_processes_requires_the_determinism_check() -> None:
    assert "needs --check-determinism" in usage_error("run", NAME, "--processes", "1")
