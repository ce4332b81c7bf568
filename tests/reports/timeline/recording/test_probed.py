from collections.abc import Callable

from tornlog.faults.probe.checks.check import CheckOutcome
from tornlog.faults.probe.failure import ProbeFinding
from tornlog.faults.probe.record import ProgramRecord, Step
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.replay import Replayer
from tornlog.faults.probe.report import CrashCase
from tornlog.faults.probe.shrink import CrashCaseReplay
from tornlog.reports.timeline.recording.probed import record_probe
from tornlog.reports.timeline.recording.record import RunRecording

LOST = CheckOutcome("broken", ("it is lost", "so is this"))
Recorded = Callable[..., RunRecording]


def killed(*steps: Step, verdict: CheckOutcome = LOST, **more: object) -> RunRecording:
    """Return the recording of steps with a process kill after the last step."""
    record = ProgramRecord(("program",), steps, ((),))
    *_, last = Replayer(record, EMPTY).points()
    replayer = Replayer(record, EMPTY)
    replayer.replay_to(last)
    case = CrashCase(last, "process-kill", (), replayer.intact_image().digest(), verdict, 0)
    shown = CrashCaseReplay(record, EMPTY, case).shown(case)
    return record_probe(ProbeFinding("", record, EMPTY, shown, **more), "check.sh")  # type: ignore[arg-type]


def test_probe_steps_are_drawn_in_the_lanes_of_their_threads_and_files(probed: RunRecording) -> None:
    assert [task.name for task in probed.tasks] == ["program/save", "program/io", "check/check.py"]
    assert [(one.kind, one.path, one.task, one.parts) for one in probed.operations] == [
        ("create", "new", 0, ["create"]),
        ("write", "new", 1, []),
        ("rename", "new", 0, ["rename to value"]),
    ]
    assert (probed.operations[1].start, probed.operations[1].stop) == (0, 6000)
    assert probed.operations[1].place == "save.py:3, write"


def test_probe_steps_after_the_crash_are_not_drawn(probed: RunRecording) -> None:
    assert [moment.step for moment in probed.moments] == [0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 4, 4]
    assert not any(one.path == "later" for one in probed.operations)


def test_a_probe_step_that_was_lost_in_the_crash_is_drawn_with_its_loss(probed: RunRecording) -> None:
    assert [one.taken for one in probed.operations] == ["", "", "rename of new to value undone"]
    (cut,) = probed.cuts
    assert (cut.how, cut.lost, cut.following) == ("ext4-ordered", ("rename of new to value undone",), "check")


def test_file_maps_show_the_states_before_and_after_the_crash(probed: RunRecording) -> None:
    maps = {one.path: one for one in probed.cuts[0].files}
    assert maps["value"].before == "w" * 12
    assert maps["value"].bytes_after == -1
    assert (maps["new"].bytes_before, maps["new"].bytes_after) == (-1, 6000)
    assert maps["new"].after == "b" * 12, "it is back under its old name, and nothing has changed it since"


def test_probe_promises_and_the_verdict_have_their_moments(probed: RunRecording) -> None:
    (promise,) = probed.promises
    (broken,) = probed.broken
    assert (promise.text, promise.begin, promise.task) == ("one", 7, 0)
    assert str(broken.violation) == "check: 'one' is lost"
    assert probed.cuts[0].at < broken.at == len(probed.moments) - 1


def test_each_output_line_of_the_check_is_a_violation() -> None:
    run = killed(Step("create", "/files/a", file=0))
    assert [one.violation.summary for one in run.broken] == ["it is lost", "so is this"]
    assert run.machines[0].ending == "killed"


def test_a_check_that_raises_has_one_verdict() -> None:
    run = killed(Step("create", "/files/a", file=0), verdict=CheckOutcome("raised", ("KeyError: 1", "check.py:3")))
    assert [one.violation.summary for one in run.broken] == ["KeyError: 1; check.py:3"]


def test_a_state_that_the_check_now_accepts_has_no_violation() -> None:
    assert killed(Step("create", "/files/a", file=0), verdict=CheckOutcome("held")).broken == []


def test_a_long_file_shows_only_the_pages_that_were_not_durable() -> None:
    far = 1 << 30
    run = killed(
        Step("create", "/files/a", file=0),
        Step("truncate", file=0, at=far),
        Step("store", file=0, at=far - 1, data=b"x"),
        Step("store", file=0, at=0, data=b"x"),
    )
    (file,) = run.cuts[0].files
    assert file.pages == (0, far // 4096 - 1)
    assert file.before == "w" + "e" * 7 + "e" * 7 + "w"
    assert file.after == "k" + "e" * 7 + "e" * 7 + "k"


def test_injected_faults_are_marked() -> None:
    run = killed(
        Step("create", "/files/a", file=0),
        Step("fault", "disk full", "write", file=0),
        Step("write", file=0, data=b"x"),
        Step("failed sync", file=0),
    )
    assert [(one.kind, one.about) for one in run.faults] == [("fault", "disk full write"), ("failed sync", "a")]
    assert [one.kind for one in run.operations] == ["create", "write", "sync"]
    assert [one.ending[:3] for one in run.operations] == ["", "", "EIO"]


def test_a_crash_in_recovery_shows_the_crash_before_it() -> None:
    run = killed(Step("create", "/files/a", file=0), recovery=("crash after step 3", "lost: all"))
    assert run.machines[0].name == "recovery"
    assert run.subject.claim.startswith("The program: crash after step 3; lost: all. Then the check")


def test_a_crash_inside_a_write_shows_the_written_part() -> None:
    steps = (Step("create", "/files/a", file=0), Step("write", file=0, data=b"x" * 8192))
    record = ProgramRecord(("program",), steps, ((),))
    point = next(one for one in Replayer(record, EMPTY).points() if one.is_inside)
    replayer = Replayer(record, EMPTY)
    replayer.replay_to(point)
    case = CrashCase(point, "process-kill", (), replayer.intact_image().digest(), LOST, 0)
    shown = CrashCaseReplay(record, EMPTY, case).shown(case)
    run = record_probe(ProbeFinding("", record, EMPTY, shown), "check")
    assert run.subject.claim == "crash inside step 2: write a [0, 8192), on process-kill"
    assert run.cuts[0].files[0].bytes_before == 4096
