"""What the lives of one machine find and leave: a disk that outlives them, or the image that a power cut leaves."""

from collections import Counter
from collections.abc import Callable

from ..faults.damage import Damage
from ..faults.disk import Disk
from ..faults.image import Image
from ..faults.plan import FaultPlan
from ..faults.profiles import CrashProfile
from ..faults.timing import SyncTiming
from ..sim.choices import Stream
from ..sim.kernel import Kernel
from .plan import Plan


class LastingDisk:
    """Invariant: between two lives exactly one of `_kept` and `_image` is what the next one finds, or it is new."""

    def __init__(self, plan: Plan, kernel: Kernel, streams: Callable[[str], Stream]) -> None:
        self.on_image: Callable[[Image], None] = _nobody
        """Called with each image that a machine is about to find."""
        self._plan = plan
        self._kernel = kernel
        self._streams = streams
        self._image: Image | None = None
        self._kept: Disk | None = None
        """That of a process which was killed: what only its page cache knows can still be lost."""
        self._bad_sectors: list[Damage] = []
        self._all: list[Disk] = []

    @property
    def fired(self) -> Counter[str]:
        """Return how often each fault of it really happened, in all lives."""
        return sum((disk.fired for disk in self._all), Counter())

    def find(self, stream: str, *, faulty: bool) -> Disk:
        """Return what the next life finds; what is not to be faulty is sound, unless a killed process has left it."""
        if self._kept is not None:
            disk, self._kept = self._kept, None
            disk.fired["crash process-kill"] += 1  # nobody asks it for an image of that crash
            disk.disarm()  # the last life may have died of something else first
            return disk
        if self._image is not None:
            self.on_image(self._image)
        disk = Disk(
            self._kernel,
            self._streams(stream),
            image=self._image,
            timing=SyncTiming(base_ns_max=self._plan.sync_ms_max * 1_000_000),
            faults=self._plan.faults if faulty else FaultPlan(),
            bad_sectors=self._bad_sectors if faulty else [],
        )
        self._all.append(disk)
        return disk

    def leave_after_crash(self, disk: Disk, profile: CrashProfile) -> None:
        """Keep what a crash leaves of it."""
        if profile.name == "process-kill" and not disk.is_stopped:
            self._kept = disk
        else:
            self._image = disk.crash(profile)
        self._bad_sectors = disk.bad_sectors

    def leave_after_stop(self, disk: Disk) -> None:
        """Keep what a clean power-off leaves of it."""
        self._image = disk.settle()
        self._bad_sectors = disk.bad_sectors


def _nobody(image: Image) -> None:
    """Tell no one."""
