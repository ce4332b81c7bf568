"""Texts about the losses of a crash."""

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.probe.record import ProgramRecord, Step
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.replay import Replayer
from tornlog.faults.probe.story import losses_of
from tornlog.sim.choices import Choices

STEPS = (
    Step("make directory", "/files/d"),
    Step("create", "/files/d/log", file=0),
    Step("write", file=0, data=b"a" * 700),
    Step("write", file=0, at=10, data=b"b" * 600),
    Step("truncate", file=0, at=600),
    Step("link", "/files/d/log", "/files/twin"),
    Step("rename", "/files/d/log", "/files/log"),
    Step("unlink", "/files/twin"),
)


@pytest.fixture(scope="module")
def losses_with_steps() -> set[tuple[str, int]]:
    """Return all losses after crashes at the last step, each with its step."""
    replayer = Replayer(ProgramRecord((), STEPS, ((),)), EMPTY)
    list(replayer.points())
    states = replayer.disk.crash_states(PROFILES["strict-posix"], 3_000, Choices("1").stream("states"))
    found = set()
    for state in states:
        losses = losses_of(states.losses_of(state), replayer.steps_of)
        assert [loss.steps[0] for loss in losses] == sorted(loss.steps[0] for loss in losses)
        assert len(losses) == state.loss_count
        found.update(losses)
    return {(loss.what, loss.steps[0]) for loss in found}


@pytest.mark.parametrize(
    ("what", "step"),
    [
        ("make directory d: directory lost", 0),
        ("name of d/log lost", 1),
        ("size of d/log lost: it had grown to 700 bytes", 2),
        ("cut of d/log to 600 bytes undone", 4),
        ("link twin: name lost", 5),
        ("rename of d/log to log undone", 6),
        ("unlink twin: unlink undone", 7),
        ("page 0 of log lost: all 2 writes", 2),
        ("page 0 of log lost: its last 1 of 2 writes", 3),
        ("page 0 of log torn: sector 0 newer", 2),
    ],
)
def test_each_loss_names_the_step_that_wrote_it(losses_with_steps: set[tuple[str, int]], what: str, step: int) -> None:
    assert (what, step) in losses_with_steps
