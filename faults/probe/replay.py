"""Replay: executes a record on a simulated disk, operation by operation.

A long write is several operations, because the kernel writes page by page: a kill can stop the write between pages, and
a power cut can leave any length. Up to 8 pages, each page is an operation. A longer write has 8 operations: the first
page, 6 parts of the middle, and the last page. A store through a map is one operation, because a kill cannot interrupt
it.

Each separate disk of the record has its own operations and losses. An operation has a number on its disk, and a number
among the operations of all disks.

Syncs with an injected failure or lie fail or lie on the simulated disk, too (`disk.syncs`): after a failed sync pages
are clean, readers see the new bytes, and a power cut restores the old bytes.
"""

import errno
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from msgspec import structs

from ...sim.choices import Choices, Stream
from ...sim.kernel import Kernel
from ...sim.policies.replay import ReplayPolicy
from ..crashes.at_rest import AT_REST
from ..crashes.enumeration import CrashLosses, CrashState, PossibleStates
from ..crashes.profiles import NOTHING_LOST, PROFILES, CrashProfile
from ..disk.aftermath import DiskState
from ..disk.content import PAGE_BYTES
from ..disk.disk import Disk
from ..disk.files import SimDescriptor, SimFiles
from ..disk.image import Image
from ..disk.syncs import SyncTiming
from . import record as steps
from .combinations import CombinedStates, merged
from .record import TWO_NAMES, ProgramRecord, RecordError, SeparateDisk, Step, separate_disk_of

DISK_STREAM = "disk"
"""Name of the random stream that selects the losses of a crash."""
ALL_OTHERS = "."
"""Name of the disk with all files outside of separate disks."""
_PIECES_MAX = 8
_IMPOSSIBLE = (OSError, IndexError, KeyError, ValueError)  # errors of the disk at an impossible step


class Point(NamedTuple):
    """A crash point: a moment before or after an operation."""

    step: int
    """Number of the last step that has begun; -1: none."""
    operations: int
    """Number of executed disk operations."""
    acknowledged: int
    is_inside: bool
    """Whether the last step has further operations."""
    refused: int = 0

    @property
    def answers(self) -> int:
        """Number of promises and refusals so far."""
        return self.acknowledged + self.refused


class _MountedDisk:
    """A directory on a separate disk; "": the disk with all other files."""

    def __init__(self, separate: SeparateDisk, disk: Disk, files: SimFiles) -> None:
        self.path, self.profile = separate
        self.disk, self.files = disk, files
        self.steps_of: list[int] = []
        """Step number of each operation of the disk."""


class Replayer:
    """Executes a record on simulated disks. start: initial durable content.

    disks: kinds of crash and of damage at rest for later calls of `states`.
    """

    def __init__(
        self, record: ProgramRecord, start: Image, choices: Choices | None = None, disks: Collection[str] = ()
    ) -> None:
        self.record = record
        self._kernel = Kernel(ReplayPolicy())
        self._machine = self._kernel.create_machine("program")
        self._choices = choices or Choices("probe")
        self._start = start
        self._mounted = [self._mount(separate) for separate in (SeparateDisk(""), *record.separate_disks)]
        self._first = self._mounted[0]
        self._open: list[tuple[_MountedDisk, SimDescriptor]] = []
        for path in start.files:
            mounted = self._disk_of(path)
            self._open.append((mounted, mounted.files.open(path)))
        self.kinds: set[str] = set()
        """Kinds of executed operations, except growth by writes."""
        assert not record.separate_disks or AT_REST.isdisjoint(disks), "damage at rest is of one disk"
        self._at_rest = None if AT_REST.isdisjoint(disks) else self.disk.data_at_rest()

    def _mount(self, separate: SeparateDisk) -> _MountedDisk:
        stream = self._choices.stream(DISK_STREAM)
        image = self._start
        if self.record.separate_disks:
            stream = stream.with_subject(separate.path or ALL_OTHERS)
            image = _part_of(image, separate.path, self.record.separate_disks)
        timing = SyncTiming(0, 0)
        disk = Disk(self._kernel, stream, image=image, page_bytes=PAGE_BYTES, timing=timing, is_sparse=True)
        return _MountedDisk(separate, disk, disk.mount(self._machine))

    def _disk_of(self, path: str) -> _MountedDisk:
        separate = separate_disk_of(self.record.separate_disks, path)
        return self._first if separate is None else self._mounted[1 + self.record.separate_disks.index(separate)]

    @property
    def disk(self) -> Disk:
        """The disk with all files outside of separate disks."""
        return self._first.disk

    @property
    def operations(self) -> int:
        return sum(mounted.disk.operations for mounted in self._mounted)

    @property
    def steps_of(self) -> list[int]:
        """Step number of each operation, if there is only one disk."""
        assert len(self._mounted) == 1, "each disk numbers its operations"
        return self._first.steps_of

    def points(self) -> Iterator[Point]:
        """Execute the record. Yield each crash point: before, between and after operations.

        RecordError: a step is impossible.
        """
        acknowledged = refused = 0
        yield Point(-1, 0, 0, False)
        for number, step in enumerate(self.record.steps):
            if step.kind in steps.ANSWERS:
                acknowledged += step.kind == steps.ACKNOWLEDGE
                refused += step.kind == steps.REFUSE
                yield Point(number, self.operations, acknowledged, False, refused)
                continue
            if step.kind == steps.FAULT:
                continue  # the call failed without effect
            if self._at_rest is not None and step.kind in (steps.SYNC, steps.SYNC_ALL):
                self._at_rest.note_before_sync()
            done = self.operations
            for is_inside in self._execute_step(number, step):
                if self.operations > done:
                    done = self.operations
                    for mounted in self._mounted:
                        mounted.steps_of += [number] * (mounted.disk.operations - len(mounted.steps_of))
                    yield Point(number, done, acknowledged, is_inside, refused)

    def descriptor_of(self, file: int) -> SimDescriptor:
        return self._open[file][1]

    def replay_all(self) -> None:
        """Execute the whole record, one operation per step. RecordError: a step is impossible."""
        for number, step in enumerate(self.record.steps):
            try:
                if step.kind == steps.WRITE:
                    self._open_file(step).write(step.at, step.data)
                elif step.kind == steps.SYNC_ALL:
                    for _ in self._sync_all():
                        pass
                elif step.kind not in (*steps.ANSWERS, steps.FAULT):
                    self._execute_operation(step)
            except _IMPOSSIBLE as error:
                raise _impossible_step_error(number, step, error) from error

    def replay_to(self, point: Point) -> None:
        """Execute the record up to a point. RecordError: the record does not have this point."""
        if point not in self.points():
            raise RecordError(f"point: expected one of the record's, found {point}")

    def states(self, disk: str, limit: int, stream: Stream) -> PossibleStates:
        """Return up to `limit` states that a crash or damage at rest could leave now."""
        if disk in AT_REST:
            assert self._at_rest is not None, "a replay for damage keeps former contents"
            return self._at_rest.states(disk, limit, stream)
        parts = [mounted.disk.crash_states(_profile(disk, mounted), limit, stream) for mounted in self._mounted]
        if len(parts) == 1:
            return parts[0]
        return CombinedStates([mounted.path or ALL_OTHERS for mounted in self._mounted], parts, limit)

    def losses(self, states: PossibleStates, state: CrashState) -> Iterator[tuple[CrashLosses, Sequence[int]]]:
        """Yield the losses of each disk in a state, with the step number of each operation."""
        if isinstance(states, CombinedStates):
            for (part, own), mounted in zip(states.parts_of(state), self._mounted, strict=True):
                yield part.losses_of(own), mounted.steps_of
        else:
            yield states.losses_of(state), self._first.steps_of

    def state(self) -> DiskState:
        """Return the cached and the durable content of all disks."""
        first, *others = [mounted.disk.content_state() for mounted in self._mounted]
        return first._replace(files={path: file for one in (first, *others) for path, file in one.files.items()})

    def crash(self, profile: str) -> Image:
        """Return a crash image with random losses. This ends the replay."""
        self._kernel.kill(self._machine)
        return merged([mounted.disk.crash(_profile(profile, mounted)) for mounted in self._mounted])

    def intact_image(self) -> Image:
        """Return the disk as the program sees it, through the page cache. This ends the replay."""
        return self.crash(NOTHING_LOST)

    def _execute_step(self, number: int, step: Step) -> Iterator[bool]:
        """Execute a step. Yield after each operation whether the step has more."""
        self.kinds.add(self._kind_on_disk(step))
        try:
            if step.kind == steps.WRITE:
                yield from self._write_in_pieces(step)
            elif step.kind == steps.SYNC_ALL:
                yield from self._sync_all()
            else:
                self._execute_operation(step)
                yield False
        except _IMPOSSIBLE as error:
            raise _impossible_step_error(number, step, error) from error

    def _kind_on_disk(self, step: Step) -> str:
        is_growth = step.kind == steps.TRUNCATE and 0 <= step.file < len(self._open)
        if step.kind == steps.ALLOCATE or (is_growth and self.descriptor_of(step.file).size_bytes < step.at):
            return "extend"
        return step.kind

    def _execute_operation(self, step: Step) -> None:
        files = self._files_of(step)
        match step.kind:
            case steps.CREATE:
                self._create_file(step)
            case steps.STORE:
                self._open_file(step).store(step.at, step.data)
            case steps.TRUNCATE:
                self._open_file(step).truncate(step.at)
            case steps.ALLOCATE:
                self._open_file(step).allocate(step.at + step.size)
            case steps.ZERO_RANGE:
                self._open_file(step).zero(step.at, step.size)
            case steps.SYNC:
                end = step.at + step.size if step.size else None
                self._open_file(step).sync(step.at, end, data_only=step.target == steps.DATA)
            case steps.FAILED_SYNC if step.file >= 0:
                self._fail_to_sync(step)
            case steps.FAILED_SYNC:
                for number in range(len(self._open)):
                    self._fail_to_sync(structs.replace(step, file=number))
            case steps.LYING_SYNC:
                mounted = self._disk_of(step.path) if step.path else self._open[step.file][0]
                with mounted.disk.with_faults(lying_sync_chance=1.0):
                    self._execute_operation(
                        structs.replace(step, kind=steps.SYNC_DIRECTORY if step.path else steps.SYNC)
                    )
            case steps.RENAME:
                files.rename(step.path, step.target)
            case steps.EXCHANGE:
                files.exchange(step.path, step.target)
            case steps.LINK if not step.path:
                self._open_file(step).link(step.target)
            case steps.LINK:
                files.link(step.path, step.target)
            case steps.SYMLINK:
                files.symlink(step.path, step.target)
            case steps.UNLINK:
                files.unlink(step.path)
            case steps.MAKE_DIRECTORY:
                files.make_directories(step.path)
            case steps.REMOVE_DIRECTORY:
                files.remove_directory(step.path)
            case steps.SYNC_DIRECTORY:
                files.sync_directory(step.path)
            case _:
                raise AssertionError(step.kind)

    def _fail_to_sync(self, step: Step) -> None:
        with self._open[step.file][0].disk.with_faults(failed_sync_chance=1.0):
            try:
                self._execute_operation(structs.replace(step, kind=steps.SYNC))
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return
        raise AssertionError(f"expected a failed sync, found a successful one: {step}")

    def _create_file(self, step: Step) -> None:
        mounted = self._disk_of(step.path)
        files = mounted.files
        is_new = not step.path or files.status(step.path) is None
        if step.file != len(self._open) or not is_new:
            raise OSError(f"expected file {len(self._open)} and a new name, found {step.file} at {step.path}")
        self._open.append((mounted, files.open(step.path) if step.path else files.open_unnamed()))

    def _files_of(self, step: Step) -> SimFiles:
        """Return the files of a step's disk. OSError: the step has names on two disks."""
        mounted = self._disk_of(step.path)
        if step.kind in TWO_NAMES:
            source = mounted if step.path else self._open[step.file][0]
            if source is not self._disk_of(step.target):
                raise OSError(errno.EXDEV, f"{step.kind} from one disk to another: {step.path} {step.target}")
        return mounted.files

    def _open_file(self, step: Step) -> SimDescriptor:
        if step.file < 0:
            raise IndexError(f"file {step.file}")
        return self._open[step.file][1]

    def _write_in_pieces(self, step: Step) -> Iterator[bool]:
        file = self._open_file(step)
        ends = piece_ends(step.at, len(step.data))
        done = 0
        for end in ends:
            file.write(step.at + done, step.data[done:end])
            done = end
            yield end < len(step.data)

    def _sync_all(self) -> Iterator[bool]:
        for _, file in self._open:
            file.sync()
            yield True
        for mounted in self._mounted:
            for directory in mounted.disk.directories:
                mounted.files.sync_directory(directory)
                yield True


def _part_of(image: Image, path: str, separate_disks: Sequence[SeparateDisk]) -> Image:
    """Return the files of one disk, and all directories. path: directory of the disk, or ""."""

    def is_here(name: str) -> bool:
        separate = separate_disk_of(separate_disks, name)
        return ("" if separate is None else separate.path) == path

    files = {name: file for name, file in image.files.items() if is_here(name)}
    links = {name: text for name, text in image.symlinks.items() if is_here(name)}
    above = {name for name in image.directories if f"{path}/".startswith(f"{name}/")}
    return Image(files, tuple(name for name in image.directories if name in above or is_here(name)), links)


def _profile(disk: str, mounted: _MountedDisk) -> CrashProfile:
    """Return the crash profile of a mounted disk. A process kill applies to all disks."""
    profile = PROFILES[disk]
    return PROFILES[mounted.profile] if mounted.profile and not profile.page_cache_survives else profile


def _impossible_step_error(number: int, step: Step, error: Exception) -> RecordError:
    return RecordError(f"step {number}: {step.kind} is impossible: {type(error).__name__}: {error}")


def piece_ends(at: int, size_bytes: int) -> list[int]:
    """Return the ends of the pieces of a write, relative to its first byte."""
    first_page, last_page = at // PAGE_BYTES, (at + size_bytes - 1) // PAGE_BYTES
    boundaries = range((first_page + 1) * PAGE_BYTES - at, last_page * PAGE_BYTES - at + 1, PAGE_BYTES)
    if len(boundaries) >= _PIECES_MAX:
        between = _PIECES_MAX - 2
        first, *middle, last = boundaries
        assert middle, (at, size_bytes)
        boundaries_kept = [middle[part * len(middle) // between] for part in range(1, between)]
        return [first, *boundaries_kept, last, size_bytes]
    return [*boundaries, size_bytes]
