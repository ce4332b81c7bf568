"""Disk lifecycle: what the lives of one machine find and leave.

A disk outlives the process that was killed, an image the power cut.
"""

from collections import Counter
from collections.abc import Callable

from ...sim.choices import Stream
from ...sim.kernel import Kernel
from ..crashes.profiles import PROFILES, CrashProfile
from ..disk.disk import Disk
from ..disk.image import DamagedRange, Image
from ..disk.syncs import SyncTiming, Timing
from ..plan import FaultPlan

PROCESS_KILL = "process-kill"
Change = Callable[[Image], Image]
"""What happens to an image while its machine is off."""
Rot = Callable[[str, Image], tuple[Image, list[DamagedRange]]]
"""What time makes of an image before the disk of that name is found, and the sectors that cannot be read any more."""


def no_rot(_: str, image: Image) -> tuple[Image, list[DamagedRange]]:
    """Let time pass without a trace."""
    return image, []


class DiskLifecycle:
    """The disk of one machine through its lives. faults, timing and capacity are those of disks found from now on.

    Invariant: between two lives `_kept` is what the next one finds, without it `_image`, without both a new disk.
    Beside `_kept` there may be an older image: of the power cut that a killed process had started from.
    """

    def __init__(
        self,
        kernel: Kernel,
        streams: Callable[[str], Stream],
        *,
        faults: FaultPlan | None = None,
        timing: Timing | None = None,
        rot: Rot = no_rot,
    ) -> None:
        self.faults = faults or FaultPlan()
        self.timing = timing or SyncTiming()
        self.capacity_bytes: int | None = None
        self.on_image: Callable[[Image], None] = lambda image: None
        """Called with each image that a machine is about to find, as it was left."""
        self.stream_name = ""
        """From which the present disk draws."""
        self._kernel = kernel
        self._streams = streams
        self._rot = rot
        self._image: Image | None = None
        self._kept: Disk | None = None
        """That of a process which was killed: what only its page cache knows can still be lost."""
        self._bad_sectors: list[DamagedRange] = []
        self._all: list[Disk] = []

    @property
    def injected(self) -> Counter[str]:
        """Return how often each fault of it really happened, in all lives."""
        return sum((disk.injected for disk in self._all), Counter())

    @property
    def damage(self) -> list[DamagedRange]:
        """Return what has been done to what was durable, in all lives."""
        return [one for disk in self._all for one in disk.damage]

    def find(self, stream: str, *, faulty: bool = True) -> Disk:
        """Return what the next life finds; one that is not faulty has been exchanged for a sound one.

        stream: the name of the one that a new disk draws from; a disk that was kept has its own.
        """
        if self._kept is not None and faulty:
            disk, self._kept = self._kept, None
            assert not disk.is_stopped, self.stream_name
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
            timing=self.timing,
            faults=self.faults if faulty else FaultPlan(),
            capacity_bytes=self.capacity_bytes,
            bad_sectors=bad_sectors,
        )
        self._all.append(disk)
        return disk

    def settled(self) -> Image | None:
        """Return the image that is left, None of a new disk; what a killed process has left is on the disk then."""
        if self._kept is not None:
            self._image, self._kept = self._kept.crash(PROFILES[PROCESS_KILL]), None
        return self._image

    def leave(self, image: Image | None) -> None:
        """Let the next life find this image; None: a new disk."""
        self._image = image

    def leave_after_crash(self, disk: Disk, profile: CrashProfile, change: Change = lambda image: image) -> None:
        """Keep what a crash leaves of it; change: what happens then to an image, not to what a killed process leaves.

        A killed process leaves its page cache, so the next life mounts the same disk: a power cut may still come.
        """
        assert self._kept is None, "the last life's disk was found before this one was left"
        if profile.name == PROCESS_KILL and not disk.is_stopped:  # a stopped one has to be mounted anew
            disk.note_kill()
            self._kept = disk
        else:
            self._image = change(disk.crash(profile))
        self._bad_sectors = disk.bad_sectors

    def leave_after_stop(
        self, disk: Disk, change: Change = lambda image: image, *, power_cut: CrashProfile | None = None
    ) -> None:
        """Keep what is left of it when all its users have stopped; change: what happens to that.

        power_cut: what the power takes that goes right then, if it does: of what nobody has synced. None: the system
        writes all of that back.
        """
        assert self._kept is None, "the last life's disk was found before this one was left"
        self._image = change(disk.settle() if power_cut is None else disk.power_cut_after_stop(power_cut))
        self._bad_sectors = disk.bad_sectors
