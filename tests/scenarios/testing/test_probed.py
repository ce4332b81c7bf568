"""The fixture `probe`: verdicts, messages and written files, in sessions with the wheel installed."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

pytestmark = pytest.mark.ci

Done = CompletedProcess[str]

HEAD = r'''
import sys
import pytest

WRITER = """
import os, sys
log = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
directory = os.open(".", os.O_RDONLY)
os.fsync(directory)
for number in range(2):
    os.write(log, b"order %d\\n" % number)
    if "sync" in sys.argv:
        os.fsync(log)
    print("order", number)
"""

def check(directory, acknowledged):
    log = directory / "log"
    found = log.read_text(errors="replace").splitlines() if log.exists() else []
    yield from (f"{line} is lost" for line in acknowledged if line not in found)
'''
LOST = f"""{HEAD}
def test_lost(probe, monkeypatch, tmp_path):
    word = "order"
    monkeypatch.chdir(tmp_path)

    def judge(directory, acknowledged):
        for line in check(directory, acknowledged):
            assert word not in line, line

    probe([sys.executable, "-c", WRITER], check=judge)
"""
IN_FILE = f"""{HEAD}
def test_lost(probe):
    probe([sys.executable, "-c", WRITER], check="test_it.py", disk=["ext4-ordered"])
"""
MARKED = f"""{HEAD}
@pytest.mark.tornlog_probe(disk="process-kill", limit=64)
class TestWriter:
    def test_a_kill_keeps_the_page_cache(self, probe):
        probe([sys.executable, "-c", WRITER], check=check)

    @pytest.mark.tornlog_probe(disk=["process-kill", "ext4-ordered"])
    def test_the_nearest_mark_counts(self, probe):
        probe([sys.executable, "-c", WRITER], check=check)

    def test_a_keyword_overrides_a_mark(self, probe):
        probe([sys.executable, "-c", WRITER], check=check, disk="ext4-ordered")

    def test_synced(self, probe):
        probe([sys.executable, "-c", WRITER, "sync"], check=check, disk="strict-posix")
        probe([sys.executable, "-c", WRITER, "sync"], check=check)
"""
WRONG = f"""{HEAD}
def test_fifo(probe):
    probe(["sh", "-c", "mkfifo queue; echo done"], check=check)

def test_limit(probe):
    probe(["true"], check=check, limit=0)

def test_option(probe):
    probe(["true"], check=check, disks="ext4-ordered")

def test_recovery(probe):
    probe(["true"], check=check, recovery_crashes=1)

def test_no_check(probe):
    probe(["true"])

def test_text(probe):
    probe("true", check=check)

def test_time(probe):
    probe([sys.executable, "-c", WRITER], check=lambda directory, promised: __import__("time").sleep(1), time="1s")
"""


@pytest.mark.parametrize("options", ["", "-n 1"])
def test_a_lost_promise_fails_the_test_with_its_story(
    options: str, tests_of: Callable[..., Done], tmp_path: Path
) -> None:
    done = tests_of(LOST, f"--tornlog-out out {options}")

    assert done.returncode == 1, done.stdout
    for line in (
        "broken: AssertionError: order # is lost",
        "  on ext4-ordered; also on strict-posix, torn-sectors",
        "  crash after step 4: acknowledge 'order 0'",
        "    size of log lost: it had grown to 8 bytes",
        "      by 3 write log [0, 8)  write",
        "  the check is a function of a test, so only a check in a file replays it:",
        "  reproduce: pytest test_it.py::test_lost",
    ):
        assert f"{line}\n" in done.stdout
    assert list((tmp_path / "project" / "out" / "probes").glob("*/failures/*/failure.json"))
    assert re.search(r"^1 probed, \d+ crash points, \d+ states, 1 broken$", done.stdout, re.MULTILINE)


def test_the_named_failure_file_and_timeline_show_the_failure_again(
    tests_of: Callable[..., Done], shell: Callable[..., Done], tmp_path: Path
) -> None:
    done = tests_of(IN_FILE, "--tornlog-out out")
    (again,) = re.findall(r"reproduce: (tornlog probe --replay .*)", done.stdout)
    (page,) = re.findall(r"timeline: (.*)", done.stdout)

    replayed = shell(f"{again} || test $? = 1", tmp_path / "project")
    (probed,) = json.loads((tmp_path / "project" / "out" / "report.json").read_text())["probes"]
    (breach,) = probed["breaches"]

    assert "broken: order # is lost" in replayed.stdout
    assert "<html" in (tmp_path / "project" / page).read_text()
    assert (breach["signature"], breach["again"]) == ("order # is lost", again)
    assert breach["failure"] == shlex.split(again)[-1]
    assert probed["crash_points"] > 0


def test_marks_and_keywords_select_the_disks(tests_of: Callable[..., Done]) -> None:
    done = tests_of(MARKED)

    assert set(re.findall(r"^FAILED test_it.py::TestWriter::(\w+)", done.stdout, re.MULTILINE)) == {
        "test_the_nearest_mark_counts",
        "test_a_keyword_overrides_a_mark",
    }
    assert "2 failed, 2 passed" in done.stdout
    assert "5 probed, " in done.stdout


def test_a_probe_without_a_verdict_is_an_error_with_its_reason(tests_of: Callable[..., Done]) -> None:
    done = tests_of(WRONG)

    assert "7 failed" in done.stdout, done.stdout
    for line in (
        "the directory differs from the record: files/queue: expected a file or a directory, found a FIFO",
        "0 is not in the range x>=1.",
        "refusals, allow, baseline, write_baseline, reason, found disks",
        "recovery_crashes: expected a check in a file, because",
        "expected a check, which defines the promises",
        "program: expected a list such as [sys.executable, 'writer.py'], found 'true'",
        "the probe was ended by time=1s",
    ):
        assert line in done.stdout
    assert "_click" not in done.stdout  # the traceback ends in the test


def test_a_run_without_promises_is_a_warning(tests_of: Callable[..., Done]) -> None:
    text = "def test_it(probe):\n    probe(['touch', 'file'], check=lambda directory, promised: None)\n"

    assert "ProbeProvesLittle: no promise was recorded" in tests_of(text).stdout
    assert tests_of(text, "-W error").returncode == 1


def test_without_the_plugin_there_is_no_fixture(tests_of: Callable[..., Done]) -> None:
    assert "fixture 'probe' not found" in tests_of(LOST, "-p no:tornlog").stdout
    assert "tornlog-timelines, which probes programs, is not loaded" in tests_of(LOST, "-p no:tornlog-timelines").stdout


def test_collecting_a_test_with_the_fixture_imports_no_simulator(tests_of: Callable[..., Done]) -> None:
    text = f"{LOST}\nassert not [name for name in sys.modules if name.startswith(('tornlog.faults', 'tornlog.sim'))]\n"

    assert "1 test collected" in tests_of(text, "--collect-only").stdout
