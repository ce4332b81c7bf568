"""Disk lifecycle: keeps the disk of one machine between two process runs."""

from collections import Counter
from collections.abc import Callable

from ...sim.choices import Stream
from ...sim.kernel import Kernel
from ..crashes.profiles import PROFILES, CrashProfile
from ..disk.disk import Disk
from ..disk.image import DamagedRange, Image
from ..disk.syncs import SyncTiming
from ..plan import NO_FAULTS, FaultPlan

PROCESS_KILL = "process-kill"
Change = Callable[[Image], Image]
"""Modifies an image while the machine is off."""
Rot = Callable[[str, Image], tuple[Image, list[DamagedRange]]]
"""Decays an image before the mount under a name. Returns the image and its unreadable sectors."""


def without_rot(_: str, image: Image) -> tuple[Image, list[DamagedRange]]:
    return image, []


class DiskLifecycle:
    """The disk of one machine across its process runs.

    Changed faults, timing and capacity apply to the next new disk, not to the disk of a killed process.

    Invariant: between two process runs the next mount uses `_live_disk` (after a process kill) if set, else `_image`
    (after a power cut), else an empty disk. After a process kill `_image` may still have the image before the process.
    """

    def __init__(
        self,
        kernel: Kernel,
        streams: Callable[[str], Stream],
        *,
        faults: FaultPlan | None = None,
        timing: SyncTiming | None = None,
        rot: Rot = without_rot,
    ) -> None:
        self.faults = faults or NO_FAULTS
        self.timing = timing or SyncTiming()
        self.capacity_bytes: int | None = None
        self.on_image: Callable[[Image], None] = lambda image: None
        """Called with each image before decay and mount."""
        self.stream_name = ""
        self._kernel = kernel
        self._streams = streams
        self._rot = rot
        self._image: Image | None = None
        self._live_disk: Disk | None = None
        """The disk of a killed process, with its page cache."""
        self._bad_sectors: list[DamagedRange] = []
        self._all: list[Disk] = []

    @property
    def injected(self) -> Counter[str]:
        return sum((disk.injected for disk in self._all), Counter())

    @property
    def damage(self) -> list[DamagedRange]:
        return [one for disk in self._all for one in disk.damage]

    def find_disk(self, stream: str, *, faulty: bool = True) -> Disk:
        """Return the disk of the next process run. faulty: whether the disk may have faults.

        stream: random stream of a new disk. The disk of a killed process keeps its stream.
        """
        if self._live_disk is not None and faulty:
            disk, self._live_disk = self._live_disk, None
            assert not disk.is_stopped, self.stream_name
            disk.cancel_crash_trigger()  # the previous process may have ended before its planned crash
            return disk
        image = self.next_image()
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
            faults=self.faults if faulty else NO_FAULTS,
            capacity_bytes=self.capacity_bytes,
            bad_sectors=bad_sectors,
        )
        self._all.append(disk)
        return disk

    def next_image(self) -> Image | None:
        """Write back the dirty pages of a killed process, and return the next image to mount. None: an empty disk."""
        if self._live_disk is not None:
            self._image, self._live_disk = self._live_disk.crash(PROFILES[PROCESS_KILL]), None
        return self._image

    def set_next_image(self, image: Image | None) -> None:
        """Set the next image to mount; None: an empty disk."""
        self._image = image

    def set_image_after_crash(self, disk: Disk, profile: CrashProfile, change: Change = lambda image: image) -> None:
        """Keep the disk or its image for the next process run. change: modifies a crash image.

        After a process kill a later power cut can still lose unsynced data.
        """
        assert self._live_disk is None, "`find_disk` has taken the previous disk"
        if profile.name == PROCESS_KILL and not disk.is_stopped:  # a stopped file system requires a new mount
            disk.count_kill()
            self._live_disk = disk
        else:
            self._image = change(disk.crash(profile))
        self._bad_sectors = disk.bad_sectors

    def set_image_after_stop(
        self, disk: Disk, change: Change = lambda image: image, *, power_cut: CrashProfile | None = None
    ) -> None:
        """Keep the image after a clean stop for the next process run. change: modifies the image.

        power_cut: profile of a power cut right after the stop, which can lose unsynced data. None: the system writes
        all dirty data back.
        """
        assert self._live_disk is None, "`find_disk` has taken the previous disk"
        self._image = change(
            disk.image_after_power_off() if power_cut is None else disk.power_cut_after_stop(power_cut)
        )
        self._bad_sectors = disk.bad_sectors
