"""A user's repository that has its own folders store, sim and tests, with the wheel installed."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

pytestmark = pytest.mark.slow

Done = CompletedProcess[str]
AGAIN = re.compile(r"^  reproduce (.*)$", re.MULTILINE)
TEST = "tests/test_wal.py::test_appended_records_survive_crashes"


def story_in(output: str) -> str:
    """Return the output of a failed test without the lines after the story: the timeline, and how to repeat it."""
    begin = output.index("seed ")
    end = re.compile(r"^(  timeline |  reproduce |-+ tornlog -+$)", re.MULTILINE).search(output, begin)
    assert end is not None
    return output[begin : end.start()]


def report_in(out: Path) -> list[dict[str, object]]:
    document = json.loads((out / "report.json").read_text())
    assert document["format"] == "tornlog-pytest/1"
    found: list[dict[str, object]] = document["tests"]
    return found


@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_the_report_of_a_bug_has_a_story_and_a_command_that_repeats_it(
    mode: str, repository: Path, shell: Callable[..., Done]
) -> None:
    done = shell(f"pytest --import-mode={mode}", repository)

    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 2 passed" in done.stdout
    assert "Traceback" not in done.stdout
    assert "every appended record is present: expected [b'order " in done.stdout
    assert "create /shop/wal lost #1: 1 of 2" in done.stdout
    assert len(story_in(done.stdout).split("  events ")[1].splitlines()) <= 13
    assert re.search(r"2 tests, \d+ seeds, \d+ crash points, \d+ faults injected", done.stdout)
    (command,) = AGAIN.findall(done.stdout)
    again = shell(f"{command} --import-mode={mode}", repository)
    assert again.returncode == 1
    assert "1 failed in" in again.stdout
    assert story_in(again.stdout) == story_in(done.stdout)


def test_reports_are_the_same_with_two_processes(repository: Path, shell: Callable[..., Done]) -> None:
    outputs = [
        shell(f"pytest {options} --tornlog-out out", repository, PYTHONHASHSEED=seed)
        for options, seed in (("-n 0", "1"), ("-n 2 --dist load", "2"))
        if not shell("rm -rf kept; [ ! -e out ] || mv out kept", repository).returncode
    ]

    assert [done.returncode for done in outputs] == [1, 1]
    assert story_in(outputs[0].stdout) == story_in(outputs[1].stdout)
    files = [sorted(path.relative_to(out) for path in out.rglob("*.json")) for out in out_and_kept(repository)]
    assert files[0] == files[1]
    assert len(files[0]) == 2
    for file in files[0]:
        one, other = ((out / file).read_text() for out in out_and_kept(repository))
        assert one == other
    failed, passed = sorted(report_in(repository / "out"), key=lambda test: test["failure"] is None)
    assert (failed["id"], failed["signature"]) == (TEST, "every appended record is present")
    assert (passed["scenario"], passed["seeds"], passed["failure"]) == ("segment-rollover-crash", 5, None)


def out_and_kept(repository: Path) -> tuple[Path, Path]:
    return repository / "out", repository / "kept"


def test_a_saved_failure_is_replayed_and_passes_after_the_bug_is_fixed(
    repository: Path, mend: Callable[[], None], shell: Callable[..., Done]
) -> None:
    done = shell("pytest --tornlog-out 'a place'", repository)
    (command,) = AGAIN.findall(done.stdout)
    assert "--tornlog-replay 'a place/failures/" in command

    again = shell(command, repository)
    assert again.returncode == 1
    assert story_in(again.stdout) == story_in(done.stdout)
    mend()
    mended = shell(command, repository)
    assert mended.returncode == 0, mended.stdout
    whole = shell("pytest", repository)
    assert whole.returncode == 0, whole.stdout
    assert "3 passed" in whole.stdout
    assert "60 seeds" not in whole.stdout
    assert "65 seeds" in whole.stdout


def test_a_command_from_another_directory_uses_python_dash_m_pytest(
    repository: Path, shell: Callable[..., Done]
) -> None:
    below = repository / "tests"

    done = shell("python -m pytest test_wal.py", below)

    (command,) = AGAIN.findall(done.stdout)
    assert command.startswith("python -m pytest test_wal.py::test_appended_records_survive_crashes --tornlog-seed ")
    assert story_in(shell(command, below).stdout) == story_in(done.stdout)
