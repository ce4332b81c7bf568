"""Crashes in recovery: a check's recovery is recorded and crashed."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tornlog.faults.probe.checks.check import Check, PythonCheck
from tornlog.faults.probe.checks.checkers import Checkers
from tornlog.faults.probe.checks.command import CheckServer, CommandCheck
from tornlog.faults.probe.probe import Prober
from tornlog.faults.probe.programs import STORES, RecorderChoice
from tornlog.faults.probe.record import Answers, ProgramRecord, Step
from tornlog.faults.probe.recording.run import EMPTY, ProgramError
from tornlog.faults.probe.recovery import Recoveries
from tornlog.faults.probe.report import ProbeReport
from tornlog.faults.probe.shrink import shrink

CheckFile = Callable[[str], Path]
RECORD = ProgramRecord(
    ("put.py",),
    (
        Step("create", "/files/journal", file=0),
        Step("write", file=0, data=b"seven"),
        *(Step("sync", file=0), Step("sync directory", "/files"), Step("sync directory", "/")),
        Step("acknowledge", "seven"),
    ),
    ((),),
)
RECOVER = """
    import os

    def check(directory, acknowledged):
        journal, value = directory / "journal", directory / "value"
        if journal.exists() and journal.read_text() == "seven":
            RECOVERY
        if acknowledged and (not value.exists() or value.read_text() != acknowledged[-1]):
            yield "seven is lost"
    """
CARELESS = "text = journal.read_text(); journal.unlink(); value.write_text(text)"
CAREFUL = """
            with open(value, "w") as file:
                file.write("seven"); file.flush(); os.fsync(file.fileno())
            os.fsync(os.open(directory, os.O_RDONLY))
            journal.unlink()"""
RECORDER = RecorderChoice("", STORES[0], 60.0)


SERVER = """
    import json, os, pathlib, sys

    for line in sys.stdin:
        state = json.loads(line)
        journal, value = (pathlib.Path(state["directory"], name) for name in ("journal", "value"))
        if journal.exists() and journal.read_text() == "seven":
            RECOVERY
        is_there = value.exists() and value.read_text() == "seven"
        print(json.dumps({"broken": ["seven is lost"] if state["acknowledged"] and not is_there else []}), flush=True)
    AT_THE_END
    """


def probe_with_recoveries(check: Path, *disks: str) -> tuple[ProbeReport, Recoveries]:
    return probe_with_check(PythonCheck(check), *disks)


def probe_with_check(judge: Check, *disks: str) -> tuple[ProbeReport, Recoveries]:
    with Checkers(judge, 0, 10.0) as checkers:
        recoveries = Recoveries(checkers, partial(RECORDER.record_check, judge), disks, 64)
        found = Prober(RECORD, EMPTY, checkers, disks=disks, limit=64, on_held=recoveries.explore).probe()
    return found, recoveries


def test_a_removal_before_the_write_in_recovery_is_found_by_a_crash_in_recovery(check_file: CheckFile) -> None:
    check = check_file(RECOVER.replace("RECOVERY", CARELESS))
    found, recoveries = probe_with_recoveries(check, "process-kill")

    assert found.breaches == {}
    assert (recoveries.recorded, recoveries.writing) == (4, 2)
    (breach,) = recoveries.breaches.values()
    case, record = breach.group.smallest, breach.recovery.record
    assert [step.kind for step in record.steps[: case.point.step + 1]] == ["acknowledge", "unlink"]
    assert (breach.recovery.first_crash.disk, breach.recovery.first_crash.point.acknowledged) == ("process-kill", 1)
    with Checkers(PythonCheck(check), 0, 10.0) as checkers:
        shown = shrink(record, breach.recovery.start, case, checkers)
    assert shown.losses == ()
    assert "/files/journal" not in shown.image.files


@pytest.mark.parametrize("disk", ["process-kill", "strict-posix"])
def test_a_recovery_that_syncs_before_it_removes_files_passes(check_file: CheckFile, disk: str) -> None:
    found, recoveries = probe_with_recoveries(check_file(RECOVER.replace("RECOVERY", CAREFUL)), disk)

    assert found.breaches == {}
    assert recoveries.breaches == {}
    assert recoveries.points > 0
    assert recoveries.refused == {}


@pytest.mark.ci
@pytest.mark.parametrize("at_the_end", ["", "__import__('time').sleep(60)"])
def test_crashes_in_the_recovery_of_a_check_server_are_tried(check_file: CheckFile, at_the_end: str) -> None:
    """The server does not end when its input closes."""
    path = check_file(SERVER.replace("RECOVERY", CARELESS).replace("AT_THE_END", at_the_end))
    found, recoveries = probe_with_check(CheckServer(f"{sys.executable} {path}"), "process-kill")

    assert found.breaches == {}
    assert (recoveries.recorded, recoveries.writing, recoveries.refused) == (4, 2, {})
    (breach,) = recoveries.breaches.values()
    case, record = breach.group.smallest, breach.recovery.record
    assert [step.kind for step in record.steps[: case.point.step + 1]] == ["acknowledge", "unlink"]


def test_recoveries_without_an_answer_of_the_check_server_are_counted_by_reason(check_file: CheckFile) -> None:
    path = check_file("import sys; sys.stdin.readline()")
    judge = CheckServer(f"{sys.executable} {path}")

    with pytest.raises(ProgramError, match="the program has ended with 1"):
        RECORDER.record_check(judge, EMPTY, Answers([]))


def test_recoveries_that_cannot_be_recorded_are_counted_by_reason(check_file: CheckFile) -> None:
    _, recoveries = probe_with_recoveries(
        check_file(RECOVER.replace("RECOVERY", "os.system('rm journal')")), "process-kill"
    )

    assert recoveries.recorded == 2
    assert sum(recoveries.refused.values()) >= 1
    assert all("os.system" in reason for reason in recoveries.refused)


def test_a_recovery_that_leaves_a_socket_is_recorded(check_file: CheckFile, tmp_path: Path) -> None:
    path = tmp_path / "check.sh"
    bind = "import os, socket; socket.socket(socket.AF_UNIX).bind(os.environ['TMPDIR'] + '/s')"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{bind}"\n')
    path.chmod(0o755)

    record, unlike = RECORDER.record_check(CommandCheck(path), EMPTY, Answers([]))

    assert (record.unseen, unlike) == ((), [])
