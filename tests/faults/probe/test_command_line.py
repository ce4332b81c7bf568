"""The command `tornlog probe`: refusals, notes, and cleanup after SIGTERM."""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.command_line import tornlog, usage_error

CheckFile = Callable[[str], Path]
SAYS_WHERE_IT_IS = 'echo "$$ $PWD" > {said}.new; mv {said}.new {said}; sleep 60'


invoke = partial(tornlog, "probe", columns=120)


@pytest.fixture
def accepting(check_file: CheckFile) -> Path:
    return check_file("def check(directory, acknowledged): pass")


@pytest.mark.parametrize("busy", ["program", "check"])
def test_sigterm_leaves_neither_processes_nor_directories(tmp_path: Path, busy: str) -> None:
    said = tmp_path / "said"
    for name in ("program", "check"):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\n{SAYS_WHERE_IT_IS.format(said=said) if name == busy else 'exit 0'}\n")
        script.chmod(0o755)
    command = [sys.executable, "-m", "tornlog", "probe", "--seconds", "60", "--check", str(tmp_path / "check")]
    pipe = subprocess.PIPE
    running = subprocess.Popen([*command, "--", str(tmp_path / "program")], stdout=pipe, stderr=pipe, text=True)
    end = monotonic() + 60
    while not said.exists() and running.poll() is None and monotonic() < end:
        sleep(0.01)
    running.terminate()
    printed, errors = running.communicate(timeout=60)

    assert running.returncode == 143
    if busy == "program":
        assert errors == "ended by SIGTERM before there was any result\n"
    else:
        assert errors == ""
        assert "not finished:\n  the probe was ended by SIGTERM\n" in printed
    process, directory = said.read_text().split()
    assert not Path(f"/proc/{process}/exe").exists()
    assert not Path(directory).parent.parent.exists()


def test_the_error_for_a_missing_script_names_it(accepting: Path) -> None:
    for way in ((), ("--record", "calls")):
        assert "nosuch.py: expected a program, found no executable of that name" in usage_error(
            "--check", accepting, *way, "--", "nosuch.py", run=invoke
        )


def test_the_replay_command_works_and_refuses_probe_options(check_file: CheckFile, tmp_path: Path) -> None:
    check = check_file("def check(directory, acknowledged): return [] if any(directory.iterdir()) else ['no file']")
    script, out = tmp_path / "save.py", tmp_path / "o u t"
    script.write_text("open('file', 'w').close(); print('kept')")
    result = invoke("--check", check, "--out", out, "--", script)
    failure = out / "failures" / "no-file" / "failure.json"

    assert f"reproduce: tornlog probe --replay '{failure}'" in result.stdout
    assert invoke("--replay", failure, "--check", check, "--seconds", "20").exit_code == 1
    given = ("--junit", tmp_path / "j.xml", "--seeds", "2", "--limit", "3")
    refused = invoke("--replay", failure, *given)
    assert refused.exit_code == 2
    assert "not allowed with --replay" in refused.stderr
    assert all(option in refused.stderr for option in given[::2])


@pytest.mark.parametrize("recorder", ["python", "calls"])
@pytest.mark.parametrize(
    ("lines", "notes", "verdict"),
    [
        ("open('a', 'w').close()", ["no promise was recorded"], "every state passed the check"),
        ("open('a', 'w').close(); print('kept')", [], "every promise held"),
        (
            "open('a', 'w').close(); print('one'); print('two', end='')",
            ["the last line of output is no promise"],
            "every promise held",
        ),
    ],
)
def test_notes_explain_a_weak_result(
    accepting: Path, tmp_path: Path, recorder: str, lines: str, notes: list[str], verdict: str
) -> None:
    script, kept = tmp_path / "save.py", tmp_path / "probe.json"
    script.write_text(lines)
    result = invoke("--check", accepting, "--jobs", "0", "--record", recorder, "--json", kept, "--", script)

    assert result.exit_code == 0, result.output
    found = json.loads(kept.read_text())["notes"]
    assert [note.startswith(begin) for note, begin in zip(found, notes, strict=True)] == [True] * len(notes)
    assert result.stdout.count("note: ") == len(notes)
    assert result.stdout.rstrip().endswith(f": {verdict}")


def test_a_program_that_changes_no_file_gets_no_verdict(accepting: Path, tmp_path: Path) -> None:
    script = tmp_path / "save.py"
    script.write_text("print('kept')")
    result = invoke("--check", accepting, "--jobs", "0", "--", script)

    assert result.exit_code == 3, result.output
    assert "no promise was broken, but the program changed no file in its directory" in result.stdout


def test_unfinished_output_is_accepted_if_the_program_calls_acknowledge(accepting: Path, tmp_path: Path) -> None:
    script, kept = tmp_path / "save.sh", tmp_path / "probe.json"
    script.write_text('#!/bin/sh\n: > a; eval "echo kept >&$TORNLOG_PROMISES"; printf done')
    script.chmod(0o755)
    invoke("--check", accepting, "--jobs", "0", "--json", kept, "--", script)

    assert json.loads(kept.read_text())["notes"] == []
