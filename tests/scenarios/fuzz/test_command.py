import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import tornlog, usage_error
from tornlog.reports.cli import fuzzing as command
from tornlog.scenarios.fuzz.coverage import is_installed
from tornlog.scenarios.fuzz.targets import TARGETS

PLANTED = ("commitlog", "--mutant", "record-crc-unchecked", "--inputs", "200")


run_fuzz = partial(tornlog, "fuzz")


def result_of(*arguments: str) -> tuple[int, Any]:
    result = run_fuzz(*arguments, "--json", "-")
    return result.exit_code, json.loads(result.stdout)


def test_fuzzed_formats_are_printed_as_a_table() -> None:
    result = run_fuzz("checkpoint", "index", "--inputs", "300")

    assert result.exit_code == 0, result.output
    assert "600 inputs" in result.stdout
    assert "every promise held" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert [line.split()[:2] for line in result.stdout.splitlines()[3:5]] == [["checkpoint", "300"], ["index", "300"]]


def test_without_a_named_format_all_formats_are_fuzzed() -> None:
    code, document = result_of("--inputs", "20")

    assert code == 0
    assert [each["name"] for each in document["formats"]] == list(TARGETS)
    assert all(each["inputs"] == 20 for each in document["formats"])


def test_a_time_limit_ends_fuzzing() -> None:
    code, document = result_of("checkpoint", "--time", "0.2s")

    assert code == 0
    assert document["formats"][0]["inputs"] > 20
    assert 0.2 <= document["formats"][0]["seconds"] < 10


def test_the_json_has_the_documented_fields() -> None:
    code, document = result_of("checkpoint", "--inputs", "100", "--seed", "5")

    assert code == 0
    assert {name: document[name] for name in ("format", "engine", "seed", "mutant")} == {
        "format": "tornlog-fuzz/1",
        "engine": "tornlog",
        "seed": 5,
        "mutant": None,
    }
    (one,) = document["formats"]
    assert one["accepted"] + one["refused"] + one["broken"] == one["inputs"] == 100
    assert set(one) == {
        *("name", "inputs", "accepted", "refused", "broken", "outcomes", "corpus"),
        *("seconds", "cpu_seconds", "inputs_per_second", "findings"),
    }


@pytest.mark.ci
def test_several_processes_have_the_same_findings_as_one() -> None:
    arguments = ("commitlog", "checkpoint", "--inputs", "400", "--seed", "2")
    (_, alone), (_, shared) = result_of(*arguments), result_of(*arguments, "--jobs", "2")

    for one, other in zip(alone["formats"], shared["formats"], strict=True):
        for name in ("name", "inputs", "accepted", "refused", "outcomes", "corpus"):
            assert one[name] == other[name]


def test_a_finding_is_saved_printed_and_replayed(tmp_path: Path) -> None:
    result = run_fuzz(*PLANTED, "--out", str(tmp_path))
    (path,) = (tmp_path / "failures").iterdir()

    assert result.exit_code == 1
    assert path.name == "fuzz-commitlog-served-incomplete.json"
    assert f"tornlog fuzz commitlog --replay {path}" in result.stdout
    replayed = run_fuzz("commitlog", "--replay", str(path))
    assert replayed.exit_code == 1
    assert "broken: commitlog, as recorded" in replayed.stdout
    code, document = result_of("--replay", str(path))
    assert code == 1
    assert document["same"]
    assert (document["signature"], document["mutant"]) == ("served-incomplete", "record-crc-unchecked")
    assert document["expected"]
    assert document["found"]


def test_replaying_a_finding_of_a_fixed_bug_reports_no_violation(tmp_path: Path) -> None:
    run_fuzz(*PLANTED, "--out", str(tmp_path))
    (path,) = (tmp_path / "failures").iterdir()
    envelope = json.loads(path.read_text())
    envelope["failure"]["mutant"] = None
    path.write_text(json.dumps(envelope))
    code, replayed = result_of("--replay", str(path))

    assert code == 0
    assert replayed["same"] is False
    assert replayed["outcome"].startswith("refused: ")


def test_a_corpus_is_saved_reused_and_replayed(tmp_path: Path) -> None:
    _, first = result_of("index", "--inputs", "300", "--out", str(tmp_path))
    kept = sorted((tmp_path / "corpus" / "index").iterdir())
    _, second = result_of("index", "--inputs", str(len(kept)), "--seed", "9", "--out", str(tmp_path))

    assert len(kept) == first["formats"][0]["corpus"]
    assert second["formats"][0]["outcomes"] == first["formats"][0]["outcomes"]
    replayed = run_fuzz("index", "--replay", str(kept[0]))
    assert replayed.exit_code == 0
    assert replayed.stdout.startswith("index: ")
    assert run_fuzz("--replay", str(kept[0])).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("photographs",), "no format photographs"),
        (("index", "--mutant", "no-such"), "no mutant no-such"),
        (("index", "--engine", "afl"), "expected one of tornlog, atheris"),
        (("index", "--time", "soon"), "expected a time such as 30s"),
        (("index", "--inputs", "0"), "--inputs"),
        (("index", "--replay", "no-such.json"), "no-such.json"),
    ],
)
def test_invalid_arguments_are_usage_errors(arguments: tuple[str, ...], reason: str) -> None:
    assert reason in usage_error(*arguments, run=run_fuzz)


def test_a_file_that_is_not_a_finding_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text("{}")
    for arguments in (("--replay", str(path)), ("index", "--replay", str(path))):
        assert run_fuzz(*arguments).exit_code == 2
    run_fuzz(*PLANTED, "--out", str(tmp_path))
    (path,) = (tmp_path / "failures").iterdir()
    assert run_fuzz("index", "--replay", str(path)).exit_code == 2
    envelope = json.loads(path.read_text())
    envelope["failure"]["mutant"] = "gone"
    path.write_text(json.dumps(envelope))
    assert run_fuzz("--replay", str(path)).exit_code == 2


def test_without_atheris_the_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "is_installed", lambda: False)
    assert "pip install '.[fuzz]'" in usage_error("checkpoint", "--engine", "atheris", run=run_fuzz)


@pytest.mark.slow
@pytest.mark.skipif(not is_installed(), reason="needs atheris")
def test_atheris_finds_a_planted_bug_and_saves_a_corpus(tmp_path: Path) -> None:
    arguments = (*PLANTED[:-1], "3000", "--engine", "atheris", "--out", str(tmp_path))
    code, document = result_of(*arguments)
    (one,) = document["formats"]
    (path,) = (tmp_path / "failures").iterdir()

    assert code == 1
    assert (document["engine"], one["inputs"]) == ("atheris", 3000)
    assert one["accepted"] + one["refused"] + one["broken"] == 3000
    assert [finding["signature"] for finding in one["findings"]] == ["served-incomplete"]
    assert len(list((tmp_path / "corpus" / "commitlog").iterdir())) == one["corpus"] > 10
    assert run_fuzz("--replay", str(path)).exit_code == 1


@pytest.mark.slow
@pytest.mark.skipif(not is_installed(), reason="needs atheris")
def test_atheris_reports_no_violation_without_a_bug() -> None:
    code, document = result_of("index", "--inputs", "2000", "--engine", "atheris")

    assert code == 0
    assert document["formats"][0]["findings"] == []
    assert document["formats"][0]["outcomes"] > 20
