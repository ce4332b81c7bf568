"""Command checks and servers: verdicts are returned, and no process is left running."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from time import monotonic, sleep

import pytest

from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.probe.checks.check import BROKEN, DIED, HELD, RAISED, TIMED_OUT, Check, CheckError, CheckOutcome
from tornlog.faults.probe.checks.checkers import Checkers
from tornlog.faults.probe.checks.command import CheckServer, CommandCheck, check_in_file
from tornlog.faults.probe.record import Answers

Script = Callable[[str], Path]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Return a function that writes an executable shell script."""

    def script(lines: str) -> Path:
        path = tmp_path / "check.sh"
        path.write_text("#!/bin/sh\n" + dedent(lines))
        path.chmod(0o755)
        return path

    return script


def image(content: bytes) -> Image:
    return Image({"/files/value": FileImage(content, 0)}, ("/files", "/tmp"))


def verdicts(check: Check, jobs: int, *contents: bytes, seconds: float = 20.0) -> list[CheckOutcome]:
    with Checkers(check, jobs, seconds) as checkers:
        return checkers.verdicts([(image(content), Answers([content.decode(), "last"])) for content in contents])


@pytest.mark.parametrize("jobs", [0, 1, 3])
def test_a_check_command_receives_directory_and_promises(script: Script, jobs: int) -> None:
    check = script(
        """
        read promise; read last
        [ "$last" = last ] && [ "$TMPDIR" = "$(dirname "$PWD")/tmp" ] || exit 9
        echo rubbish > value.new
        grep -q "^$promise$" value && grep -qv bad value && exit 0
        echo "$PWD/value has $(cat value)"
        echo on error >&2
        exit 1
        """
    )
    found = verdicts(CommandCheck(check), jobs, b"a", b"bad", b"c")

    assert found == [CheckOutcome(HELD), CheckOutcome(BROKEN, ("/files/value has bad",)), CheckOutcome(HELD)]


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("echo one; echo; echo two; exit 3", CheckOutcome(BROKEN, ("one", "two"))),
        ("echo one >&2; exit 3", CheckOutcome(BROKEN, ("one",))),
        ("exit 3", CheckOutcome(BROKEN, ("the check has ended: exit code 3",))),
        ("kill -SEGV $$", CheckOutcome(DIED, ("the check has ended: SIGSEGV",))),
        ("sleep 60", CheckOutcome(TIMED_OUT, ("no verdict within 0.4 s",))),
        ("exec yes", CheckOutcome(TIMED_OUT, ("no verdict within 0.4 s",))),
        ("exec >&- 2>&-; sleep 60", CheckOutcome(TIMED_OUT, ("no verdict within 0.4 s",))),
        ("sleep 60 & exit 0", CheckOutcome(HELD)),
        ("yes | head -c 1000000; exit 1", CheckOutcome(BROKEN, ("y",) * 20)),
    ],
)
def test_a_failing_check_command_affects_only_its_state(script: Script, body: str, outcome: CheckOutcome) -> None:
    check = script(f'read promise\n[ "$promise" = odd ] || exit 0\n{body}\n')
    before, odd, after = verdicts(CommandCheck(check), 1, b"a", b"odd", b"b", seconds=0.4)

    assert (before, after) == (CheckOutcome(HELD), CheckOutcome(HELD))
    assert odd == outcome


def test_a_check_that_times_out_is_repeated_alone(script: Script, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    check = script(f'read promise; [ "$promise" = odd ] || exit 0; [ -e {seen} ] && exit 0; touch {seen}; sleep 60')
    with Checkers(CommandCheck(check), 2, 0.5) as checkers:
        found = checkers.verdicts([(image(content), Answers([content.decode()])) for content in (b"a", b"odd", b"b")])
        again = checkers.repeated

    assert (found, again) == ([CheckOutcome(HELD)] * 3, 1)


def test_child_processes_of_a_check_command_end_with_it(script: Script, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    verdicts(CommandCheck(script(f"sleep 60 & echo $! > {pid}; sleep 60")), 1, b"a", seconds=0.3)
    end = monotonic() + 50
    while os.path.exists(f"/proc/{pid.read_text().strip()}/exe") and monotonic() < end:
        sleep(0.01)

    assert not Path(f"/proc/{pid.read_text().strip()}/exe").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has reapers")
@pytest.mark.parametrize("state", ["first", "last"])
def test_daemons_of_a_check_command_end_before_the_next_state(script: Script, tmp_path: Path, state: str) -> None:
    pid = tmp_path / "pid"
    check = script(f"read promise; [ $promise = {state} ] && (setsid sleep 60 & echo $! > {pid}); exit 0")
    with Checkers(CommandCheck(check), 1, 20.0) as checkers:
        for promise in ("first", "last"):
            checkers.verdicts([(image(b"a"), Answers([promise]))])
            assert not pid.exists() or not Path(f"/proc/{pid.read_text().strip()}/exe").exists()

    assert pid.exists()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_check_server_stays_up_and_answers_line_by_line(script: Script, tmp_path: Path, jobs: int) -> None:
    started, asked = tmp_path / "started", tmp_path / "asked"
    server = script(
        f"""
        echo . >> {started}
        while read line; do
            echo "$line" >> {asked}
            case "$line" in
                *'"bad"'*) echo '{{"broken": ["bad is bad", "twice"]}}';;
                *) echo '{{"broken": []}}';;
            esac
        done
        """
    )
    found = verdicts(CheckServer(str(server)), jobs, b"a", b"bad", b"c", b"d")

    held = CheckOutcome(HELD)
    assert found == [held, CheckOutcome(BROKEN, ("bad is bad", "twice")), held, held]
    assert 1 <= len(started.read_text().split()) <= jobs
    questions = [json.loads(line) for line in asked.read_text().splitlines()]
    assert sorted(question["acknowledged"][0] for question in questions) == ["a", "bad", "c", "d"]
    assert all(question["directory"].endswith("/files") for question in questions)
    assert len({question["directory"] for question in questions}) == 4


@pytest.mark.ci
@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("exit 3", CheckOutcome(DIED, ("the check's server has ended: exit code 3",))),
        ("kill -SEGV $$", CheckOutcome(DIED, ("the check's server has ended: SIGSEGV",))),
        ("sleep 60", CheckOutcome(TIMED_OUT, ("no verdict within 0.5 s",))),
    ],
)
def test_a_check_server_that_exits_or_hangs_is_restarted(script: Script, body: str, outcome: CheckOutcome) -> None:
    server = script(f'while read line; do case "$line" in *odd*) {body};; esac; echo \'{{"broken": []}}\'; done')

    held = CheckOutcome(HELD)
    assert verdicts(CheckServer(str(server)), 1, b"a", b"odd", b"b", seconds=0.5) == [held, outcome, held]


def test_an_invalid_answer_of_a_check_server_is_quoted(script: Script) -> None:
    server = script("while read line; do echo hello; done")
    (found,) = verdicts(CheckServer(str(server)), 1, b"a")

    assert found.outcome == RAISED
    assert found.lines[0] == 'the check\'s server: expected {"broken": [...]}, found hello'


def test_an_invalid_check_is_refused(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("echo")
    for make, message in (
        (lambda: check_in_file(tmp_path / "none"), "expected a Python file or an executable, found nothing"),
        (lambda: check_in_file(plain), "executable with chmod [+]x"),
        (lambda: check_in_file(tmp_path / "none.py"), "expected a Python file"),
        (lambda: CheckServer(""), "expected a command, found nothing"),
        (lambda: CheckServer("java 'Judge"), "No closing quotation"),
    ):
        with pytest.raises(CheckError, match=message):
            make()
    (found,) = verdicts(CheckServer("no-such-program-at-all"), 1, b"a")
    assert found == CheckOutcome(RAISED, ("no-such-program-at-all: No such file or directory",))
