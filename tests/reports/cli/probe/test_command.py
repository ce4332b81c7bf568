import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from time import sleep
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from tornlog.__main__ import application

SAVE = """
    import os, sys
    def save(value):
        with open("new", "w") as file:
            file.write(value)
            if "sync" in sys.argv:
                file.flush()
                os.fsync(file.fileno())
        os.replace("new", "value")
        if "sync" in sys.argv:
            directory = os.open(".", os.O_RDONLY)
            os.fsync(directory)
    for value in ("one", "two"):
        save(value)
        print(value)
    """
CHECK = """
    def check(directory, acknowledged):
        file = directory / "value"
        found = file.read_text() if file.exists() else None
        if acknowledged and found not in [acknowledged[-1], "two"]:
            yield f"value {acknowledged[-1]!r} is lost: found {found!r}"
    """
GONE = "value '…' is lost: found None"
WriteFile = Callable[[str, str], Path]


@pytest.fixture
def write_file(tmp_path: Path) -> WriteFile:
    def write_file(name: str, lines: str) -> Path:
        path = tmp_path / name
        path.write_text(dedent(lines))
        return path

    return write_file


@pytest.fixture
def save(write_file: WriteFile) -> list[str]:
    """Arguments to probe the program above."""
    script, check = write_file("save.py", SAVE), write_file("check.py", CHECK)
    return ["--check", str(check), "--jobs", "0", "--", str(script)]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(application(), ["probe", *arguments], env={"COLUMNS": "120"})


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
    assert "the directory is not what was recorded: files/pipe" in result.stderr
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


def test_several_probe_processes_have_the_same_findings_as_one(save: list[str]) -> None:
    one = json.loads(invoke("--json", "-", *save).stdout)
    save[save.index("--jobs") + 1] = "2"
    several = json.loads(invoke("--json", "-", *save).stdout)

    for document in (one, several):
        del document["seconds"], document["states_per_second"]
    assert several == one


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("import subprocess; subprocess.run(['true'])", "subprocess.Popen: true: another process  save.py:1"),
        ("import sqlite3; sqlite3.connect('db').execute('create table a(b)')", "sqlite3.connect: db"),
        ("import os; os.mkfifo('pipe')", "the directory is not what was recorded: files/pipe"),
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
    harmless = write_file("save.py", "import subprocess; subprocess.run(['true'])")
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
    assert "does not accept the state at the end of the run" in " ".join(result.stdout.split())
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
    script = write_file("save.py", "import sys; print(sys.executable)")

    assert invoke("--check", str(check), "--", str(script)).exit_code == 0


APPEND = """
    import os, sys
    from zlib import crc32
    log = os.open("log", os.O_RDWR | os.O_CREAT)
    directory = os.open(".", os.O_RDONLY)
    os.fsync(directory)
    for number in range(4):
        body = b"%035d " % number
        head = crc32(body) if "checksum" in sys.argv else len(body)
        os.pwrite(log, head.to_bytes(4, "big") + body, 40 * number)
        os.fsync(log)
        print(number)
    """
READ = """
    from zlib import crc32
    def check(directory, acknowledged):
        content = (directory / "log").read_bytes() if (directory / "log").exists() else b""
        found = 0
        for at in range(0, len(content) - 39, 40):
            head, body = int.from_bytes(content[at : at + 4], "big"), content[at + 4 : at + 40]
            if head not in (len(body), crc32(body)):
                break
            if body != b"%035d " % found:
                yield f"record {found} was never written: {body!r}"
            found += 1
        if found < len(acknowledged):
            yield f"{len(acknowledged)} were acknowledged, found {found}"
    """


def test_on_the_default_disks_a_record_fails_without_a_checksum_and_passes_with_one(
    write_file: WriteFile,
) -> None:
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


TWO_BUGS = """
    import os
    log = os.open("log", os.O_RDWR | os.O_CREAT)
    os.write(log, b"HE")
    os.write(log, b"AD")
    for number in range(3):
        os.write(log, b"%d" % number)
        os.fsync(log)
        print(number, flush=True)
    os.pwrite(log, b"---", 4)
    os.pwrite(log, b"012", 4)
    os.fsync(log)
    """
HEAD_AND_NUMBERS = """
    def check(directory, acknowledged):
        log = (directory / "log").read_bytes() if (directory / "log").exists() else b"HEAD"
        if log and not log.startswith(b"HEAD"):
            yield "\\x1b[31mthe log does not open: no header\\x1b[0m"
            return
        for number in acknowledged:
            if number.encode() not in log:
                yield f"{number} was promised and is lost"
    """


@pytest.mark.parametrize("record", ["python", "calls"])
def test_each_kind_of_breach_has_a_row_and_a_story_and_lost_promises_come_first(
    write_file: WriteFile, tmp_path: Path, record: str
) -> None:
    script, check = write_file("store.py", TWO_BUGS), write_file("check.py", HEAD_AND_NUMBERS)
    out, kept = tmp_path / "out", tmp_path / "json"
    options = ("--record", record, "--jobs", "0", "--out", str(out), "--json", str(kept))
    result = invoke("--check", str(check), *options, "--", str(script))
    severe, mild = json.loads(kept.read_text())["breaches"]

    assert result.exit_code == 1, result.output
    assert (severe["signature"], mild["signature"]) == (
        "# was promised and is lost",
        "the log does not open: no header",
    )
    assert (severe["smallest"]["disk"], severe["smallest"]["acknowledged"]) == ("process-kill", 3)
    assert (mild["smallest"]["disk"], mild["smallest"]["acknowledged"]) == ("process-kill", 0)
    assert severe["file"] != mild["file"]
    assert result.stdout.index("\nbroken: # was promised") < result.stdout.index("\nbroken: the log does not open")
    assert "\x1b" not in result.stdout
    for breach in (severe, mild):
        assert invoke("--replay", breach["file"]).exit_code == 1


def test_breach_kinds_beyond_the_story_limit_are_counted(write_file: WriteFile, tmp_path: Path) -> None:
    wordy = """
        def check(directory, acknowledged):
            log = (directory / "log").read_bytes() if (directory / "log").exists() else b""
            if acknowledged and not (directory / "done").exists():
                yield f"{chr(ord('a') + len(log)) * 3} today"
        """
    lines = """
        import os
        log = os.open("log", os.O_RDWR | os.O_CREAT)
        print("begun", flush=True)
        for number in range(25):
            os.write(log, b"x")
        os.close(os.open("done", os.O_WRONLY | os.O_CREAT))
        """
    script, check = write_file("many.py", lines), write_file("check.py", wordy)
    kept, out = tmp_path / "json", tmp_path / "out"
    options = ("--disk", "process-kill", "--jobs", "0", "--json", str(kept), "--out", str(out))
    result = invoke("--check", str(check), *options, "--", str(script))
    breaches = json.loads(kept.read_text())["breaches"]

    assert result.exit_code == 1, result.output
    assert len(breaches) == 26
    assert result.stdout.count("\nbroken: ") == len(list((out / "failures").iterdir())) == 10
    assert "and 6 kinds of breach more" in result.stdout
    assert "and 16 kinds of breach more, which --json lists" in result.stdout
    assert [one["smallest"] is None for one in breaches] == [False] * 10 + [True] * 16
    assert "Broken in 26 ways" in (out / "report.html").read_text()


def test_the_output_of_the_check_is_printed_after_all_findings(write_file: WriteFile) -> None:
    loud = READ.replace("def check", "import os, sys\n    def check").replace(
        "    found = 0", "    sys.stderr.write('opened\\n'); os.write(2, b'below\\n'); print('aloud'); found = 0", 1
    )
    script, check = write_file("append.py", APPEND), write_file("check.py", loud)
    result = invoke("--check", str(check), "--", str(script))
    before, heading, said = result.stderr.partition("Output of the check for all states:")

    assert result.exit_code == 1
    assert "broken: " in result.stdout
    assert heading
    assert not any(word in before + result.stdout for word in ("opened", "aloud"))
    assert all(word in said for word in ("opened", "below", "aloud"))


def test_faults_that_could_not_be_injected_are_reported(write_file: WriteFile) -> None:
    script, check = write_file("append.py", APPEND), write_file("check.py", READ)
    result = invoke("--disk", "strict-posix", "--check", str(check), "--jobs", "0", "--", str(script))

    assert result.exit_code == 0
    assert "never occurred on these disks: torn page" in result.stdout


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A shell script that checks the program above."""
    path = tmp_path / "check.sh"
    path.write_text(
        """#!/bin/sh
        last=$(tail -n 1)
        [ -z "$last" ] && exit 0
        found=$(cat value 2>/dev/null)
        [ "$found" = "$last" ] || [ "$found" = two ] && exit 0
        echo "'$last' is lost: found '$found'"
        exit 1
        """
    )
    path.chmod(0o755)
    return path


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


def test_a_check_can_be_a_server_that_stays_up(save: list[str], write_file: WriteFile, tmp_path: Path) -> None:
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
    assert "crash points: 1 kind of breach" in result.stdout
    assert "broken by a crash in recovery: seven is lost" in result.stdout
    assert "crash after step 3: acknowledge 'seven' at put.py:1, on process-kill" in result.stdout
    assert "crash after step 2: unlink journal at check.py:5" in result.stdout
    again = invoke("--replay", str(tmp_path / "out/failures/recovery-seven-is-lost/failure.json"))
    assert again.exit_code == 1
    assert "then the check, during recovery" in again.stdout


IGNORE = """
    import os
    log = os.open("log", os.O_CREAT | os.O_WRONLY)
    os.fsync(os.open(".", os.O_RDONLY))
    os.write(log, b"seven")
    try:
        os.fsync(log)
    except OSError:
        pass
    print("seven")
    """
SEVEN = """
    def check(directory, acknowledged):
        log = directory / "log"
        if acknowledged and not (log.exists() and log.read_text() == "seven"):
            yield "seven is lost"
    """


def test_a_fault_at_a_call_is_reported_with_its_losses_and_reproduced_by_a_replay(
    write_file: WriteFile, tmp_path: Path
) -> None:
    script, check = write_file("ignore.py", IGNORE), write_file("check.py", SEVEN)
    kept, out = tmp_path / "probe.json", tmp_path / "out"
    faults = ("--faults", "failed-sync", "--faults", "failed extend")
    rest = ("--json", str(kept), "--out", str(out), "--disk", "ext4-ordered", "--jobs", "0", "--", str(script))
    result = invoke("--check", str(check), *faults, *rest)

    assert result.exit_code == 1, result.output
    shown = result.stdout
    assert "crash points: 1 kind of breach" in shown
    assert "faults at calls: failed sync 1" in shown
    assert "never injected, as no call fits: failed extend" in shown
    assert "with failed sync at call 1 of those that it can strike, step 4 failed sync log  fsync" in shown
    assert "not durable, unless written again: what the failed sync of step 4 was to write" in shown
    assert "4 failed sync log  fsync" in shown
    found = json.loads(kept.read_text())["reruns"]
    assert (found["runs"], found["injected"], found["never_injected"]) == (1, {"failed sync": 1}, ["failed extend"])
    (breach,) = found["breaches"]
    assert (breach["kind"], breach["signature"]) == ("failed sync", "seven is lost")
    assert json.loads(Path(breach["file"]).read_text())["failure"]["rerun"] == breach["rerun"]
    again = invoke("--replay", str(out / "failures/failed-sync-seven-is-lost/failure.json"))
    assert again.exit_code == 1
    assert "step 4 failed sync log  fsync" in again.stdout


def test_aimed_faults_and_crashes_are_reported_by_their_rules(write_file: WriteFile, tmp_path: Path) -> None:
    script, check = write_file("ignore.py", IGNORE), write_file("check.py", SEVEN)
    kept = tmp_path / "probe.json"
    rules = ("--inject", "failed-sync l* #1", "--inject", "cut at create log", "--inject", "torn-write other")
    rest = ("--json", str(kept), "--disk", "ext4-ordered", "--jobs", "0", "--", str(script))
    result = invoke("--check", str(check), *rules, *rest)

    assert result.exit_code == 1, result.output
    assert "failed-sync l* #1: injected at 1 call, in log\n" in result.stdout
    assert "torn-write other: never reached\n" in result.stdout
    assert "cut at create log: 1 match; other crashes were not tried\n" in result.stdout
    assert "with failed-sync l* #1, step 4 failed sync log  fsync" in result.stdout
    found = json.loads(kept.read_text())
    assert (found["points"], found["crash_rules"]) == (2, {"cut at create log": 1})
    assert found["reruns"]["rules"] == {
        "failed-sync l* #1": {"calls": 1, "files": ["log"]},
        "torn-write other": {"calls": 0, "files": []},
    }


def test_a_new_breach_of_an_aimed_fault_ends_the_probe_and_a_known_one_does_not(
    write_file: WriteFile, tmp_path: Path
) -> None:
    script, check = write_file("ignore.py", IGNORE), write_file("check.py", SEVEN)
    kept, known = tmp_path / "probe.json", write_file("known", "seven is lost  # issue 7\n")
    rules = ("--inject", "failed-sync l* #1", "--inject", "failed-write l* #1")
    rest = ("--json", str(kept), "--disk", "ext4-ordered", "--jobs", "0", "--", str(script))

    stopped = invoke("--stop-at-first", "--check", str(check), *rules, *rest)
    found = json.loads(kept.read_text())
    accepted = invoke("--stop-at-first", "--baseline", str(known), "--check", str(check), *rules, *rest)
    after = json.loads(kept.read_text())

    assert (stopped.exit_code, found["ended"]) == (1, "--stop-at-first")
    assert found["reruns"]["untried"] == ["failed-sync l* #1", "failed-write l* #1"]
    assert [breach["signature"] for breach in found["reruns"]["breaches"]] == ["seven is lost"]
    assert accepted.exit_code == 0, accepted.output
    assert "ended" not in after
    assert [(one["kind"], one["known"]) for one in after["reruns"]["breaches"]] == [("failed-sync l* #1", "issue 7")]
    assert [rule["calls"] for rule in after["reruns"]["rules"].values()] == [1, 1]
    assert after["reruns"]["untried"] == []


def test_a_fault_that_the_program_asks_for_is_reported(write_file: WriteFile) -> None:
    asking = """print("failed-sync", file=open(os.environ["TORNLOG_CONTROL"], "w"), flush=True)"""
    script = write_file("ask.py", IGNORE.replace("os.write(", asking + "\n    os.write(", 1))
    check = write_file("check.py", SEVEN)
    options = ("--record", "calls", "--disk", "ext4-ordered", "--jobs", "0", "--check", str(check))
    result = invoke(*options, "--faults", "failed-write", "--", str(script))

    assert result.exit_code == 1, result.output
    assert "asked for by the program: failed-sync: injected at 1 call\n" in result.stdout
    assert "failed write 1\n" in result.stdout


@pytest.mark.parametrize(
    ("asked", "gap"),
    [
        (("--inject", "failed-sync other"), "never reached: failed-sync other"),
        (("--inject", "cut at unlink"), "never reached: cut at unlink"),
        (("--faults", "failed-extend"), "no fault was injected"),
    ],
)
def test_a_fault_that_was_never_injected_does_not_pass(write_file: WriteFile, asked: tuple[str, str], gap: str) -> None:
    script, check = write_file("ignore.py", IGNORE), write_file("check.py", SEVEN)
    result = invoke("--check", str(check), *asked, "--jobs", "0", "--", str(script))

    assert result.exit_code == 3, result.output
    assert f"no promise was broken, but {gap}\n" in result.stdout


def test_a_fault_after_which_the_program_makes_no_promise_is_not_a_failure(write_file: WriteFile) -> None:
    script, check = write_file("stop.py", IGNORE.replace("pass", "raise")), write_file("check.py", SEVEN)
    result = invoke("--check", str(check), "--faults", "failed-sync", "--jobs", "0", "--", str(script))

    assert result.exit_code == 0, result.output
    assert "1 ended with an error" in " ".join(result.stdout.split())


SERVER = """
    import os, socket, tempfile
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(tempfile.gettempdir() + "/server.sock")
    os.mkfifo("fifo")
    log = os.open("log", os.O_WRONLY | os.O_CREAT)
    os.fsync(log)
    os.fsync(os.open(".", os.O_RDONLY))
    for number in range(3):
        os.write(log, b"%d\\n" % number)
        try:
            os.fsync(log)
        except OSError:
            print(number, flush=True)
            os._exit(1)
        print(number, flush=True)
    os.unlink(tempfile.gettempdir() + "/server.sock")
    os.unlink("fifo")
    """
ALL_LINES = """
    def check(directory, acknowledged):
        log = (directory / "log").read_text() if (directory / "log").exists() else ""
        for number in acknowledged:
            if number not in log.split():
                yield f"{number} is lost"
    """


def test_a_run_is_not_discarded_for_a_socket_or_fifo_left_by_a_fault(write_file: WriteFile, tmp_path: Path) -> None:
    script, check = write_file("server.py", SERVER), write_file("check.py", ALL_LINES)
    faults = ("--record", "calls", "--faults", "failed-sync", "--disk", "ext4-ordered", "--jobs", "0")
    result = invoke(*faults, "--json", "-", "--check", str(check), "--", str(script))
    found = json.loads(result.stdout)

    assert result.exit_code == 1, result.output
    assert found["breaches"] == []
    assert (found["reruns"]["runs"], found["reruns"]["discarded"]) == (4, [])
    assert [(one["kind"], one["signature"]) for one in found["reruns"]["breaches"]] == [("failed sync", "# is lost")]


def test_a_discarded_run_is_named_and_the_probe_does_not_pass(write_file: WriteFile, tmp_path: Path) -> None:
    moves_away = IGNORE.replace("pass", f"os.rename('log', {str(tmp_path / 'away')!r}); raise")
    script, check = write_file("move.py", moves_away), write_file("check.py", SEVEN)
    kept, junit, summary, out = (tmp_path / name for name in ("json", "xml", "md", "out"))
    documents = ("--json", str(kept), "--junit", str(junit), "--summary", str(summary), "--out", str(out))
    faults = ("--faults", "failed-sync", "--faults", "failed-extend", "--disk", "ext4-ordered", "--jobs", "0")
    result = invoke(*faults, *documents, "--check", str(check), "--", str(script))
    found = json.loads(kept.read_text())["reruns"]

    assert result.exit_code == 3, result.output
    assert (found["runs"], found["discarded"]) == (0, ["failed sync 1"])
    assert found["never_injected"] == ["failed extend"]
    assert "0 checked: no promise was broken, but 1 run could not be recorded" in " ".join(result.stdout.split())
    assert "1 run could not be recorded (failed sync 1): rename: /files/log -> elsewhere" in result.stdout
    assert "as no call fits: failed extend\n" in result.stdout
    assert "no promise was broken, but 1 run could not be recorded" in summary.read_text()
    assert "No promise was broken, but 1 run could not be recorded" in (out / "report.html").read_text()
    root = ElementTree.parse(junit).getroot()
    assert (root.get("failures"), root.get("errors")) == ("0", "1")


def test_a_probe_with_a_discarded_recovery_does_not_pass(write_file: WriteFile) -> None:
    script = write_file("put.py", "open('journal', 'w').write('seven'); print('seven')")
    check = write_file("check.py", "def check(directory, acknowledged): import os; os.system('rm -f journal')")
    options = ("--recovery-crashes", "1", "--disk", "process-kill", "--jobs", "0")
    result = invoke(*options, "--check", str(check), "--", str(script))

    assert result.exit_code == 3, result.output
    assert "no promise was broken, but 4 recoveries could not be recorded" in " ".join(result.stdout.split())
    assert "\n  --record calls records at the calls of the system" in result.stdout


MANY = """
    import sys
    for number in range(int(sys.argv[1])):
        with open("a", "w") as file:
            file.write(str(number))
    """
SLOW = """
    import time
    from pathlib import Path
    asked = 0
    def check(directory, acknowledged):
        global asked
        asked += 1
        if asked > SOME:
            Path(STARTED).touch()
            time.sleep(600)
        if (directory / "a").exists() and not (directory / "a").read_bytes():
            yield "empty"
    """


@pytest.mark.ci
@pytest.mark.parametrize(("jobs", "end"), [("1", "SIGTERM"), ("0", "SIGINT"), ("1", "SIGINT"), ("0", "--time")])
@pytest.mark.parametrize(("finds", "code"), [(True, 1), (False, 0)])
def test_an_interrupted_probe_reports_its_findings(
    write_file: WriteFile, tmp_path: Path, jobs: str, end: str, finds: bool, code: int
) -> None:
    started, kept, junit, out = (tmp_path / name for name in ("started", "json", "junit.xml", "out"))
    lines = SLOW.replace("SOME", "12").replace("STARTED", repr(str(started)))
    script = write_file("many.py", MANY)
    check = write_file("check.py", lines if finds else lines.partition("        if (dir")[0])
    documents = ("--json", str(kept), "--junit", str(junit), "--out", str(out))
    options = ("--check", str(check), "--jobs", jobs, "--seconds", "600", *documents)
    limit = ("--time", "10s") if end == "--time" else ()
    command = [sys.executable, "-m", "tornlog", "probe", *options, *limit, "--", str(script), "20"]
    pipe = subprocess.PIPE
    running = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, "COLUMNS": "120"})
    if not limit:
        while not started.exists() and running.poll() is None:
            sleep(0.01)
        running.send_signal(signal.Signals[end])
    printed, errors = running.communicate(timeout=120)
    found = json.loads(kept.read_text())

    codes = {"SIGTERM": 143, "SIGINT": 130, "--time": 3}
    reason = {"SIGTERM": "SIGTERM", "SIGINT": "Ctrl-C", "--time": "--time 10s"}[end]
    assert (running.returncode, errors) == (code or codes[end], "")
    left_out = f"only {found['points']} of 41 crash points were tried" if limit else "crashes after step "
    assert f"not finished:\n  the probe was ended by {reason}\n  {left_out}" in printed
    assert (found["finished"], found["ended"]) == (False, reason)
    assert 0 < found["points"] < 60
    assert [one["signature"] for one in found["breaches"]] == (["empty"] if finds else [])
    assert ("broken: empty" in printed) == finds
    assert "every promise held" not in printed
    root = ElementTree.parse(junit).getroot()
    assert root.get("failures" if finds else "errors") != "0"
    assert f"The probe was ended by {reason}." in (out / "report.html").read_text()


@pytest.mark.ci
def test_faults_and_seeds_left_out_by_a_time_limit_are_named(write_file: WriteFile, tmp_path: Path) -> None:
    script = write_file("wait.py", IGNORE.replace("pass", "__import__('time').sleep(600)"))
    check = write_file("check.py", SEVEN)
    faults = ("--faults", "failed-sync", "--faults", "lying-sync", "--seeds", "3")
    options = ("--check", str(check), *faults, "--time", "10s", "--disk", "ext4-ordered", "--jobs", "0", "--json", "-")
    result = invoke(*options, "--", str(script))
    found = json.loads(result.stdout)

    assert result.exit_code == 3, result.output
    assert (found["finished"], found["reruns"]["untried"]) == (True, ["failed sync", "lying sync", "3 of 3 seeds"])
    assert found["reruns"]["never_injected"] == []
    assert "not tried to the end: failed sync, lying sync, 3 of 3 seeds" in result.stderr


@pytest.mark.parametrize("record", ["python", "calls"])
def test_stories_include_a_file_that_existed_before_the_run(write_file: WriteFile, tmp_path: Path, record: str) -> None:
    begin, out = tmp_path / "begin", tmp_path / "out"
    begin.mkdir()
    for name in ("data", "later"):
        (begin / name).write_text("AAAA")
    lines = """
        import os
        data = os.open("data", os.O_WRONLY)
        os.write(data, b"BB")
        os.write(data, b"BB")
        os.ftruncate(os.open("later", os.O_WRONLY), 0)
        print("BBBB", flush=True)
        """
    script = write_file("put.py", lines)
    check = write_file(
        "check.py",
        """
        def check(directory, acknowledged):
            if (directory / "data").read_text() not in ("AAAA", "BBBB"):
                yield "half"
        """,
    )
    options = ("--record", record, "--disk", "process-kill", "--jobs", "0", "--out", str(out), "--start", str(begin))
    result = invoke(*options, "--check", str(check), "--", str(script))
    (failure,) = out.rglob("failure.json")
    replayed = invoke("--replay", str(failure))

    for shown in (result.stdout, replayed.stdout):
        assert "crash after step 1: write data [0, 2)" in shown
        assert "     1 write data [0, 2)" in shown
    assert "later" in (out / "report.html").read_text()
    assert "file 1" not in (out / "report.html").read_text()


def test_stories_include_a_file_that_existed_before_a_recovery(write_file: WriteFile) -> None:
    script = write_file("put.py", "open('data', 'w').write('AA'); open('log', 'w').write('BB'); print('BB')")
    check = write_file(
        "check.py",
        """
        import os
        def check(directory, acknowledged):
            data, log = directory / "data", directory / "log"
            if log.exists() and log.read_text() == "BB" and data.exists():
                log.unlink()
                file = os.open(data, os.O_WRONLY)
                os.write(file, b"B")
                os.write(file, b"B")
            if acknowledged and data.read_text() == "BA":
                yield "half"
        """,
    )
    options = ("--disk", "process-kill", "--recovery-crashes", "1", "--jobs", "0")
    result = invoke(*options, "--check", str(check), "--", str(script))

    assert result.exit_code == 1, result.output
    assert "crash after step 3: write data [0, 1)" in result.stdout


@pytest.mark.parametrize("record", ["python", "calls"])
def test_a_failed_script_is_reported_with_the_end_of_its_standard_output(write_file: WriteFile, record: str) -> None:
    script = write_file(
        "fail.py", "import os, sys; print('it is locked', flush=True); os.write(1, b'raw'); sys.exit(3)"
    )
    check = write_file("check.py", CHECK)
    result = invoke("--record", record, "--check", str(check), "--", str(script))

    assert result.exit_code == 2
    assert "the program has ended with 3; the end of its standard output: it is locked | raw" in " ".join(
        result.stderr.replace("│", " ").split()
    )


def test_distinct_thread_orders_of_a_probed_program_are_counted(write_file: WriteFile) -> None:
    lines = """
        import threading
        threads = [threading.Thread(target=lambda name=name: open(name, "w").write(name)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        """
    script, check = write_file("two.py", lines), write_file("check.py", "def check(directory, acknowledged): return []")
    result = invoke("--check", str(check), "--seeds", "4", "--disk", "process-kill", "--jobs", "0", "--", str(script))

    assert result.exit_code == 0, result.output
    assert "4 seeds, " in result.stdout
    assert "other orders, with " in result.stdout


def test_pct_of_depth_1_runs_each_thread_to_its_end_in_two_orders_of_two_threads(write_file: WriteFile) -> None:
    lines = """
        import threading
        def create(name):
            for number in range(6):
                open(f"{name} {number}", "x").close()
        threads = [threading.Thread(target=create, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        """
    script, check = write_file("two.py", lines), write_file("check.py", "def check(directory, acknowledged): return []")
    given = ("--check", str(check), "--seeds", "8", "--disk", "process-kill", "--jobs", "0")
    orders = {}
    for policy in ("pct:1", "random"):
        result = invoke(*given, "--policy", policy, "--", str(script))
        assert result.exit_code == 0, result.output
        found = re.search(r"8 seeds, (\d+) other orders", result.stdout)
        assert found is not None, result.stdout
        orders[policy] = int(found[1])

    assert orders["pct:1"] <= 2 < orders["random"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "expected a program"),
        (["--", "-m"], "expected a program"),
        (["--seeds", "2", "--", "save.py"], "expected a check"),
        (["--recovery-crashes", "1", "--", "save.py"], "expected a check"),
        (["--faults", "errors", "--", "save.py"], "expected a check"),
        (["--limit", "2", "--", "save.py"], "of no use without a check"),
        (["--junit", "out.xml", "--", "save.py"], "of no use without a check"),
        (["--check", "none.py", "--", "save.py"], "expected a Python file"),
        (["--check", "CHECK", "--disk", "floppy", "--", "save.py"], "no disk floppy"),
        (["--replay", "CHECK"], "not JSON"),
        (["--replay", "CHECK", "--", "save.py"], "found both"),
        (
            ["--check", "CHECK", "--", "./no-such-program"],
            "expected a program, found none that can be run by that name",
        ),
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
        (["--check", "CHECK", "--policy", "pct", "--", "SAVE"], "of no use without --seeds"),
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
    result = invoke(*(str(places.get(argument, argument)) for argument in arguments))

    assert result.exit_code == 2, result.output
    assert sentence in " ".join(result.stderr.replace("│", " ").split())


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


def test_stop_at_first_ends_with_one_breach_and_names_what_was_left_out(save: list[str]) -> None:
    options = ("--stop-at-first", "--faults", "failed-sync", "--json", "-", "--disk", "strict-posix")
    whole, stopped = invoke("--json", "-", "--disk", "strict-posix", *save), invoke(*options, *save)
    every, first = json.loads(whole.stdout), json.loads(stopped.stdout)

    assert stopped.exit_code == 1
    assert len(every["breaches"]) > 1
    assert len(first["breaches"]) == 1
    assert first["judged"] < every["judged"]
    assert (first["finished"], first["ended"]) == (False, "--stop-at-first")
    assert first["reruns"]["untried"] == ["failed sync"]
    assert "the probe was ended by --stop-at-first" in stopped.stderr
    assert "were not tried" in stopped.stderr


def test_a_sample_says_how_many_crash_points_were_tried(save: list[str], tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    result = invoke("--points", "5", "--json", str(found), *save, "sync")
    document = json.loads(found.read_text())

    assert result.exit_code == 0, result.output
    assert (document["points"], document["points_of"], document["finished"]) == (5, 13, True)
    assert "5 of 13 crash points, evenly over the record: no promise was broken in this sample" in result.stdout


def test_a_sample_is_the_same_each_time(save: list[str]) -> None:
    one, other = (json.loads(invoke("--json", "-", "--points", "7", *save).stdout) for _ in range(2))

    assert len(one["breaches"]) > 0
    for clock in ("seconds", "states_per_second"):
        del one[clock], other[clock]
    assert one == other


def test_a_sample_as_large_as_the_record_finds_the_same_breaches(save: list[str]) -> None:
    every, sample = (json.loads(invoke("--json", "-", *more, *save).stdout) for more in ((), ("--points", "999")))
    shared = ("signature", "states", "points", "disks")

    assert [[one[name] for name in shared] for one in sample["breaches"]] == [
        [one[name] for name in shared] for one in every["breaches"]
    ]
    assert sample["disks"] == every["disks"]


def test_a_bug_at_the_end_of_a_long_run_is_found_in_a_sample(write_file: WriteFile) -> None:
    script = write_file(
        "append.py",
        """
        import os
        log = os.open("log", os.O_WRONLY | os.O_CREAT)
        for number in range(300):
            os.write(log, b"x")
            if number < 250:
                os.fsync(log)
            print(number)
        """,
    )
    check = write_file(
        "check.py",
        """
        def check(directory, acknowledged):
            size = (directory / "log").stat().st_size if (directory / "log").exists() else 0
            if size < len(acknowledged):
                yield "the log is short"
        """,
    )
    result = invoke("--points", "20", "--disk", "ext4-ordered", "--check", str(check), "--jobs", "0", "--", str(script))

    assert result.exit_code == 1, result.output
    assert "20 of 852 crash points, evenly over the record" in result.stdout


def test_known_findings_pass_and_those_that_did_not_occur_are_named(save: list[str], tmp_path: Path) -> None:
    options = ("--faults", "failed-write", "--recovery-crashes", "1", "--disk", "strict-posix")
    printed = invoke(*options, *save).stdout
    signatures = [line.partition(": ")[2] for line in printed.splitlines() if line.startswith("broken")]
    baseline, found, junit = (tmp_path / name for name in ("baseline", "found.json", "junit.xml"))
    lines = [f"{signature}  # issue #7" for signature in dict.fromkeys(signatures)]
    baseline.write_text("\n".join([*lines, "", "# entries are lost  # fixed # soon"]))
    files = ("--baseline", str(baseline), "--json", str(found), "--junit", str(junit))
    result = invoke(*files, *options, *save)
    document = json.loads(found.read_text())

    assert len(lines) > 1
    assert result.exit_code == 0, result.output
    assert f"known: {GONE}: issue #7" in result.stdout
    assert "gone: # entries are lost: fixed # soon" in result.stdout
    assert f"no new kind of breach, {len(signatures)} known" in result.stdout
    assert document["baseline"]["gone"] == {"# entries are lost": "fixed # soon"}
    assert {one["known"] for one in document["breaches"]} == {"issue #7"}
    assert ElementTree.parse(junit).getroot().get("failures") == "0"
    skipped = ElementTree.parse(junit).getroot().iter("skipped")
    assert all("issue #7" in (one.get("message") or "") for one in skipped)
    assert "skipped" in junit.read_text()


@pytest.mark.parametrize(
    ("more", "known", "new"),
    [((), GONE, "value '…' is lost: found '…'"), (("--stop-at-first",), "value '…' is lost: found '…'", GONE)],
)
def test_a_new_finding_fails_beside_a_known_one(
    save: list[str], tmp_path: Path, more: tuple[str, ...], known: str, new: str
) -> None:
    baseline = tmp_path / "baseline"
    baseline.write_text(f"{known}  # issue 7\n")
    result = invoke(*more, "--baseline", str(baseline), "--disk", "strict-posix", *save)

    assert result.exit_code == 1, result.output
    assert f"known: {known}: issue 7" in result.stdout
    assert [line for line in result.stdout.splitlines() if line.startswith("broken")] == [f"broken: {new}"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\nversion # is lost", ":2: expected a signature, two spaces, # and a reason, found 'version # is lost'"),
        ("lost  #  ", ":1: expected a signature, two spaces, # and a reason, found 'lost  #'"),
        ("a  # why\na  # why not", ":2: expected each signature once, found 'a' again"),
    ],
)
def test_a_baseline_line_without_a_reason_is_refused(save: list[str], tmp_path: Path, text: str, found: str) -> None:
    baseline = tmp_path / "b"
    baseline.write_text(text)
    result = invoke("--baseline", str(baseline), *save)

    assert result.exit_code == 2
    assert "".join(found.split()) in "".join(re.sub("[│╭╮╰╯─]", "", result.output).split())


def test_a_written_baseline_is_refused_until_each_finding_has_a_reason(save: list[str], tmp_path: Path) -> None:
    file = tmp_path / "known" / "b"

    found = invoke("--write-baseline", str(file), *save)
    refused = invoke("--baseline", str(file), *save)
    lines = file.read_text().replace("TODO", "issue 12")
    file.write_text(lines)
    accepted = invoke("--baseline", str(file), "--write-baseline", str(file), "--reason", "new", *save)

    assert found.exit_code == 1
    assert f"wrote {file}: 2 findings" in found.stderr.replace("\n", "")
    assert refused.exit_code == 2
    assert "expected a reason in place of TODO" in " ".join(re.sub("[│╭╮╰╯─]", "", refused.output).split())
    assert accepted.exit_code == 0, accepted.output
    assert file.read_text() == lines


def test_the_reason_of_new_findings_is_written_into_the_baseline(save: list[str], tmp_path: Path) -> None:
    file = tmp_path / "b"

    invoke("--write-baseline", str(file), "--reason", "issue 12", *save)

    assert f"{GONE}  # issue 12" in file.read_text().splitlines()
    assert invoke("--baseline", str(file), *save).exit_code == 0


@pytest.mark.parametrize("reason", ["", "TODO", "one\ntwo", "one  # two"])
def test_a_reason_that_a_baseline_cannot_have_is_refused(save: list[str], tmp_path: Path, reason: str) -> None:
    result = invoke("--write-baseline", str(tmp_path / "b"), "--reason", reason, *save)

    assert result.exit_code == 2
    assert "--reason" in result.output
    assert not (tmp_path / "b").exists()
