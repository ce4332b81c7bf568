"""Shared rig: a kernel, a machine and a disk, by default with instantaneous syncs."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import Image
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.faults.plan import FaultPlan
from tornlog.sim.choices import Choices
from tornlog.sim.errors import MachineDied
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk

INSTANT = SyncTiming(0, 0)


class Rig:
    """One disk and the machine that mounts it."""

    def __init__(
        self,
        seed: str = "1",
        image: Image | None = None,
        timing: SyncTiming = INSTANT,
        faults: FaultPlan | None = None,
        choices: Choices | None = None,
        page_bytes: int = 4096,
        sector_bytes: int = 512,
    ) -> None:
        self.choices = choices or Choices(seed)
        self.kernel = Kernel(RandomWalk(self.choices.stream("schedule"), 8))
        self.machine = self.kernel.create_machine("broker")
        stream = self.choices.stream("disk")
        self.disk = Disk(
            self.kernel,
            stream,
            image=image,
            sector_bytes=sector_bytes,
            page_bytes=page_bytes,
            timing=timing,
            faults=faults,
        )
        self.files = self.disk.mount(self.machine)

    @property
    def injected(self) -> Counter[str]:
        return self.disk.injected

    def run(self, body: Callable[[], Any]) -> Any:
        return self.kernel.run(self.machine, body, time_limit_ns=3_600 * 10**9)

    def run_until_death(self, body: Callable[[], Any]) -> None:
        with pytest.raises(MachineDied):
            self.run(body)

    def cut(self, profile: str) -> Image:
        self.kernel.kill(self.machine)
        return self.disk.crash(PROFILES[profile])
