import errno
import os
from pathlib import Path

import pytest

from tests.command_line import tornlog, usage_error
from tornlog.reports.cli import campaign
from tornlog.scenarios.campaigns.failures.failure import Failure

BROKEN = ("run", "segment-rollover-crash", "--mutant", "no-dir-fsync-on-rollover", "--seeds", "50")
SCHEDULES = ("explore", "second-start-refused", "--schedules", "--limit", "2")
FULL = "/dev/full"


@pytest.fixture
def failure_file(failure: Failure, tmp_path: Path) -> Path:
    file = tmp_path / "failure.json"
    file.write_text(failure.to_json())
    return file


@pytest.mark.parametrize("option", ["--timeline", "--trace", "--json"])
def test_a_replay_prints_its_result_even_if_the_disk_is_full(failure_file: Path, option: str) -> None:
    result = tornlog("replay", failure_file, option, FULL)
    assert result.exit_code == 1
    assert "replayed: digest" in result.output
    assert f"Invalid value for {option}: {FULL if option == '--json' else ''}" in result.output
    assert os.strerror(errno.ENOSPC) in result.output


def test_a_full_disk_after_a_broken_promise_exits_1_and_reports_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path))

    monkeypatch.setattr(campaign, "write_failures", refuse)
    junit = tmp_path / "junit.xml"
    result = tornlog(*BROKEN, "--out", tmp_path, "--junit", junit)
    assert result.exit_code == 1
    assert "reproduce: tornlog run segment-rollover-crash --seed" in result.output
    assert f"Invalid value for --out: {tmp_path}: {os.strerror(errno.ENOSPC)}" in result.output
    assert junit.exists()  # the other files are still written


def test_a_full_disk_after_a_run_without_violations_is_a_usage_error() -> None:
    assert "every promise held" in usage_error("run", "second-start-refused", "--seeds", "1", "--json", FULL)


@pytest.mark.parametrize("words", [("fuzz", "checkpoint", "--inputs", "9"), SCHEDULES])
def test_other_commands_print_their_result_even_if_the_disk_is_full(words: tuple[str, ...]) -> None:
    assert "held" in usage_error(*words, "--json", FULL)


@pytest.mark.parametrize(
    "words", [("verify",), ("inspect",), ("dump",), ("rebuild", "--to", "new"), ("audit", "--master", "in-process")]
)
@pytest.mark.parametrize("content", [[], ["a", "b"]], ids=["empty", "of other files"])
def test_a_directory_without_a_store_is_a_usage_error(
    tmp_path: Path, words: tuple[str, ...], content: list[str]
) -> None:
    for name in content:
        (tmp_path / name).write_text("x")
    assert "no store" in usage_error(words[0], tmp_path, *words[1:])


@pytest.mark.parametrize("command", ["verify", "inspect", "dump"])
def test_a_store_with_a_missing_log_is_damaged(tmp_path: Path, command: str) -> None:
    (tmp_path / "consumequeue" / "T" / "0").mkdir(parents=True)
    assert tornlog(command, tmp_path).exit_code == 1


def test_a_missing_python_is_reported_in_one_sentence() -> None:
    words = ("second-start-refused", "--seeds", "1", "--check-determinism", "--python", "/nope")
    result = tornlog("run", *words)
    assert result.exit_code == 3
    assert "/nope: expected a Python to start, found: No such file or directory" in result.output
