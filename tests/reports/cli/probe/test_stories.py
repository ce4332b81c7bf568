"""The findings of `tornlog probe` as rows and stories."""

import json
from pathlib import Path

import pytest

from tests.command_line import usage_error
from tests.reports.cli.probe.programs import APPEND, CHECK, READ, SAVE, WriteFile, invoke

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
    assert "and 6 kinds of violation more" in result.stdout
    assert "and 16 kinds of violation more, which --json lists" in result.stdout
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
    assert "the program has ended with 3; the end of its standard output: it is locked | raw" in usage_error(
        "--record", record, "--check", str(check), "--", str(script), run=invoke
    )


def test_a_finding_is_annotated_at_the_line_whose_change_was_lost(
    save: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    result = invoke("--disk", "ext4-ordered", "--stacks", "--summary", str(tmp_path / "summary.md"), *save)

    errors = [line for line in result.stderr.splitlines() if line.startswith("::error ")]
    rename = SAVE.splitlines().index('        os.replace("new", "value")') + 1
    assert len(errors) == 2, result.stderr
    assert all(line.startswith(f"::error file=save.py,line={rename},title=tornlog probe%3A value ") for line in errors)
    assert "::value 'one' is lost: found None%0Areproduce: " in errors[0]
