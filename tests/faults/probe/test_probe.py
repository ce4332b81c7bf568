"""Probing of a record: each state is checked once, and the smallest case is shrunk."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.probe.checks.check import PythonCheck
from tornlog.faults.probe.checks.checkers import Checkers
from tornlog.faults.probe.failure import ProbeFailure
from tornlog.faults.probe.probe import Prober
from tornlog.faults.probe.record import Answers, ProgramRecord, Step
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.replay import DISK_STREAM, Replayer
from tornlog.faults.probe.report import CrashCase, ProbeReport
from tornlog.faults.probe.shrink import CrashCaseReplay, CrashCaseView, NotReproducedError, shrink
from tornlog.faults.probe.story import step_description, step_text, story
from tornlog.faults.simulation.artefact import ArtefactError
from tornlog.sim.choices import Choices

CheckFile = Callable[[str], Path]
LOST = "value '…' is lost: found '…'"
GONE = "value '…' is lost: found None"


def probe_report(record: ProgramRecord, check: Path, *disks: str, jobs: int = 0, limit: int = 256) -> ProbeReport:
    with Checkers(PythonCheck(check), jobs, 10.0) as checkers:
        return Prober(record, EMPTY, checkers, disks=disks, limit=limit).probe()


def shrunk_case(record: ProgramRecord, check: Path, signature: str) -> CrashCaseView:
    with Checkers(PythonCheck(check), 0, 10.0) as checkers:
        found = Prober(record, EMPTY, checkers, disks=("strict-posix",), limit=256).probe()
        return shrink(record, EMPTY, found.breaches[signature].smallest, checkers)


@pytest.fixture
def check(check_file: CheckFile, value_check: str) -> Path:
    return check_file(value_check)


def with_syncs(record: ProgramRecord) -> ProgramRecord:
    """Return the record with the two missing syncs."""
    steps: list[Step] = []
    for step in record.steps:
        if step.kind == "rename":
            steps.append(Step("sync", file=sum(one.kind == "create" for one in steps) - 1))
        steps.append(step)
        if step.kind == "rename":
            steps.append(Step("sync directory", "/files"))
    return ProgramRecord(record.program, tuple(steps), record.stacks)


def test_only_unsynced_values_are_lost(unsynced_program_record: ProgramRecord, check: Path) -> None:

    assert set(probe_report(unsynced_program_record, check, "strict-posix").breaches) == {LOST, GONE}
    assert (
        probe_report(
            with_syncs(unsynced_program_record), check, "strict-posix", "ext4-ordered", "xfs", "btrfs"
        ).breaches
        == {}
    )


def test_a_process_kill_keeps_written_data(unsynced_program_record: ProgramRecord, check: Path) -> None:
    found = probe_report(unsynced_program_record, check, "process-kill")

    assert found.breaches == {}
    assert found.points == 9
    assert found.states == found.counts["process-kill"].exhausted == 9


def test_breaches_of_two_runs_are_merged_by_signature(unsynced_program_record: ProgramRecord, check: Path) -> None:
    one, other = (
        probe_report(unsynced_program_record, check, *disks).breaches[LOST]
        for disks in (["strict-posix"], ["xfs", "strict-posix"])
    )
    joined = one.merged_with(other, other.smallest)

    assert (joined.smallest, joined.states) == (other.smallest, one.states + other.states)
    assert joined.disks == {"strict-posix": 2 * one.states, "xfs": other.states - one.states}
    assert joined.points == one.points | other.points


def test_a_limit_that_leaves_out_states_is_reported(unsynced_program_record: ProgramRecord, check: Path) -> None:
    found = probe_report(unsynced_program_record, check, "strict-posix", limit=3)
    count = found.counts["strict-posix"]

    assert count.states <= 3 * count.crashes
    assert count.cut > 0
    assert count.exhausted < count.crashes


def test_an_already_checked_state_is_checked_again_after_a_new_promise(
    unsynced_program_record: ProgramRecord, check_file: CheckFile, tmp_path: Path
) -> None:
    check = check_file(
        f"""
        def check(directory, acknowledged):
            with open({str(tmp_path / "log")!r}, "a") as log:
                files = {{path.name: path.read_bytes() for path in directory.iterdir()}}
                print((sorted(files.items()), acknowledged), file=log)
        """
    )
    found = probe_report(unsynced_program_record, check, "process-kill", "nothing-lost")
    seen = (tmp_path / "log").read_text().splitlines()

    assert len(seen) == found.judged == len(set(seen)) == 9
    assert found.states == 18


def test_probe_results_do_not_depend_on_jobs(unsynced_program_record: ProgramRecord, check: Path) -> None:
    one, other = (probe_report(unsynced_program_record, check, "strict-posix", jobs=jobs, limit=12) for jobs in (0, 2))

    assert one.in_order == other.in_order
    assert (one.counts, one.images, one.judged) == (other.counts, other.images, other.judged)


@pytest.mark.parametrize("signature", [LOST, GONE])
def test_a_shrunk_case_has_one_loss(unsynced_program_record: ProgramRecord, check: Path, signature: str) -> None:
    shown = shrunk_case(unsynced_program_record, check, signature)

    assert shown.case.verdict.signature == signature
    assert len(shown.losses) == shown.case.losses == 1
    assert shown.image.digest() == shown.case.digest
    assert shown.case.point.acknowledged == 1


def test_unneeded_losses_are_shrunk(unsynced_program_record: ProgramRecord, check: Path) -> None:
    with Checkers(PythonCheck(check), 0, 10.0) as checkers:
        found = Prober(unsynced_program_record, EMPTY, checkers, disks=("strict-posix",), limit=256).probe()
        smallest = found.breaches[GONE].smallest
        large = _with_more_losses(unsynced_program_record, smallest, checkers)
        shown = shrink(unsynced_program_record, EMPTY, large, checkers)

    assert large.losses > 1
    assert shown.case.losses == 1


def _with_more_losses(record: ProgramRecord, case: CrashCase, checkers: Checkers) -> CrashCase:
    """Return a case of the same breach at the same moment with as many losses as possible."""
    replayer = Replayer(record, EMPTY)
    replayer.replay_to(case.point)
    states = replayer.disk.crash_states(PROFILES[case.disk], 1_000, Choices("1").stream("x"))
    answers = Answers(record.acknowledged[: case.point.acknowledged])
    found = []
    for state in states:
        (verdict,) = checkers.verdicts([(state.image, answers)])
        if verdict.signature == case.verdict.signature:
            found.append((state.loss_count, state, verdict))
    losses, state, verdict = max(found, key=lambda one: one[0])
    decisions = tuple(states.decisions(state, DISK_STREAM))
    return replace(case, decisions=decisions, digest=state.digest, verdict=verdict, losses=losses)


def test_a_failure_file_reproduces_its_state(unsynced_program_record: ProgramRecord, check: Path) -> None:
    shown = shrunk_case(unsynced_program_record, check, LOST)
    upto = unsynced_program_record.with_first_steps(shown.case.point.step + 1)
    text = ProbeFailure(str(check), shown.case, EMPTY, upto).to_json(shown)
    kept = ProbeFailure.from_json(text)

    assert kept == ProbeFailure(str(check), shown.case, kept.start, upto)
    assert kept.start.digest() == EMPTY.digest()
    again = CrashCaseReplay(kept.record, kept.start, kept.case).shown(kept.case)
    assert again.image.digest() == shown.image.digest()
    assert again.losses == shown.losses
    other = ProbeFailure.from_json(text.replace(shown.case.digest, "0" * 32))
    scene = CrashCaseReplay(other.record, other.start, other.case)
    with pytest.raises(NotReproducedError, match="expected digest 0"):
        scene.shown(other.case)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tornlog-failure/3", "tornlog-run/1", "format: expected tornlog-failure/3"),
        ('"disk": "strict-posix"', '"disk": "floppy"', "failure.disk: expected one of"),
        ('"digest"', '"digits"', "failure: Object missing required field `digest`"),
        ("{", "[", "not JSON"),
    ],
)
def test_an_invalid_failure_file_is_refused(
    unsynced_program_record: ProgramRecord, check: Path, old: str, new: str, message: str
) -> None:
    shown = shrunk_case(unsynced_program_record, check, LOST)
    text = ProbeFailure("check.py", shown.case, EMPTY, unsynced_program_record).to_json(shown)

    with pytest.raises(ArtefactError, match=message):
        ProbeFailure.from_json(text.replace(old, new))


def test_a_story_has_steps_with_source_lines(unsynced_program_record: ProgramRecord) -> None:
    assert step_text(unsynced_program_record, 2) == "   3 rename new -> value  save.py:3"
    assert list(story(unsynced_program_record, 7))[-1] == "   8 acknowledge 'two'  save.py:9"
    assert len(list(story(unsynced_program_record, 3))) == 4
    assert step_description(unsynced_program_record, Step("write", file=1, at=4, data=b"ab")) == "write new [4, 6)"


def test_between_stores_to_a_map_only_process_kills_are_tried(check_file: CheckFile, tmp_path: Path) -> None:
    log = tmp_path / "log"
    check = check_file(
        f"""
        def check(directory, acknowledged):
            map = directory / "map"
            with open({str(log)!r}, "a") as log:
                print(map.read_bytes()[:3] if map.exists() else None, file=log)
        """
    )
    stores = [Step("store", file=0, at=at, data=b"x") for at in range(3)]
    made = (Step("create", "/files/map", file=0), Step("allocate", file=0, size=4096), Step("sync all"))
    record = ProgramRecord((), (*made, *stores, Step("acknowledge", "done")), ((),))
    found = probe_report(record, check, "strict-posix", "process-kill")

    assert found.counts["process-kill"].crashes == found.points
    assert found.counts["strict-posix"].crashes == found.points - 2
    contents = {b"x" * kept + bytes(3 - kept) for kept in range(4)}
    assert {str(content) for content in contents} <= set(log.read_text().splitlines())


@pytest.mark.slow
def test_a_slow_check_is_no_breach_on_a_disk_where_no_check_hangs(
    unsynced_program_record: ProgramRecord, check_file: CheckFile
) -> None:
    check = check_file(
        """
        import time

        def check(directory, acknowledged):
            found = (directory / "value").read_text() if (directory / "value").exists() else None
            if acknowledged == ["one"] and found is None:
                time.sleep(600)  # only after a power cut
            if acknowledged == ["one", "two"] and found == "two":
                time.sleep(1.5)  # on both disks
        """
    )
    with Checkers(PythonCheck(check), 1, 4.0) as checkers:
        found = Prober(unsynced_program_record, EMPTY, checkers, disks=("strict-posix", "process-kill")).probe()
        smallest = shrink(unsynced_program_record, EMPTY, found.breaches["no verdict within # s"].smallest, checkers)

    assert checkers.assumed > 0
    assert found.counts["process-kill"].broken == 0
    assert set(found.breaches["no verdict within # s"].disks) == {"strict-posix"}
    assert smallest.case.verdict.lines == ("no verdict within 4 s",)
