import errno
import json
import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.command_line import usage_error
from tests.reports.cli.probe.programs import APPEND, CHECK, GONE, READ, SAVE, WriteFile, invoke

QUEUE = """
    import os
    data = os.open("data", os.O_WRONLY | os.O_CREAT)
    for number in range(3):
        os.write(data, b"%d\\n" % number)
        os.fsync(data)
        if number % 2:
            position = os.open("position", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.write(position, b"%d" % (2 * number + 2))
            os.close(position)
        print(number, flush=True)
    """

NEXT_LIFE = """
    def check(directory, acknowledged):
        data, position = ((directory / name) for name in ("data", "position"))
        found = data.read_bytes() if data.exists() else b""
        at = int((position.read_bytes() if position.exists() else b"") or b"0")
        found = found[:at] + b"more\\n" + found[at + 5 :]
        for number in acknowledged:
            if number.encode() + b"\\n" not in found:
                yield f"{number} is overwritten"
    """


def test_a_probe_without_a_broken_promise_exits_0(save: list[str]) -> None:
    result = invoke(*save, "sync")

    assert result.exit_code == 0, result.output
    assert "every promise held" in result.stdout
    for disk in ("strict-posix", "ext4-ordered", "process-kill"):
        assert disk in result.stdout
    assert result.stderr == ""


def test_a_broken_promise_is_reported_with_its_crash_losses_and_source_lines(save: list[str], tmp_path: Path) -> None:
    result = invoke("--out", str(tmp_path / "out"), *save)
    told = result.stdout

    assert result.exit_code == 1, result.output
    assert GONE in result.stdout
    assert "value 'one' is lost: found None" in told
    assert "rename of new to value undone" in told
    assert "by 3 rename new -> value  save.py:9" in told
    assert "crash after step 4: acknowledge 'one' at save.py:15" in told
    assert "on ext4-ordered; also on strict-posix, torn-sectors" in told
    assert "tornlog probe --replay" in told


def test_a_failure_is_written_as_a_directory_and_a_replayable_file(save: list[str], tmp_path: Path) -> None:
    out, kept = tmp_path / "out", tmp_path / "probe.json"
    result = invoke("--out", str(out), "--json", str(kept), *save)
    document = json.loads(kept.read_text())
    breach = next(one for one in document["breaches"] if one["signature"] == GONE)

    assert result.exit_code == 1
    assert sorted(path.name for path in Path(breach["directory"]).iterdir()) == ["new"]
    replayed = tmp_path / "replay.json"
    again = invoke("--replay", breach["file"], "--json", str(replayed))
    assert again.exit_code == 1
    assert "value 'one' is lost: found None" in again.stdout
    said = json.loads(replayed.read_text())
    assert (said["format"], said["same"], said["disk"]) == ("tornlog-probe-replay/1", True, breach["smallest"]["disk"])


def test_a_replay_can_use_another_check(save: list[str], tmp_path: Path, write_file: WriteFile) -> None:
    invoke("--out", str(tmp_path / "out"), *save)
    file = next((tmp_path / "out" / "failures").rglob("failure.json"))
    easy = write_file("easy.py", "def check(directory, acknowledged): pass")
    result = invoke("--replay", str(file), "--check", str(easy))

    assert result.exit_code == 0
    assert "the check now accepts this state" in result.stdout


def test_a_replay_that_reconstructs_a_different_state_is_refused(save: list[str], tmp_path: Path) -> None:
    invoke("--out", str(tmp_path / "out"), *save)
    file = next((tmp_path / "out" / "failures").rglob("failure.json"))
    document = json.loads(file.read_text())
    document["failure"]["decisions"] = {}
    file.write_text(json.dumps(document))
    result = invoke("--replay", str(file))

    assert result.exit_code == 3
    assert "not reproduced: state: expected digest" in result.stderr


@pytest.mark.parametrize("option", ["--json", "--junit", "--summary"])
@pytest.mark.parametrize("promise", ["broken", "kept"])
def test_a_result_file_on_a_full_disk_hides_neither_findings_nor_verdict(
    save: list[str], tmp_path: Path, option: str, promise: str
) -> None:
    out = tmp_path / "out"
    result = invoke(option, "/dev/full", "--out", str(out), *save, *(["sync"] if promise == "kept" else []))
    assert result.exit_code == (1 if promise == "broken" else 2)
    assert (GONE in result.output) == (promise == "broken")
    assert f"Invalid value for {option}: " in result.output
    assert os.strerror(errno.ENOSPC) in result.output
    assert (out / "report.html").exists()  # the other files are still written


def test_a_refusal_is_explained_even_if_the_result_file_cannot_be_written(write_file: WriteFile) -> None:
    script = write_file("save.py", "import os; os.mkfifo('pipe')")
    result = invoke("--json", "/dev/full", "--check", str(write_file("check.py", CHECK)), "--", str(script))
    assert result.exit_code == 3
    assert "the directory differs from the record: files/pipe" in result.stderr
    assert os.strerror(errno.ENOSPC) in result.stderr


def test_the_counts_in_the_probe_json_add_up(save: list[str]) -> None:
    result = invoke("--json", "-", "--limit", "20", *save)
    document = json.loads(result.stdout)

    assert document["format"] == "tornlog-probe/1"
    assert document["limit"] == 20
    assert document["acknowledged"] == 2
    assert document["states"] == sum(disk["states"] for disk in document["disks"])
    assert document["refused"] == document["allowed"] == []
    for disk in document["disks"]:
        assert disk["crashes"] == document["points"]
        assert disk["broken"] == sum(breach["disks"].get(disk["disk"], 0) for breach in document["breaches"])
    for breach in document["breaches"]:
        assert breach["states"] == sum(breach["disks"].values())
        assert (breach["file"], breach["directory"]) == ("", "")
        assert breach["smallest"]["losses"][0]["by"]
    assert result.exit_code == 1


def test_probe_disks_are_chosen_by_name(save: list[str]) -> None:
    result = invoke("--disk", "process-kill", "--json", "-", *save)

    assert result.exit_code == 0
    assert [disk["disk"] for disk in json.loads(result.stdout)["disks"]] == ["process-kill"]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("import subprocess; subprocess.run(['true'])", "subprocess.Popen: true: another process  save.py:1"),
        ("import sqlite3; sqlite3.connect('db').execute('create table a(b)')", "sqlite3.connect: db"),
        ("import os; os.mkfifo('pipe')", "the directory differs from the record: files/pipe"),
    ],
)
def test_a_program_with_calls_that_cannot_be_recorded_is_refused(
    write_file: WriteFile, tmp_path: Path, lines: str, reason: str
) -> None:
    check, kept = write_file("check.py", CHECK), tmp_path / "probe.json"
    script = write_file("save.py", lines)
    result = invoke("--check", str(check), "--json", str(kept), "--", str(script))

    assert result.exit_code == 3
    assert reason in result.stderr
    assert any(one.startswith(reason.partition("  ")[0]) for one in json.loads(kept.read_text())["refused"])
    assert "\n--record calls records at the calls of the system" in result.stderr


def test_unrecordable_calls_can_be_allowed_if_the_directory_matches_the_recording(write_file: WriteFile) -> None:
    check = write_file("check.py", CHECK)
    harmless = write_file("save.py", "import subprocess; open('a', 'w'); subprocess.run(['true'])")
    result = invoke("--check", str(check), "--allow", "subprocess.Popen", "--json", "-", "--", str(harmless))
    assert result.exit_code == 0
    assert json.loads(result.stdout)["allowed"] == ["subprocess.Popen: true: another process"]

    harmful = write_file("save.py", "import subprocess; subprocess.run(['touch', 'value'])")
    result = invoke("--check", str(check), "--allow", "subprocess.Popen", "--", str(harmful))
    assert result.exit_code == 3
    assert "/files/value: expected no such file, found one" in result.stderr


def test_a_probed_program_starts_with_a_copy_of_the_given_directory(
    save: list[str], write_file: WriteFile, tmp_path: Path
) -> None:
    begin = tmp_path / "begin"
    begin.mkdir()
    (begin / "value").write_text("two")
    result = invoke("--start", str(begin), "--json", "-", *save)

    assert (begin / "value").read_text() == "two"
    assert GONE not in [one["signature"] for one in json.loads(result.stdout)["breaches"]]


def test_a_check_that_fails_without_a_crash_is_a_finding_of_the_final_state(
    write_file: WriteFile, tmp_path: Path
) -> None:
    script, check = write_file("positions.py", QUEUE), write_file("check.py", NEXT_LIFE)
    kept, junit, out = tmp_path / "json", tmp_path / "junit.xml", tmp_path / "out"
    documents = ("--json", str(kept), "--junit", str(junit), "--out", str(out), "--jobs", "0")
    result = invoke("--check", str(check), *documents, "--", str(script))
    found = json.loads(kept.read_text())

    assert result.exit_code == 1, result.output
    assert "broken without a crash: # is overwritten\n  2 is overwritten\n  state after step" in result.stdout
    assert "acknowledge '2' at positions.py:11" in result.stdout
    assert "the check rejects the state at the end of the run" in " ".join(result.stdout.split())
    assert [one["disk"] for one in found["disks"]] == ["nothing-lost"]
    (breach,) = found["breaches"]
    assert (breach["states"], breach["smallest"]["losses"], found["finished"]) == (1, [], False)
    assert ElementTree.parse(junit).getroot().get("failures") == "1"
    again = invoke("--replay", breach["file"])
    assert again.exit_code == 1
    assert "broken without a crash: # is overwritten" in again.stdout


def test_a_probed_python_program_runs_with_the_interpreter_of_the_probe(write_file: WriteFile) -> None:
    check = write_file("check.py", "def check(directory, acknowledged): assert acknowledged in ([], [EXPECTED])\n")
    check.write_text(check.read_text() + f"EXPECTED = {sys.executable!r}\n")
    script = write_file("save.py", "import sys; open('a', 'w'); print(sys.executable)")

    assert invoke("--check", str(check), "--", str(script)).exit_code == 0


def test_on_the_default_disks_a_record_fails_without_a_checksum_and_passes_with_one(write_file: WriteFile) -> None:
    script, check = write_file("append.py", APPEND), write_file("check.py", READ)
    arguments = ["--check", str(check), "--jobs", "0", "--json", "-", "--", str(script)]

    plain, checked = json.loads(invoke(*arguments).stdout), json.loads(invoke(*arguments, "checksum").stdout)

    assert {disk["disk"]: disk["broken"] > 0 for disk in plain["disks"]} == {
        "strict-posix": False,
        "torn-sectors": True,
        "ext4-ordered": False,
        "process-kill": False,
    }
    assert "torn inside a sector" in plain["breaches"][0]["smallest"]["losses"][0]["what"]
    assert checked["breaches"] == []


@pytest.mark.ci
def test_a_check_can_be_any_executable(save: list[str], command: Path, tmp_path: Path) -> None:
    script = save[-1]
    kept = tmp_path / "probe.json"
    out = tmp_path / "out"
    result = invoke("--check", str(command), "--json", str(kept), "--out", str(out), "--jobs", "2", "--", script)
    document = json.loads(kept.read_text())

    assert result.exit_code == 1, result.output
    assert document["check"] == str(command)
    assert {one["signature"] for one in document["breaches"]} == {"'…' is lost: found '…'"}
    again = invoke("--replay", document["breaches"][0]["file"])
    assert again.exit_code == 1
    assert "is lost: found" in again.stdout
    assert invoke("--check", str(command), "--", script, "sync").exit_code == 0


def test_a_check_can_be_a_server_that_keeps_running(save: list[str], write_file: WriteFile, tmp_path: Path) -> None:
    server = write_file(
        "server.py",
        """
        import json, pathlib, sys
        for line in sys.stdin:
            asked = json.loads(line)
            value = pathlib.Path(asked["directory"], "value")
            found = value.read_text() if value.exists() else None
            lost = asked["acknowledged"] and found not in [asked["acknowledged"][-1], "two"]
            print(json.dumps({"broken": ["lost"] if lost else []}), flush=True)
        """,
    )
    command, out = f"{sys.executable} {server}", tmp_path / "out"
    result = invoke("--check-server", command, "--out", str(out), "--", save[-1])

    assert result.exit_code == 1, result.output
    assert "broken: lost" in result.stdout
    failure = out / "failures" / "lost" / "failure.json"
    assert invoke("--replay", str(failure)).exit_code == 1
    assert invoke("--check-server", command, "--", save[-1], "sync").exit_code == 0


def test_a_crash_in_recovery_is_reported_with_the_preceding_crash(write_file: WriteFile, tmp_path: Path) -> None:
    script = write_file("put.py", "open('journal', 'w').write('seven'); print('seven')")
    check = write_file(
        "check.py",
        """
        def check(directory, acknowledged):
            journal, value = directory / "journal", directory / "value"
            if journal.exists() and journal.read_text() == "seven":
                journal.unlink()
                value.write_text("seven")
            if acknowledged and not value.exists():
                yield "seven is lost"
        """,
    )
    arguments = ("--disk", "process-kill", "--recovery-crashes", "1", "--out", str(tmp_path / "out"))
    result = invoke("--check", str(check), *arguments, "--", str(script))

    assert result.exit_code == 1, result.output
    assert "crash points: 1 kind of violation" in result.stdout
    assert "broken by a crash in recovery: seven is lost" in result.stdout
    assert "crash after step 3: acknowledge 'seven' at put.py:1, on process-kill" in result.stdout
    assert "crash after step 2: unlink journal at check.py:5" in result.stdout
    again = invoke("--replay", str(tmp_path / "out/failures/recovery-seven-is-lost/failure.json"))
    assert again.exit_code == 1
    assert "then the check, during recovery" in again.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "expected a program"),
        (["--", "-m"], "expected a program"),
        (["--seeds", "2", "--", "save.py"], "expected a check"),
        (["--recovery-crashes", "1", "--", "save.py"], "expected a check"),
        (["--faults", "errors", "--", "save.py"], "expected a check"),
        (["--limit", "2", "--", "save.py"], "not allowed without a check"),
        (["--junit", "out.xml", "--", "save.py"], "not allowed without a check"),
        (["--check", "none.py", "--", "save.py"], "expected a Python file"),
        (["--check", "CHECK", "--disk", "floppy", "--", "save.py"], "no disk floppy"),
        (["--replay", "CHECK"], "not JSON"),
        (["--replay", "CHECK", "--", "save.py"], "found both"),
        (["--check", "CHECK", "--", "./no-such-program"], "expected a program, found no executable of that name"),
        (["--check", "CHECK", "--record", "python", "--", "true"], "expected a script, .py, or -m and a module"),
        (["--check", "CHECK", "--record", "magic", "--", "true"], "expected one of calls, python, found magic"),
        (["--check", "CHECK", "--stores", "all", "--", "true"], "expected one of step, call, found all"),
        (["--check", "CHECK", "--inject", "fire log", "--", "true"], "rule 'fire log': word 1: expected cut or one of"),
        (["--check", "CHECK", "--faults", "fire", "--", "true"], "expected one of errors, failed write, disk full"),
        (
            ["--check", "CHECK", "--seeds", "1", "--record", "python", "--", "SAVE"],
            "expected calls with --faults, --inject or --seeds, found python",
        ),
        (
            ["--check", "CHECK", "--seeds", "1", "--policy", "pct:0", "--", "SAVE"],
            "expected random, pct, pct:DEPTH with a depth of 1 to 99, found pct:0",
        ),
        (["--check", "CHECK", "--policy", "pct", "--", "SAVE"], "needs --seeds"),
        (["--check", "none.sh", "--", "true"], "expected a Python file or an executable, found nothing"),
        (["--check", "CHECK", "--check-server", "x", "--", "true"], "expected --check or --check-server, found both"),
        (["--check", "CHECK", "--program-seconds", "0.3", "--", "LOOP"], "has not ended within 0.3 s"),
        (["--check", "CHECK", "--time", "soon", "--", "SAVE"], "expected a time such as 30s or 5m, found soon"),
    ],
)
def test_an_invalid_probe_argument_is_a_usage_error_with_an_explanation(
    write_file: WriteFile, arguments: list[str], sentence: str
) -> None:
    places = {
        "CHECK": write_file("check.py", CHECK),
        "SAVE": write_file("save.py", SAVE),
        "LOOP": write_file("loop.py", "while True: pass"),
    }
    assert sentence in usage_error(*(str(places.get(argument, argument)) for argument in arguments), run=invoke)


def test_any_executable_is_recorded_with_its_calls_and_processes(command: Path, tmp_path: Path) -> None:
    program = "for value in one two; do echo $value > new; mv new value; echo $value; done"
    kept = tmp_path / "probe.json"
    result = invoke("--check", str(command), "--json", str(kept), "--jobs", "2", "--", "sh", "-c", program)

    assert result.exit_code == 1, result.output
    assert "rename new -> value" in result.stdout
    assert "by mv of process 1" in result.stdout
    document = json.loads(kept.read_text())
    assert (document["acknowledged"], document["refused"]) == (2, [])
    kills = next(disk for disk in document["disks"] if disk["disk"] == "process-kill")
    assert kills["broken"] == 0


def test_crashes_in_the_recovery_of_any_executable_are_tried(tmp_path: Path) -> None:
    check = tmp_path / "recover.sh"
    check.write_text(
        """#!/bin/sh
        promised=$(tail -n 1)
        if [ "$(cat journal 2>/dev/null)" = seven ]; then rm journal; echo seven > value; fi
        [ -z "$promised" ] || [ "$(cat value 2>/dev/null)" = seven ] || { echo "seven is lost"; exit 1; }
        """
    )
    check.chmod(0o755)
    program = "echo seven > j; mv j journal; echo seven"
    arguments = ("--recovery-crashes", "1", "--disk", "process-kill", "--check", str(check))
    result = invoke(*arguments, "--", "sh", "-c", program)

    assert result.exit_code == 1, result.output
    assert "broken by a crash in recovery: seven is lost" in result.stdout
    assert "crash after step 2: unlink journal" in result.stdout
