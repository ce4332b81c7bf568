"""A simulated disk: it outlives the machines that mount it, until a crash or a clean power-off makes it an image.

Every mutating operation has a number, counted from 0 in the order they begin: create, extend, store, pwrite, empty,
write, zero range, msync, fdatasync, sync, sync directory, rename, exchange, link, symlink, unlink, make directory,
remove directory. The same run numbers them alike, so "die during operation 137" means the same each time.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ...sim.choices import Stream
from ...sim.kernel import Kernel
from ...sim.machine import Machine
from ..crashes.crash import PowerCut, cache_image, durable_image, fingerprint_of
from ..crashes.enumeration import CrashStates
from ..crashes.page_outcomes import SectorFaults
from ..crashes.profiles import PROFILES, CrashProfile
from ..crashes.sampling import draw_lost_changes, draw_page_outcomes
from ..kinds import FaultKind
from ..plan import FaultPlan, healed
from .aftermath import Aftermath, DiskState, aftermath_of, disk_state
from .fault_injector import MOMENTS, CrashSite, CrashTrigger, FaultInjector
from .files import SimFiles
from .image import DamagedRange, Image
from .namespace import Namespace
from .syncs import Syncs, SyncTiming, Timing
from .volume import Volume


class Disk:
    """One disk; after a process kill the next machine mounts it again. is_sparse: long files are cheap; no maps."""

    def __init__(
        self,
        kernel: Kernel,
        stream: Stream,
        *,
        image: Image | None = None,
        sector_bytes: int = 512,
        page_bytes: int = 4096,
        timing: Timing | None = None,
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
        self._injector = FaultInjector(kernel, stream, faults or FaultPlan())
        self.stream_name = stream.name
        self.injected: Counter[str] = self._injector.injected
        self.damage: list[DamagedRange] = self._injector.damage
        """Ranges that the disk took back after it had acknowledged or shown them, in order."""
        if image is None:
            self._names = Namespace(page_bytes, is_sparse=is_sparse)
        else:
            self._names = Namespace.load(image, page_bytes, kernel.wall_start_ms, is_sparse=is_sparse)
            self._names.lay_bad_sectors(bad_sectors, sector_bytes)
            if self._injector.faults.sparse:
                self._names.lay_holes(sector_bytes)
        self._volume = Volume(self._names, self._injector, sector_bytes, capacity_bytes)
        self._syncs = Syncs(self._injector, self._names, timing or SyncTiming())
        self._mounted: list[Machine] = []
        self.is_finished = False
        """Whether it is an image already: no machine can mount it."""
        self._was_killed = False  # whether the last machine was killed, and that has been counted

    @property
    def operations(self) -> int:
        """Return how many operations have begun: the next one has this number."""
        return self._injector.operations

    @property
    def met(self) -> CrashSite | None:
        """Return the last operation that a machine died at, None if none did."""
        return self._injector.met

    @property
    def bad_sectors(self) -> list[DamagedRange]:
        """Return the sectors that cannot be read, for the disk that a later machine finds in this one's place."""
        return self._names.bad_sectors()

    def mount(self, machine: Machine) -> SimFiles:
        """Return the disk's files as machine sees them."""
        self._check_unfinished()
        self._mounted.append(machine)
        self._was_killed = False
        return SimFiles(machine, self._volume, self._syncs)

    @property
    def slow_until_ns(self) -> int:
        """Return when all operations are over that take longer than they should; virtual time."""
        return self._injector.slow_until_ns

    @property
    def is_stopped(self) -> bool:
        """Return whether the file system has stopped itself: all changes are refused until the disk has been off."""
        return self._injector.stopped != 0

    @property
    def capacity_bytes(self) -> int | None:
        """Return how much the disk holds, None if there is no end to it. Less than it holds already is allowed."""
        return self._volume.limit_bytes

    @capacity_bytes.setter
    def capacity_bytes(self, capacity_bytes: int | None) -> None:
        self._volume.limit_bytes = capacity_bytes

    @property
    def used_bytes(self) -> int:
        """Return the size of its files."""
        return self._volume.space().used_bytes

    def take_used_extremes(self) -> tuple[int, int]:
        """Return the least and the most that its files took, now and whenever anybody asked since the last call."""
        return self._volume.take_used_extremes()

    @property
    def directories(self) -> list[str]:
        """Return its directories, sorted."""
        return sorted(self._names.current.directories)

    @property
    def paths(self) -> list[str]:
        """Return the paths of its files, sorted. For judges, not for stores."""
        return sorted(self._names.current.names)

    def crash_at(self, operation: int, moment: str) -> CrashTrigger:
        """Kill the machine at the operation of that number: before, during or after its effect.

        During a store, pwrite or write a drawn prefix has reached the page cache; during a sync half its time has
        passed; other operations are atomic, and a draw decides whether their effect remains.
        """
        if operation < self.operations:
            raise ValueError(f"operation: expected at least {self.operations}, found {operation}")
        trigger = CrashTrigger(operation=operation)
        self.arm(trigger, moment)
        return trigger

    def arm(self, trigger: CrashTrigger, moment: str) -> None:
        """As crash_at, at the operation that trigger names, if it comes."""
        if moment not in MOMENTS:
            raise ValueError(f"moment: expected one of {', '.join(MOMENTS)}, found {moment}")
        self._injector.crash_at = self.operations  # the next one, so that the trigger is asked from there on
        self._injector.moment = moment
        self._injector.aim = trigger

    def strike_page_ins_of(self, names: Collection[str]) -> None:
        """Let page-ins be slow or fail only for tasks with these names after the last `/`."""
        self._injector.struck_names = names

    @contextmanager
    def with_page_ins(self) -> Iterator[None]:
        """Let the current task be struck by them, too, inside a `with` block."""
        injector, task = self._injector, self.kernel.current
        injector.struck.add(task)
        try:
            yield
        finally:
            injector.struck.discard(task)

    @contextmanager
    def with_faults(self, **faults: Any) -> Iterator[None]:
        """Let some faults, named as FaultPlan names them, be as given inside a `with` block."""
        injector = self._injector
        before = injector.faults
        injector.use(replace(before, **faults))
        try:
            yield
        finally:
            injector.use(before)

    def heal(self) -> None:
        """End the faults of the plan that pass. Earlier damage remains."""
        self._injector.use(healed(self._injector.faults))

    def disarm(self) -> None:
        """Remove a trigger that no operation has met."""
        self._injector.crash_at = -1
        self._injector.met = None
        self._injector.aim = None

    def is_durable(self, path: str, start: int, end: int) -> bool:
        """Return whether the bytes [start, end) of a file are surely durable. For judges, not for stores."""
        inode = self._names.current.inode(path)
        return inode is not None and inode.has_durable(start, end)

    def is_named_for_good(self, path: str) -> bool:
        """Return whether a file's name is durable on whatever file system. For judges, not for stores."""
        return self._names.current.inode(path) is not None and self._names.is_named_for_good(path)

    def is_dirty(self, path: str, start: int, end: int) -> bool:
        """Return whether bytes [start, end) of a file wait to be written back. For judges, not for stores."""
        inode = self._names.current.inode(path)
        return inode is not None and inode.is_dirty(start, end)

    def content(self, path: str) -> bytes:
        """Return the bytes of a file as readers see them; none without a file. For judges, not for stores."""
        inode = self._names.current.inode(path)
        return b"" if inode is None else bytes(inode.content())

    def state(self) -> DiskState:
        """Return the present state of its files, and their durable bytes. For pictures, not for stores."""
        return disk_state(self._names, self._page_bytes, self._sector_bytes)

    def crash(self, profile: CrashProfile) -> Image:
        """Return an image of the disk after the machine died, drawn as profile allows. This finishes the disk."""
        if any(machine.alive for machine in self._mounted):
            raise RuntimeError("a machine that has mounted the disk is alive: kill it first")
        if not self._was_killed:  # an image of a killed machine's disk is no second crash
            self._count_crash(profile)
        return self._left_by(profile)

    def power_cut_after_stop(self, profile: CrashProfile) -> Image:
        """Return an image after a power cut that follows a clean stop."""
        self.injected[FaultKind.POWER_CUT_AFTER_STOP] += 1
        return self._left_by(profile)

    def _left_by(self, profile: CrashProfile) -> Image:
        self._finish()
        wall_start_ms, trace = self.kernel.wall_start_ms, self.kernel.trace
        if profile.page_cache_survives:
            image = cache_image(self._names.current, wall_start_ms)
            if trace is not None:
                trace.emit(Aftermath(profile.name, (), (), image))
            return image
        cut = PowerCut(profile, self._names, self._page_bytes, self._sector_bytes)
        # Metadata first: the pages that can be lost depend on the surviving names and lengths.
        lost = draw_lost_changes(self._stream, profile, cut.unsure_changes())
        entries = cut.entries_without(lost, self.injected)
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

    def note_kill(self) -> None:
        """Count the kill of a process that leaves its page cache; a next machine mounts the disk as it is."""
        self._was_killed = True
        self._count_crash(PROFILES["process-kill"])

    def _count_crash(self, profile: CrashProfile) -> None:
        self.injected["crash"] += 1
        self.injected[f"crash {profile.name}"] += 1

    def fingerprint(self) -> str:
        """Return a digest of what crash states are made of, equal for moments of one run that can leave the same."""
        return fingerprint_of(self._names)

    def crash_states(self, profile: CrashProfile, limit: int, stream: Stream) -> CrashStates:
        """Return up to limit states that a crash could leave now; stream draws some. The disk stays as it is."""
        cut = PowerCut(profile, self._names, self._page_bytes, self._sector_bytes)
        wall_ms = self.kernel.wall_start_ms
        whole = cache_image(self._names.current, wall_ms) if profile.page_cache_survives else None
        return CrashStates(cut, profile, self._sector_faults(profile), whole, wall_ms, limit, stream)

    def settle(self) -> Image:
        """Return the image of a clean power-off: the page cache without the data that failed syncs dropped."""
        self._finish()
        return durable_image(self._names.current, self.operations, self.kernel.wall_start_ms)

    def _sector_faults(self, profile: CrashProfile) -> SectorFaults:
        """Return the faults of single sectors at a power cut, by the disk's plan and the kind of crash."""
        faults = self._injector.faults
        torn_chance = max(faults.torn_bytes_chance, profile.torn_bytes_chance)
        return SectorFaults(self._sector_bytes, torn_chance, faults.garbage_chance, profile.torn_page_chance)

    def _finish(self) -> None:
        self._check_unfinished()
        self.is_finished = True

    def _check_unfinished(self) -> None:
        if self.is_finished:
            raise RuntimeError("the disk is an image already: make a new one from that")
