"""Checks of states: verdicts are returned, and a failing check affects only its state."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.probe.checks.check import (
    BROKEN,
    DIED,
    HELD,
    RAISED,
    TIMED_OUT,
    CheckError,
    CheckOutcome,
    PythonCheck,
    load_check,
)
from tornlog.faults.probe.checks.checkers import Checkers
from tornlog.faults.probe.record import Answers
from tornlog.sim.interruption import EndedEarlyError, interruptible

CheckFile = Callable[[str], Path]
JOBS = [0, 1, 3]


def image_with_value(content: bytes) -> Image:
    return Image({"/files/value": FileImage(content, 0)}, ("/files", "/tmp"))


def verdicts(check: Path, jobs: int, *contents: bytes, seconds: float = 20.0) -> list[CheckOutcome]:
    with Checkers(PythonCheck(check), jobs, seconds) as checkers:
        found = checkers.verdicts([(image_with_value(content), Answers([content.decode()])) for content in contents])
        assert checkers.judged == len(contents)
        return found


@pytest.mark.parametrize("jobs", JOBS)
def test_each_state_gets_its_own_verdict_in_order(check_file: CheckFile, jobs: int) -> None:
    check = check_file(
        """
        def check(directory, acknowledged):
            found = (directory / "value").read_text()
            assert acknowledged == [found]
            return [f"{found} {number}" for number in range(int(found))]
        """
    )
    found = verdicts(check, jobs, b"0", b"1", b"2", b"0", b"1")

    assert [verdict.outcome for verdict in found] == [HELD, BROKEN, BROKEN, HELD, BROKEN]
    assert found[2].lines == ("2 0", "2 1")


@pytest.mark.parametrize("jobs", JOBS)
def test_each_check_runs_in_a_fresh_working_directory(check_file: CheckFile, jobs: int) -> None:
    check = check_file(
        """
        import os, tempfile
        from pathlib import Path

        def check(directory, acknowledged):
            if Path.cwd() != directory or os.listdir() != ["value"]:
                yield f"not there: {os.listdir()}"
            Path("rubbish").touch()
            if Path(tempfile.mkstemp()[1]).parent != directory.parent / "tmp":
                yield "temporary files go elsewhere"
            print("printed")
        """
    )
    here = Path.cwd()

    assert verdicts(check, jobs, b"a", b"b", b"c") == [CheckOutcome(HELD)] * 3
    assert Path.cwd() == here


@pytest.mark.ci
@pytest.mark.parametrize("jobs", JOBS)
@pytest.mark.parametrize(
    ("body", "outcome", "line"),
    [
        ("raise KeyError('x')", RAISED, "KeyError: 'x'"),
        ("raise SystemExit('no')", RAISED, "SystemExit: no"),
        ("while True: pass", TIMED_OUT, "no verdict within 2 s"),
        ("yield from (str(number) for number in range(10**9))", BROKEN, "0"),
        ("return 'a text'", BROKEN, "a text"),
        ("open('none')", RAISED, "FileNotFoundError: [Errno 2] No such file or directory: 'none'"),
    ],
)
def test_a_failing_check_affects_only_its_state(
    check_file: CheckFile, jobs: int, body: str, outcome: str, line: str
) -> None:
    check = check_file(
        f"""
        def check(directory, acknowledged):
            return odd(directory) if acknowledged == ["odd"] else None

        def odd(directory):
            {body}
        """
    )
    before, odd, after = verdicts(check, jobs, b"a", b"odd", b"b", seconds=2.0)

    assert (before, after) == (CheckOutcome(HELD), CheckOutcome(HELD))
    assert odd.outcome == outcome
    assert odd.lines[0].startswith(line)
    assert len(odd.lines) <= 20


def test_the_message_of_an_exception_in_a_check_has_its_line(check_file: CheckFile) -> None:
    check = check_file("def check(directory, acknowledged):\n    raise OSError(str(directory / 'value'))\n")
    (verdict,) = verdicts(check, 1, b"a")

    assert verdict.lines == ("OSError: /files/value", f"at {check}:2 in check")


@pytest.mark.parametrize(("body", "line"), [("os._exit(7)", "exit code 7"), ("os.kill(os.getpid(), 9)", "SIGKILL")])
def test_a_check_that_exits_its_process_is_a_breach(check_file: CheckFile, body: str, line: str) -> None:
    check = check_file(
        f"""
        import os
        def check(directory, acknowledged):
            if acknowledged == ["odd"]:
                {body}
        """
    )
    before, odd, after = verdicts(check, 1, b"a", b"odd", b"b")

    assert (before, after) == (CheckOutcome(HELD), CheckOutcome(HELD))
    assert odd == CheckOutcome(DIED, (f"the check's process has ended: {line}",))


def test_a_check_can_import_modules_beside_it(check_file: CheckFile, tmp_path: Path) -> None:
    (tmp_path / "beside_the_check.py").write_text("def look(directory): return ['seen']\n")
    check = check_file(
        """
        from beside_the_check import look
        def check(directory, acknowledged): return look(directory)
        """
    )

    assert verdicts(check, 1, b"a") == [CheckOutcome(BROKEN, ("seen",))]


@pytest.mark.parametrize(
    ("lines", "message"),
    [("x = 1", "expected a function check"), ("import (", "SyntaxError"), ("check = 7", "expected a function")],
)
def test_a_file_without_a_check_function_is_refused(check_file: CheckFile, lines: str, message: str) -> None:
    with pytest.raises(CheckError, match=message):
        PythonCheck(check_file(lines))


def test_a_missing_check_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckError, match="expected a Python file, found nothing"):
        PythonCheck(tmp_path / "none.py")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has reapers")
@pytest.mark.parametrize("end", ["return []", "os.kill(os.getpid(), signal.SIGKILL)", "time.sleep(60)"])
def test_processes_forked_by_a_check_end_with_the_check(check_file: CheckFile, tmp_path: Path, end: str) -> None:
    pid = tmp_path / "pid"
    path = check_file(
        f"""
        import os, signal, time
        def check(directory, acknowledged):
            if os.fork() == 0:
                os.setsid()
                with open({str(pid)!r}, "w") as file:
                    file.write(str(os.getpid()))
                time.sleep(60)
            while not os.path.exists({str(pid)!r}) or not open({str(pid)!r}).read():
                time.sleep(0.01)
            {end}
        """
    )
    with Checkers(PythonCheck(path), 1, 1.0) as checkers:
        checkers.verdicts([(image_with_value(b"a"), Answers([]))])

    assert not Path(f"/proc/{pid.read_text()}/exe").exists()


@pytest.mark.parametrize("waits", ["time.sleep(600)", "subprocess.run(['sleep', '600'])"])
def test_a_check_in_this_process_that_sleeps_ends_at_its_time_limit(check_file: CheckFile, waits: str) -> None:
    path = check_file(
        f"""
        import subprocess, time
        def check(directory, acknowledged):
            if acknowledged == ["hang"]:
                {waits}
        """
    )
    with interruptible(3600.0) as interruption:
        with Checkers(PythonCheck(path), 0, 0.5) as checkers:
            found = checkers.verdicts([(image_with_value(b"a"), Answers([one])) for one in ("a", "hang", "b")])
        seconds_left, _ = signal.setitimer(signal.ITIMER_REAL, 0)

    assert [verdict.outcome for verdict in found] == [HELD, TIMED_OUT, HELD]
    assert found[1].lines == ("no verdict within 0.5 s",)
    assert 3500 < seconds_left < 3600
    assert not interruption.is_requested


def test_the_time_limit_of_a_probe_ends_a_check_in_this_process_that_sleeps(check_file: CheckFile) -> None:
    path = check_file("import time\ndef check(directory, acknowledged):\n    time.sleep(600)")
    with (
        interruptible(0.2, "--time 0.2s") as interruption,
        Checkers(PythonCheck(path), 0, 500.0) as checkers,
        pytest.raises(EndedEarlyError),
    ):
        checkers.verdicts([(image_with_value(b"a"), Answers([]))])

    assert interruption.reason == "--time 0.2s"


@pytest.mark.parametrize("body", ["return ''", "yield ''"])
def test_an_empty_message_is_still_a_breach(check_file: CheckFile, body: str) -> None:
    path = check_file(f"def check(directory, acknowledged):\n    {body}")
    with Checkers(PythonCheck(path), 0, 20.0) as checkers:
        (found,) = checkers.verdicts([(image_with_value(b"a"), Answers([]))])

    assert found == CheckOutcome(BROKEN, ("the check gave an empty message",))


@pytest.mark.parametrize(("end", "outcome", "tries"), [("os._exit(3)", DIED, 1), ("time.sleep(600)", TIMED_OUT, 2)])
def test_a_check_that_dies_or_hangs_in_a_batch_repeats_no_other_check(
    check_file: CheckFile, tmp_path: Path, end: str, outcome: str, tries: int
) -> None:
    check = check_file(
        f"""
        import os, time

        def check(directory, acknowledged):
            with open({str(tmp_path / "judged")!r}, "a") as judged:
                print(*acknowledged, file=judged)
            if acknowledged == ["20"]:
                {end}
        """
    )
    found = verdicts(check, 1, *(b"%d" % number for number in range(40)), seconds=1.0)

    assert [verdict.outcome for verdict in found] == [HELD] * 20 + [outcome] + [HELD] * 19
    judged = (tmp_path / "judged").read_text().split()
    assert sorted(judged, key=int) == [str(number) for number in range(40) for _ in range(tries if number == 20 else 1)]


@pytest.mark.ci
def test_after_a_confirmed_time_out_later_time_outs_are_assumed_under_a_reduced_limit(check_file: CheckFile) -> None:
    check = check_file(
        """
        import time

        def check(directory, acknowledged):
            if acknowledged == ["hang"]:
                time.sleep(600)
        """
    )
    with Checkers(PythonCheck(check), 1, 2.5) as checkers:
        found = checkers.verdicts(
            [(image_with_value(one), Answers([one.decode()])) for one in (b"a", b"hang", b"hang", b"b")]
        )
        numbers = checkers.repeated, checkers.reduced, checkers.assumed

    assert [verdict.outcome for verdict in found] == [HELD, TIMED_OUT, TIMED_OUT, HELD]
    assert [verdict.is_assumed for verdict in found] == [False, False, True, False]
    assert numbers == (1, 2, 1)


def test_a_check_that_changed_but_kept_its_size_and_time_is_read_again(
    check_file: CheckFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    text = "def check(directory, acknowledged):\n    return ['{}']\n"
    path = check_file(text.format("one"))
    first, saved = load_check(path), path.stat()
    path.write_text(path.read_text().replace("one", "two"))
    os.utime(path, ns=(saved.st_atime_ns, saved.st_mtime_ns))

    assert [*first(path.parent, [])] == ["one"]
    assert [*load_check(path)(path.parent, [])] == ["two"]
