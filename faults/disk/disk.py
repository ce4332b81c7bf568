"""Simulated disk: serves machines until a crash or a power-off turns it into an image.

Mutating operations have numbers from 0, in the order of their begin: create, extend, store, pwrite, empty, write, zero
range, msync, fdatasync, sync, sync directory, rename, exchange, link, symlink, unlink, make directory, remove
directory. A run has the same numbers in each execution, so "crash during operation 137" is reproducible.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any

from ...sim.choices import Stream
from ...sim.kernel import Kernel
from ...sim.machine import Machine
from ..crashes.at_rest import DataAtRest
from ..crashes.crash import PowerCut, crash_fingerprint, durable_image, surviving_cache_image
from ..crashes.enumeration import CrashStates
from ..crashes.page_outcomes import SectorFaults
from ..crashes.profiles import PROFILES, CrashProfile
from ..crashes.sampling import draw_lost_changes, draw_page_outcomes
from ..crashes.variant import CrashCache
from ..kinds import FaultKind
from ..plan import NO_FAULTS, FaultPlan, without_transient_faults
from .aftermath import Aftermath, DiskState, aftermath_of, disk_state
from .cached_images import CachedImages
from .changes import Change, parent_of
from .fault_injector import MOMENTS, CrashSite, CrashTrigger, FaultInjector
from .files import SimFiles
from .image import DamagedRange, Image
from .namespace import Namespace
from .syncs import Syncs, SyncTiming
from .volume import Volume


class Disk:
    """One disk. After a process kill the next machine mounts it again. is_sparse: whether long files are cheap, but not
    mappable.
    """

    def __init__(
        self,
        kernel: Kernel,
        stream: Stream,
        *,
        image: Image | None = None,
        sector_bytes: int = 512,
        page_bytes: int = 4096,
        timing: SyncTiming | None = None,
        faults: FaultPlan | None = None,
        capacity_bytes: int | None = None,
        bad_sectors: Iterable[DamagedRange] = (),
        is_sparse: bool = False,
    ) -> None:
        assert page_bytes % sector_bytes == 0, (page_bytes, sector_bytes)
        self._sector_bytes = sector_bytes
        self._page_bytes = page_bytes
        self.kernel = kernel
        self._stream = stream
        self._injector = FaultInjector(kernel, stream, faults or NO_FAULTS)
        self.stream_name = stream.name
        self.injected: Counter[str] = self._injector.injected
        self.damage: list[DamagedRange] = self._injector.damage
        """Ranges with acknowledged or visible data that the disk lost."""
        if image is None:
            self._names = Namespace(page_bytes, is_sparse=is_sparse)
        else:
            self._names = Namespace.from_image(image, page_bytes, kernel.wall_start_ms, is_sparse=is_sparse)
            self._names.mark_bad_sectors(bad_sectors, sector_bytes)
            if self._injector.faults.sparse:
                self._names.mark_holes(sector_bytes)
        self._volume = Volume(self._names, self._injector, sector_bytes, capacity_bytes)
        self._syncs = Syncs(self._injector, self._names, timing or SyncTiming())
        self._cached_images = CachedImages(self._names, kernel.wall_start_ms) if is_sparse else None
        self._crash_cache = CrashCache(self._names, page_bytes, sector_bytes, kernel.wall_start_ms)
        self._mounted: list[Machine] = []
        self.was_limited = capacity_bytes is not None
        """Whether the capacity has ever been limited."""
        self.is_finished = False
        """Whether the disk has become an image and cannot be mounted."""
        self._was_killed = False  # whether the kill of the last machine was counted

    @property
    def operations(self) -> int:
        """Number of operations so far, which is the number of the next one."""
        return self._injector.operations

    @property
    def crash_site(self) -> CrashSite | None:
        return self._injector.crash_site

    @property
    def bad_sectors(self) -> list[DamagedRange]:
        """The unreadable sectors, which the next mount has too."""
        return self._names.bad_sectors()

    def mount(self, machine: Machine) -> SimFiles:
        self._check_unfinished()
        self._mounted.append(machine)
        self._was_killed = False
        self._injector.failed_writes.clear()
        return SimFiles(machine, self._volume, self._syncs)

    @property
    def slow_until_ns(self) -> int:
        return self._injector.slow_until_ns

    @property
    def is_stopped(self) -> bool:
        """Whether the file system has stopped. A stopped file system refuses all changes until a power-off."""
        return self._injector.stopped != 0

    @property
    def capacity_bytes(self) -> int | None:
        """Capacity, possibly less than the used space; None: unlimited."""
        return self._volume.limit_bytes

    @capacity_bytes.setter
    def capacity_bytes(self, capacity_bytes: int | None) -> None:
        self._volume.limit_bytes = capacity_bytes
        self.was_limited |= capacity_bytes is not None

    def limit_directory(self, directory: str, capacity_bytes: int) -> None:
        """Make a directory a disk of its own with this capacity, until `lift_directory_limits`."""
        self._volume.limits_by_directory[directory] = capacity_bytes

    def lift_directory_limits(self) -> None:
        self._volume.limits_by_directory.clear()

    @property
    def used_bytes(self) -> int:
        return self._volume.space().used_bytes

    def take_used_extremes(self) -> tuple[int, int]:
        """Return the lowest and the highest used space since the last call, and now."""
        return self._volume.take_used_extremes()

    @property
    def directories(self) -> list[str]:
        return sorted(self._names.current.directories)

    @property
    def paths(self) -> list[str]:
        """Paths of all files, sorted. For judges, not for stores."""
        return sorted(self._names.current.names)

    def crash_at(self, operation: int, moment: str) -> CrashTrigger:
        """Plan a crash at an operation: before, during or after its effect.

        A crash during a store, pwrite or write leaves a prefix of the data, of random length, in the page cache. A
        crash during a sync happens after half of the sync's time. Other operations are atomic: a random choice decides
        whether the effect remains.
        """
        if operation < self.operations:
            raise ValueError(f"operation: expected at least {self.operations}, found {operation}")
        trigger = CrashTrigger(operation=operation)
        self.arm_trigger(trigger, moment)
        return trigger

    def arm_trigger(self, trigger: CrashTrigger, moment: str) -> None:
        """Crash at the operation that the trigger selects."""
        if moment not in MOMENTS:
            raise ValueError(f"moment: expected one of {', '.join(MOMENTS)}, found {moment}")
        self._injector.crash_at = self.operations  # query the trigger from the next operation on
        self._injector.moment = moment
        self._injector.aim = trigger

    def limit_page_ins_to(self, names: Collection[str]) -> None:
        """Allow slow and failed page-ins only in tasks with these names after the last `/`."""
        self._injector.page_in_fault_names = names

    @contextmanager
    def with_page_ins(self) -> Iterator[None]:
        """In a block, allow slow and failed page-ins in the current task."""
        injector, task = self._injector, self.kernel.current
        injector.struck.add(task)
        try:
            yield
        finally:
            injector.struck.discard(task)

    @contextmanager
    def with_faults(self, **faults: Any) -> Iterator[None]:
        """Change fields of FaultPlan in a block."""
        injector = self._injector
        before = injector.faults
        injector.set_faults(replace(before, **faults))
        try:
            yield
        finally:
            injector.set_faults(before)

    def heal(self) -> None:
        """Stop transient faults. Earlier damage remains."""
        self._injector.set_faults(without_transient_faults(self._injector.faults))

    @property
    def has_transient_faults(self) -> bool:
        """Whether operations may still fail or be slow, because `heal` was not called."""
        faults = self._injector.faults
        return faults != without_transient_faults(faults)

    def cancel_crash_trigger(self) -> None:
        self._injector.crash_at = -1
        self._injector.crash_site = None
        self._injector.aim = None

    def is_durable(self, path: str, start: int, end: int) -> bool:
        """Whether bytes [start, end) survive a crash on every file system. For judges."""
        inode = self._names.current.inode(path)
        return inode is not None and inode.has_durable(start, end)

    def is_name_durable(self, path: str) -> bool:
        """Whether the name survives a crash on every file system. For judges."""
        return self._names.current.inode(path) is not None and self._names.is_name_durable(path)

    def is_file_durable(self, path: str, start: int, end: int) -> bool:
        """As `is_durable`, and whether the file's name and all directories above it survive. For judges."""
        names, at = self._names, path
        if not self.is_durable(path, start, end):
            return False
        while at != "/" and names.is_name_durable(at):
            at = parent_of(at)
        return at == "/"

    @property
    def failed_writes(self) -> AbstractSet[str]:
        """The files to which a write through a descriptor failed since the last mount, except for lack of space."""
        return self._injector.failed_writes

    def undurable_names(self, directory: str) -> list[str]:
        """Return the paths in a directory that a crash may remove or restore on some file system. For judges."""
        return self._names.undurable_names(directory)

    def is_dirty(self, path: str, start: int, end: int) -> bool:
        """Whether bytes [start, end) are not written back yet. For judges."""
        inode = self._names.current.inode(path)
        return inode is not None and inode.is_dirty(start, end)

    def mapped_paths(self, machine: Machine) -> list[str]:
        """Return the files that a machine has mapped, without removed files. For judges."""
        return self._volume.mapped_paths(machine)

    def locked_paths(self) -> list[str]:
        """Return the files that living machines have locked in memory. For judges."""
        return self._volume.locked_paths()

    def content(self, path: str) -> bytes:
        """Return the bytes of a file that readers see; no bytes if the file is missing. For judges."""
        inode = self._names.current.inode(path)
        return b"" if inode is None else bytes(inode.content())

    def mtime_ms(self, path: str) -> int | None:
        """Return the modification time of a file; None if the file is missing. For judges."""
        inode = self._names.current.inode(path)
        return None if inode is None else inode.mtime_ms(self.kernel.wall_start_ms)

    def content_state(self) -> DiskState:
        return disk_state(self._names, self._page_bytes, self._sector_bytes)

    def crash(self, profile: CrashProfile) -> Image:
        """End the use of the disk, and return a random image that this kind of crash can leave."""
        if any(machine.alive for machine in self._mounted):
            raise RuntimeError("a machine that has mounted the disk is alive: kill it first")
        if not self._was_killed:  # else `count_kill` has counted this crash
            self._count_crash(profile)
        return self._crash_image(profile)

    def power_cut_after_stop(self, profile: CrashProfile) -> Image:
        self.injected[FaultKind.POWER_CUT_AFTER_STOP] += 1
        return self._crash_image(profile)

    def _crash_image(self, profile: CrashProfile) -> Image:
        self._mark_finished()
        wall_start_ms, trace = self.kernel.wall_start_ms, self.kernel.trace
        if profile.page_cache_survives:
            image = self._cached_image()
            if trace is not None:
                trace.emit(Aftermath(profile.name, (), (), image))
            return image
        cut = PowerCut(profile, self._names, self._page_bytes, self._sector_bytes)
        # The surviving names and lengths determine which pages can be lost.
        lost = draw_lost_changes(self._stream, profile, cut.losable_changes())
        entries = cut.entries_without_changes(lost, self.injected)
        dirty = cut.dirty_pages(entries)
        sector_faults = self._sector_faults(profile)
        page_outcomes = draw_page_outcomes(self._stream, dirty, cut.page_sectors, sector_faults)
        image = cut.image(entries, dirty, page_outcomes, self.injected, wall_start_ms)
        self.damage.extend(cut.damage)
        if trace is not None:
            taken = [(change, lost[change.number]) for change in self._names.journal if change.number in lost]
            outcomes = list(zip(dirty, page_outcomes, strict=True))
            trace.emit(aftermath_of(profile.name, entries, taken, outcomes, image, self._page_bytes))
        return image

    def count_kill(self) -> None:
        """Count a process kill. The page cache survives, and the next machine mounts this disk."""
        self._was_killed = True
        self._count_crash(PROFILES["process-kill"])

    def _count_crash(self, profile: CrashProfile) -> None:
        self.injected["crash"] += 1
        self.injected[f"crash {profile.name}"] += 1

    def fingerprint(self) -> str:
        """Return a digest. Equal digests imply the same possible crash states."""
        return crash_fingerprint(self._names)

    def crash_states(self, profile: CrashProfile, limit: int, stream: Stream) -> CrashStates:
        """Return up to `limit` states that a crash could leave now, some of them random. The disk does not change."""
        cut = PowerCut(profile, self._names, self._page_bytes, self._sector_bytes)
        whole = self._cached_image() if profile.page_cache_survives else None
        return CrashStates(cut, profile, self._sector_faults(profile), whole, self._crash_cache, limit, stream)

    def changes_by(self, operations: Iterable[int]) -> list[Change]:
        """Return the changes of names and sizes by these operations. Omit a change that is durable on every file system
        and has no earlier unsynced change. For judges.
        """
        return self._names.changes_by(operations)

    def losable_changes(self, profile: CrashProfile, among: list[Change]) -> list[Change]:
        """Return the changes of `among` that a power cut may lose now. For judges.

        On btrfs a logged file makes directories durable, so `among` must include the file's names.
        """
        names = copy(self._names)
        names.journal = among
        return PowerCut(profile, names, self._page_bytes, self._sector_bytes).losable_changes()

    def data_at_rest(self) -> DataAtRest:
        """Return the synced data, for damage at rest. The disk does not change."""
        return DataAtRest(self._names, self._page_bytes, self._sector_bytes, self.kernel.wall_start_ms)

    def image_after_power_off(self) -> Image:
        """Return the image after a clean power-off: the page cache without data that failed syncs dropped."""
        self._mark_finished()
        return durable_image(self._names.current, self.operations, self.kernel.wall_start_ms)

    def _cached_image(self) -> Image:
        if self._cached_images is not None:
            return self._cached_images.image()
        return surviving_cache_image(self._names.current, self.kernel.wall_start_ms)

    def _sector_faults(self, profile: CrashProfile) -> SectorFaults:
        faults = self._injector.faults
        torn_chance = max(faults.torn_bytes_chance, profile.torn_bytes_chance)
        return SectorFaults(self._sector_bytes, torn_chance, faults.garbage_chance, profile.torn_page_chance)

    def _mark_finished(self) -> None:
        self._check_unfinished()
        self.is_finished = True

    def _check_unfinished(self) -> None:
        if self.is_finished:
            raise RuntimeError("the disk has become an image: make a new disk from it")
