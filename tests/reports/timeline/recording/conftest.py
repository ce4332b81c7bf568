"""Recording fixtures: recordings of small worlds, and of runs with and without violations."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixtures import QUIET_PLAN
from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.reports.timeline.recording.record import RunRecording, Subject
from tornlog.reports.timeline.recording.recorder import RunRecorder
from tornlog.scenarios.claims.machine import world_of
from tornlog.scenarios.claims.plan import Plan
from tornlog.sim.choices import Choices
from tornlog.sim.errors import MachineDied
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RoundRobin

SUBJECT = Subject("small", "small worlds are told as they were", 1, None)


class Workshop:
    """A kernel with a recorder, and disks for consecutive machines."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.recorder = RunRecorder()
        self.kernel = Kernel(RoundRobin(3), trace=self.recorder)
        self._choices = Choices("1")
        self._disks = 0

    def disk(self, image: Any = None, **settings: Any) -> Disk:
        """Create a disk with syncs of 1 ms by default."""
        self._disks += 1
        settings.setdefault("timing", SyncTiming(1_000_000, 1_000_000))
        return Disk(self.kernel, self._choices.stream(f"disk-{self._disks}"), image=image, **settings)

    def live(self, name: str, disk: Disk, body: Callable[[Any], Any], *, cut: str = "", killed: bool = False) -> Any:
        """Run a machine on a disk; return the result of its body.

        killed: whether it is killed at the end. If `cut` is set it is killed too, and the crash image is returned.
        """
        machine = self.kernel.create_machine(name)

        def live() -> Any:
            done = body(world_of(machine, disk))
            if cut or killed:
                self.kernel.kill(machine)
                raise MachineDied(name)
            return done

        if not (cut or killed):
            return self.kernel.run(machine, live, time_limit_ns=10**12)
        with pytest.raises(MachineDied):
            self.kernel.run(machine, live, time_limit_ns=10**12)
        return disk.crash(PROFILES[cut]) if cut else None

    def run_recording(self) -> RunRecording:
        digest = self.kernel.digest()
        self.kernel.close()
        return self.recorder.run_recording(SUBJECT, self.plan, digest, {})


@pytest.fixture
def workshop() -> Workshop:
    return Workshop(QUIET_PLAN)
