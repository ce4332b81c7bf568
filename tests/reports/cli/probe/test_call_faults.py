"""`tornlog probe` with faults at calls and thread orders."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep
from xml.etree import ElementTree

import pytest

from tests.reports.cli.probe.programs import APPEND, READ, WriteFile, invoke

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


def test_faults_that_could_not_be_injected_are_reported(write_file: WriteFile) -> None:
    script, check = write_file("append.py", APPEND), write_file("check.py", READ)
    result = invoke("--disk", "strict-posix", "--check", str(check), "--jobs", "0", "--", str(script))

    assert result.exit_code == 0
    assert "never occurred on these disks: torn page" in result.stdout


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
    assert "crash points: 1 kind of violation" in shown
    assert "faults at calls: failed sync 1" in shown
    assert "never injected, because no call matches: failed extend" in shown
    assert "with failed sync at matching call 1, step 4 failed sync log  fsync" in shown
    assert "not durable unless rewritten: the data of the failed sync in step 4" in shown
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
    assert "requested by the program: failed-sync: injected at 1 call\n" in result.stdout
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
    assert "because no call matches: failed extend\n" in result.stdout
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
