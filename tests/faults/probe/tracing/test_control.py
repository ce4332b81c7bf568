"""TORNLOG_CONTROL: a program asks for faults and marks crash points while it runs."""

from textwrap import dedent

import pytest

from tests.faults.probe.steps import as_short_texts, steps_of
from tests.faults.probe.tracing.programs import python
from tornlog.faults.kinds import FaultKind
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.tracing.control import AS_IT_IS, CallFault, RunControl
from tornlog.faults.probe.tracing.process import TracedRun
from tornlog.faults.probe.tracing.run import run_traced

SAVE = """
    control = open(os.environ["TORNLOG_CONTROL"], "w")
    f = os.open("f", os.O_WRONLY | os.O_CREAT)
    for number in range(4):
        if number == 2:
            print(LINES, file=control, flush=True)
        try:
            os.write(f, b"%d" % number)
            print(number, flush=True)
        except OSError as error:
            print(errno.errorcode[error.errno], flush=True)
    """


def saved(lines: str, control: RunControl = AS_IT_IS) -> TracedRun:
    return run_traced(python(dedent(SAVE).replace("LINES", repr(lines))), EMPTY, 60.0, control=control)


@pytest.mark.parametrize(
    ("rule", "answers", "injections"),
    [
        ("failed-write f", ["0", "1", "EIO", "3"], 1),
        ("disk-full f #2", ["0", "1", "2", "ENOSPC"], 1),
        ("failed-write #*", ["0", "1", "EIO", "EIO"], 2),
        ("failed-write other", ["0", "1", "2", "3"], 0),
    ],
)
def test_a_fault_applies_from_the_moment_at_which_the_program_asks(
    rule: str, answers: list[str], injections: int
) -> None:
    run = saved(rule)

    assert run.record.acknowledged == answers
    assert run.record.rules == ((rule, injections),)
    assert len(run.record.injected) == injections
    assert run.matched == []


def test_several_rules_are_active_together_and_with_the_fault_of_the_run() -> None:
    run = saved("failed-write #2\nlying-sync", RunControl(CallFault(FaultKind.DISK_FULL, 2)))

    assert run.record.acknowledged == ["0", "ENOSPC", "2", "EIO"]
    assert run.record.rules == (("failed-write #2", 1), ("lying-sync", 0))
    assert [call.kind for call in run.matched] == [FaultKind.DISK_FULL]


def test_a_marked_crash_point_is_recorded_between_its_steps() -> None:
    run = saved("cut")

    steps = as_short_texts(steps_of((run.record, run.unlike)))
    (cut,) = run.record.cuts
    assert steps[cut - 1 : cut + 1] == ["acknowledge 1", "write #0 @2 '2'"]


def test_a_shell_can_ask_and_an_unknown_rule_refuses_the_program() -> None:
    run = run_traced(["sh", "-c", 'echo fire > "$TORNLOG_CONTROL"; echo x > f'], EMPTY, 60.0)

    (unseen,) = run.record.unseen
    assert unseen.event == "TORNLOG_CONTROL"
    assert unseen.detail.startswith("rule 'fire': word 1: expected cut or one of failed-write")
