"""Wrong refusals: a check gets the operations that the program refused, apart from the promises."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from typer.testing import Result

from tests.command_line import tornlog, usage_error
from tornlog.faults.probe.checks.command import CheckServer, check_in_file
from tornlog.faults.probe.programs import RecorderChoice
from tornlog.faults.probe.record import Answers, ProgramRecord, Step
from tornlog.faults.probe.recording.run import EMPTY

PROGRAM = """
    import os
    log = os.open("log", os.O_CREAT | os.O_WRONLY)
    os.fsync(log)
    os.fsync(os.open(".", os.O_RDONLY))
    try:
        os.write(log, b"one")
        os.fsync(log)
        print("one", flush=True)
    except OSError:
        UNDO
        print("refused one", flush=True)
    """
PYTHON_CHECK = """
    def check(directory, acknowledged, refused):
        log = directory / "log"
        for operation in refused:
            assert operation not in acknowledged
            if log.read_text() == operation:
                yield f"{operation} was refused, and is there"
    """
COMMAND_CHECK = """\
    #!/bin/sh
    while read operation; do
        [ "$(cat log)" != "$operation" ] || { echo "$operation was refused, and is there"; exit 1; }
    done < "$TORNLOG_REFUSED"
    """
CHECK_SERVER = """
    import json, pathlib, sys
    for line in sys.stdin:
        state = json.loads(line)
        log = pathlib.Path(state["directory"], "log")
        broken = [f"{one} was refused, and is there" for one in state["refused"] if log.read_text() == one]
        print(json.dumps({"broken": broken}), flush=True)
    """
WRONG = "one was refused, and is there"


@pytest.fixture
def refusing(tmp_path: Path) -> Callable[..., tuple[Result, dict[str, Any]]]:
    """Return a function that probes the program, whose sync fails, with a kind of check."""

    def refusing(undo: str, kind: str, *options: str, disk: str = "process-kill") -> tuple[Result, dict[str, Any]]:
        for name, lines in (
            ("program.py", PROGRAM.replace("UNDO", undo)),
            ("check.py", PYTHON_CHECK),
            ("check.sh", COMMAND_CHECK),
            ("server.py", CHECK_SERVER),
        ):
            (tmp_path / name).write_text(dedent(lines))
            (tmp_path / name).chmod(0o755)
        checks = {
            "python": ("--check", str(tmp_path / "check.py")),
            "command": ("--check", str(tmp_path / "check.sh")),
            "server": ("--check-server", f"{sys.executable} {tmp_path / 'server.py'}"),
        }
        kept, out = tmp_path / "probe.json", tmp_path / "out"
        fixed = ["probe", "--faults", "failed-sync", "--disk", disk, "--json", str(kept), "--out", str(out)]
        arguments = [*fixed, *checks[kind], *options, "--", str(tmp_path / "program.py")]
        result = tornlog(*arguments, columns=120)
        return result, json.loads(kept.read_text()) if kept.exists() else {}

    return refusing


@pytest.mark.parametrize("kind", ["python", "command", "server"])
def test_a_refused_operation_that_is_there_after_a_restart_is_a_breach(
    refusing: Callable[..., tuple[Result, dict[str, Any]]], kind: str
) -> None:
    result, found = refusing("pass", kind, "--refusals")

    assert result.exit_code == 1, result.output
    (breach,) = found["reruns"]["breaches"]
    smallest = breach["smallest"]
    assert (breach["signature"], breach["kind"], found["breaches"]) == (WRONG, "failed sync", [])
    assert (smallest["acknowledged"], smallest["refusals"], found["reruns"]["refusals"]) == (0, 1, 1)
    assert "refuse 'one'" in smallest["story"][-1]
    assert "\n  refused: 'one'\n" in result.stdout
    again = tornlog("probe", "--replay", breach["file"])
    assert (again.exit_code, again.stdout.splitlines()[-1]) == (1, WRONG)


def test_a_program_that_removes_the_refused_data_keeps_its_word(
    refusing: Callable[..., tuple[Result, dict[str, Any]]],
) -> None:
    result, found = refusing("os.ftruncate(log, 0)", "command", "--refusals", "--recovery-crashes", "1")

    assert result.exit_code == 0, result.output
    assert (found["reruns"]["refusals"], found["notes"]) == (1, [])


@pytest.mark.parametrize("kind", ["python", "command", "server"])
def test_a_recorded_recovery_gets_the_refused_operations(tmp_path: Path, kind: str) -> None:
    lines = {
        "python": "def check(directory, acknowledged, refused): (directory / 'seen').write_text(refused[0])",
        "command": '#!/bin/sh\ntr -d "\\n" < "$TORNLOG_REFUSED" > seen',
        "server": "import json; one = json.loads(input());"
        "open(one['directory'] + '/seen', 'w').write(one['refused'][0]);"
        "print('{\"broken\": []}')",
    }
    path = tmp_path / f"check{'' if kind == 'command' else '.py'}"
    path.write_text(lines[kind])
    path.chmod(0o755)
    check = CheckServer(f"{sys.executable} {path}") if kind == "server" else check_in_file(path)
    record, unlike = RecorderChoice("", "step", 60.0).record_check(check, EMPTY, Answers(["seven"], ["eight"]))

    assert unlike == []
    assert [step.data for step in record.steps if step.kind == "write"] == [b"eight"]


def test_without_the_option_a_refusal_is_a_promise_like_any_other_line(
    refusing: Callable[..., tuple[Result, dict[str, Any]]],
) -> None:
    result, found = refusing("pass", "command")

    assert result.exit_code == 0, result.output
    assert found["reruns"]["refusals"] == 0
    assert "refused" not in result.stdout


def test_refusals_that_no_run_makes_or_no_check_takes_are_reported(
    refusing: Callable[..., tuple[Result, dict[str, Any]]], tmp_path: Path
) -> None:
    silent, found = refusing("raise", "server", "--refusals")
    assert silent.exit_code == 0, silent.output
    assert found["notes"] == ["--refusals: expected a promise that starts with 'refused ', found none in any run"]

    check = tmp_path / "old.py"
    check.write_text("def check(directory, acknowledged): pass")
    arguments = ["probe", "--refusals", "--check", str(check), "--", "true"]
    assert "expected check(directory, acknowledged, refused)" in usage_error(*arguments, columns=400)


def test_answers_keep_their_order_in_a_record_and_load_again() -> None:
    lines = ("one", "refused two", "refusedthree", "refused four")
    record = ProgramRecord((), tuple(Step("acknowledge", line) for line in lines), ((),)).with_refusals()

    assert [step.kind for step in record.steps] == ["acknowledge", "refuse", "acknowledge", "refuse"]
    assert Answers.from_steps(record.answers) == (["one", "refusedthree"], ["two", "four"])
    assert ProgramRecord.from_json(record.to_json()) == record
