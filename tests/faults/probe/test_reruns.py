"""Reruns with faults at calls and with other thread orders: new breaches are found once."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from textwrap import dedent

import pytest

from tornlog.faults.kinds import FaultKind
from tornlog.faults.probe.checks.check import PythonCheck
from tornlog.faults.probe.checks.checkers import Checkers
from tornlog.faults.probe.probe import Prober, Verdicts
from tornlog.faults.probe.programs import CALLS, STORES, RecorderChoice
from tornlog.faults.probe.recording.run import EMPTY, ProgramError
from tornlog.faults.probe.reruns import ORDER, Reruns, rerun_text
from tornlog.faults.probe.tracing.control import ERRORS, MatchedCall, RunControl
from tornlog.faults.probe.tracing.process import TracedRun
from tornlog.faults.probe.visits import FaultCoverage

CheckFile = Callable[[str], Path]
APPEND = """
    import os
    log = os.open("log", os.O_CREAT | os.O_WRONLY)
    os.fsync(log)
    os.fsync(os.open(".", os.O_RDONLY))
    for number in range(2):
        os.write(log, b"%d\\n" % number)
        try:
            os.fsync(log)
        except OSError:
            UNSYNCED
        print(number)
    """
ALL_LINES = """
    def check(directory, acknowledged):
        log = directory / "log"
        lines = log.read_text().split() if log.exists() else []
        for promise in acknowledged:
            if promise not in lines:
                yield f"{promise} is lost"
    """
TWENTY_FILES = """
    import os
    for number in range(20):
        file = os.open(str(number), os.O_CREAT | os.O_WRONLY)
        for _ in range(3):
            os.write(file, b"some")
    """
SYNC = [FaultKind.FAILED_SYNC]
TWO_THREADS = """
    import os, threading
    def keep():
        value = os.open("value", os.O_CREAT | os.O_WRONLY)
        os.write(value, b"kept")
    def promise():
        os.close(os.open("other", os.O_CREAT | os.O_WRONLY))
        WAIT
        print("kept", flush=True)
    threads = [threading.Thread(target=keep), threading.Thread(target=promise)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    """
FIRST_SEED = 0
"""With this seed the value is saved before the other thread promises it."""
VALUE = """
    def check(directory, acknowledged):
        value = directory / "value"
        if acknowledged and (not value.exists() or value.read_text() != "kept"):
            yield "the value is lost"
    """


@pytest.fixture
def rerun(tmp_path: Path, check_file: CheckFile) -> Callable[..., Reruns]:
    """Return a function that runs a script again with faults and seeds.

    The first run of several threads has a seed as well, because a busy machine gives threads any order.
    """

    def rerun(
        lines: str, check: str, kinds: Sequence[FaultKind] = (), seeds: int = 0, runs_max: int = 16, disk: str = "xfs"
    ) -> Reruns:
        script = tmp_path / "program.py"
        script.write_text(dedent(lines))
        recorder, verdicts = RecorderChoice(CALLS, STORES[0], 60.0), Verdicts()
        if "threading" in lines:
            record = recorder.rerun([str(script)], EMPTY, RunControl(seed=FIRST_SEED)).record
        else:
            record, unlike = recorder.record([str(script)], EMPTY)
            assert unlike == []
        with Checkers(PythonCheck(check_file(check)), 0, 10.0) as checkers:
            found = Prober(record, EMPTY, checkers, disks=[disk], limit=64, verdicts=verdicts).probe()
            again = partial(recorder.rerun, [str(script)], EMPTY)
            reruns = Reruns(checkers, again, EMPTY, record, found, verdicts, 64)
            reruns.run(kinds, runs_max, seeds)
        return reruns

    return rerun


@pytest.mark.ci
@pytest.mark.parametrize("unsynced", ["pass", "os.fsync(log)"])
def test_ignoring_or_retrying_a_failed_fsync_is_found(rerun: Callable[..., Reruns], unsynced: str) -> None:
    reruns = rerun(APPEND.replace("UNSYNCED", unsynced), ALL_LINES, SYNC)

    assert reruns.found.breaches == {}
    ((kind, signature),) = reruns.breaches
    assert (kind, signature) == (FaultKind.FAILED_SYNC, "# is lost")
    breach = reruns.breaches[kind, signature]
    assert breach.record.injected[0] <= breach.group.smallest.point.step
    assert "failed sync at call 2 of those to which it applies, step 5 failed sync log  fsync" in rerun_text(
        breach.control, breach.record
    )
    assert reruns.injected == {FaultKind.FAILED_SYNC: 3}


@pytest.mark.ci
@pytest.mark.parametrize("unsynced", ["raise", "raise SystemExit(0)"])
def test_a_program_that_stops_promising_after_a_failed_fsync_passes(
    rerun: Callable[..., Reruns], unsynced: str
) -> None:
    reruns = rerun(APPEND.replace("UNSYNCED", unsynced), ALL_LINES, SYNC)

    assert reruns.breaches == {}
    assert reruns.injected == {FaultKind.FAILED_SYNC: 3}
    assert reruns.failed == (3 if unsynced == "raise" else 1)
    assert reruns.judged > 0


@pytest.mark.ci
def test_every_program_loses_data_to_a_lying_sync(rerun: Callable[..., Reruns]) -> None:
    reruns = rerun(APPEND.replace("UNSYNCED", "raise"), ALL_LINES, [FaultKind.LYING_SYNC])

    assert list(reruns.breaches) == [(FaultKind.LYING_SYNC, "# is lost")]
    assert reruns.breaches[FaultKind.LYING_SYNC, "# is lost"].group.smallest.losses > 0
    assert FaultKind.LYING_SYNC not in ERRORS


@pytest.mark.ci
def test_an_ignored_short_write_is_found(rerun: Callable[..., Reruns]) -> None:
    reruns = rerun(
        APPEND.replace("UNSYNCED", "raise"), ALL_LINES, [FaultKind.SHORT_WRITE, FaultKind.FAILED_WRITE], disk="xfs"
    )

    assert [kind for kind, _ in reruns.breaches] == [FaultKind.SHORT_WRITE]
    assert reruns.injected == {FaultKind.SHORT_WRITE: 2, FaultKind.FAILED_WRITE: 2}


def test_faults_that_no_call_can_have_or_above_the_limit_are_reported(rerun: Callable[..., Reruns]) -> None:
    kinds = [FaultKind.FAILED_EXTEND, FaultKind.FAILED_WRITE]
    reruns = rerun(APPEND.replace("UNSYNCED", "raise"), ALL_LINES, kinds, runs_max=1)

    assert reruns.never_injected == [FaultKind.FAILED_EXTEND]
    assert reruns.cut == [FaultKind.FAILED_WRITE]
    assert reruns.runs == 1


@pytest.mark.ci
def test_few_runs_reach_many_files_and_name_those_that_they_do_not(rerun: Callable[..., Reruns]) -> None:
    reruns = rerun(TWENTY_FILES, "def check(directory, acknowledged):\n    pass", [FaultKind.DISK_FULL], runs_max=16)

    found = reruns.coverage[FaultKind.DISK_FULL]
    assert (len(found.calls), len(found.reached), reruns.injected) == (60, 16, {FaultKind.DISK_FULL: 16})
    assert [call.path for call in found.reached] == [f"/files/{number}" for number in range(16)]
    assert found.missed_files == ["16", "17", "18", "19"]
    assert reruns.cut == [FaultKind.DISK_FULL]


def test_runs_are_spread_over_files_then_places_then_the_whole_run() -> None:
    def calls(path: str, name: str, times: int) -> list[MatchedCall]:
        return [MatchedCall(FaultKind.FAILED_WRITE, path, name, 0)] * times

    order = FaultCoverage(
        [*calls("/files/a", "write", 8), *calls("/files/a", "pwrite64", 1), *calls("/tmp/b", "write", 2)]
    ).order

    assert order == [0, 9, 8, 10, 4, 2, 6, 1, 3, 5, 7]


@pytest.mark.ci
def test_a_breach_that_also_occurs_without_the_fault_is_not_reported_again(rerun: Callable[..., Reruns]) -> None:
    too_early = APPEND.replace("try:", "print(number)\n        try:").replace("UNSYNCED", "pass")
    reruns = rerun(too_early, ALL_LINES, SYNC)

    assert list(reruns.found.breaches) == ["# is lost"]
    assert reruns.breaches == {}


@pytest.mark.slow
def test_a_promise_that_depends_on_thread_order_breaks_under_some_seed(rerun: Callable[..., Reruns]) -> None:
    reruns = rerun(TWO_THREADS.replace("WAIT", "pass"), VALUE, seeds=24, disk="process-kill")

    assert reruns.found.breaches == {}
    assert list(reruns.breaches) == [(ORDER, "the value is lost")]
    assert reruns.orders > 3
    breach = reruns.breaches[ORDER, "the value is lost"]
    assert rerun_text(breach.control, breach.record) == f"threads in another order, by {breach.control}"
    again = reruns.rerun(breach.control)
    assert [step.kind for step in again.record.steps] == [step.kind for step in breach.record.steps]


@pytest.mark.ci
def test_a_promise_that_waits_for_the_other_thread_is_kept_in_every_order(rerun: Callable[..., Reruns]) -> None:
    reruns = rerun(TWO_THREADS.replace("WAIT", "threads[0].join()"), VALUE, seeds=12, disk="process-kill")

    assert reruns.breaches == {}
    assert reruns.found.breaches == {}
    assert (reruns.seeds, reruns.failed) == (12, 0)
    assert reruns.orders > 1


def test_runs_that_cannot_be_recorded_are_counted_by_reason(
    rerun: Callable[..., Reruns], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> TracedRun:
        raise ProgramError("the program has not ended within 60 s")

    monkeypatch.setattr(RecorderChoice, "rerun", refuse)
    reruns = rerun(APPEND.replace("UNSYNCED", "raise"), ALL_LINES, SYNC, seeds=2, runs_max=3)

    assert reruns.refused == {"the program has not ended within 60 s": 3}
    assert [str(control) for control in next(iter(reruns.discarded.values()))] == ["list of calls", "seed 0", "seed 1"]
    assert reruns.runs == 0
    assert reruns.untried == [FaultKind.FAILED_SYNC]
    assert reruns.never_injected == []
