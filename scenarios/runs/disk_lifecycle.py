"""What the lives of one machine find and leave: a disk that outlives them, or the image that a power cut leaves."""

from collections import Counter
from collections.abc import Callable

from ...faults.crashes.profiles import PROFILES, CrashProfile
from ...faults.disk.disk import Disk
from ...faults.disk.image import DamagedRange, Image
from ...faults.disk.syncs import SyncTiming
from ...faults.plan import FaultPlan
from ...sim.choices import Stream
from ...sim.kernel import Kernel
from ..claims.plan import Plan

Change = Callable[[Image], Image]
"""What happens to an image while its machine is off."""

Rot = Callable[[str, Image], tuple[Image, list[DamagedRange]]]
"""What time makes of an image before the disk of that name is found, and the sectors that cannot be read any more."""


def unchanged(image: Image) -> Image:
    """Let nothing happen."""
    return image


def no_rot(_: str, image: Image) -> tuple[Image, list[DamagedRange]]:
    """Let time pass without a trace."""
    return image, []


class DiskLifecycle:
    """Invariant: between two lives `_kept` is what the next one finds, without it `_image`, without both a new disk.

    Beside `_kept` there may be an older image: of the power cut that a killed process had started from.
    """

    def __init__(
        self,
        plan: Plan,
        kernel: Kernel,
        streams: Callable[[str], Stream],
        *,
        faults: FaultPlan | None = None,
        rot: Rot = no_rot,
    ) -> None:
        """faults: of faulty disks; None: the plan's."""
        self.on_image: Callable[[Image], None] = _nobody
        """Called with each image that a machine is about to find, as it was left."""
        self.stream_name = ""
        """From which the present disk draws."""
        self._plan = plan
        self._kernel = kernel
        self._streams = streams
        self._faults = plan.faults if faults is None else faults
        self._rot = rot
        self._image: Image | None = None
        self._kept: Disk | None = None
        """That of a process which was killed: what only its page cache knows can still be lost."""
        self._bad_sectors: list[DamagedRange] = []
        self._all: list[Disk] = []

    @property
    def fired(self) -> Counter[str]:
        """Return how often each fault of it really happened, in all lives."""
        return sum((disk.fired for disk in self._all), Counter())

    @property
    def damage(self) -> list[DamagedRange]:
        """Return what has been done to what was durable, in all lives."""
        return [one for disk in self._all for one in disk.damage]

    def find(self, stream: str, *, faulty: bool) -> Disk:
        """Return what the next life finds; one that is not faulty has been exchanged for a sound one."""
        if self._kept is not None and faulty:
            disk, self._kept = self._kept, None
            disk.fired["crash process-kill"] += 1  # nobody asks it for an image of that crash
            disk.disarm()  # the last life may have died of something else first
            return disk
        image = self.settled()
        bad_sectors: list[DamagedRange] = []
        if image is not None:
            self.on_image(image)
            if faulty:
                image, bad_sectors = self._rot(stream, image)
                bad_sectors += self._bad_sectors
        self.stream_name = stream
        disk = Disk(
            self._kernel,
            self._streams(stream),
            image=image,
            timing=SyncTiming(base_ns_max=self._plan.sync_ms_max * 1_000_000),
            faults=self._faults if faulty else FaultPlan(),
            bad_sectors=bad_sectors,
        )
        self._all.append(disk)
        return disk

    def settled(self) -> Image | None:
        """Return the image that is left, None of a new disk; what a killed process has left is on the disk then."""
        if self._kept is not None:
            self._image, self._kept = self._kept.crash(PROFILES["process-kill"]), None
        return self._image

    def leave(self, image: Image) -> None:
        """Let the next life find this image."""
        self._image = image

    def leave_after_crash(self, disk: Disk, profile: CrashProfile, change: Change = unchanged) -> None:
        """Keep what a crash leaves of it; change: what happens then to an image, not to what a killed process leaves.

        A killed process leaves its page cache, so the next life mounts the same disk: a power cut may still come.
        """
        if profile.name == "process-kill" and not disk.is_stopped:
            self._kept = disk
        else:
            self._image = change(disk.crash(profile))
        self._bad_sectors = disk.bad_sectors

    def leave_after_stop(self, disk: Disk, change: Change = unchanged) -> None:
        """Keep what a clean power-off leaves of it; change: what happens to that."""
        self._image = change(disk.settle())
        self._bad_sectors = disk.bad_sectors


def _nobody(image: Image) -> None:
    """Do nothing."""
