"""Exploration of any program: judged states match real runs."""

from typing import Any

import pytest

from tornlog.faults.crashes.profiles import CrashProfile
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import Image
from tornlog.faults.simulation.explore import CrashChoice, WholeRunCrash
from tornlog.faults.simulation.simulation import Simulation, SimWorld
from tornlog.faults.simulation.trials import explore


def write_without_sync(run: Simulation) -> None:
    """Write into two files, sync one of them, and rename it."""

    def write(world: SimWorld) -> None:
        for number, draw in run.steps("writes", 3):
            world.files.write("/a", b"x" * draw.randint(1, 9000, "bytes"))
            world.files.write("/b", b"y" * 700 * number)
            world.files.sync("/a")
            world.files.rename("/a", "/c")

    run.live("first", write, crash_within=50, profiles=("strict-posix", "xfs"))
    run.live("second", lambda world: None)


def test_every_explored_crash_state_equals_that_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    crash, judge = Disk.crash, WholeRunCrash.judge
    found: list[str] = []
    states = []

    def seen_crash(disk: Disk, profile: CrashProfile) -> Image:
        image = crash(disk, profile)
        found.append(image.digest())
        return image

    def seen_judge(self: WholeRunCrash[Any, Any], profile: str, choice: CrashChoice) -> str:
        found.clear()
        signature = judge(self, profile, choice)
        assert choice.state.digest in found, (profile, choice.state.digest)
        states.append(choice.state.digest)
        return signature

    monkeypatch.setattr(Disk, "crash", seen_crash)
    monkeypatch.setattr(WholeRunCrash, "judge", seen_judge)
    explored = explore(write_without_sync, 1, limit=8)
    assert explored.findings == ()
    assert len(states) == explored.counts.total.judged > 150
    assert len(set(states)) > 40
