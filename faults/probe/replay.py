"""Replay: executes a record on a simulated disk, operation by operation.

A long write is several operations, because the kernel writes page by page: a kill can stop it between pages, and a
power cut can leave any of the lengths. In a write of up to 8 pages each page is an operation. In a longer write the
operations are the first page, 6 parts of the middle, and the last page. A store through a map is one operation, because
a kill cannot interrupt it.

Syncs with an injected failure or lie fail or lie on the simulated disk, too (`disk.syncs`): after a failed sync pages
are clean, readers see the new bytes, and a power cut restores the old bytes.
"""

import errno
from collections.abc import Collection, Iterator
from typing import NamedTuple

from msgspec import structs

from ...sim.choices import Choices, Stream
from ...sim.kernel import Kernel
from ...sim.policies.replay import ReplayPolicy
from ..crashes.at_rest import AT_REST
from ..crashes.enumeration import PossibleStates
from ..crashes.profiles import NOTHING_LOST, PROFILES
from ..disk.content import PAGE_BYTES
from ..disk.disk import Disk
from ..disk.files import SimDescriptor
from ..disk.image import Image
from ..disk.syncs import SyncTiming
from . import record as steps
from .record import ProgramRecord, RecordError, Step

DISK_STREAM = "disk"
"""Name of the disk's stream of choices, which selects the losses of a crash."""
_PIECES_MAX = 8
_IMPOSSIBLE = (OSError, IndexError, KeyError, ValueError)  # the disk's errors for an impossible step


class Point(NamedTuple):
    """A moment between two operations at which a crash is possible."""

    step: int
    """Number of the last step that was executed completely or partly; -1: none."""
    operations: int
    """Number of executed disk operations."""
    acknowledged: int
    is_inside: bool
    """Whether further operations of the same step follow."""
    refused: int = 0

    @property
    def answers(self) -> int:
        """Number of promises and refusals so far."""
        return self.acknowledged + self.refused


class Replayer:
    """Executes a record on one disk. start: its durable content before the first step.

    disks: the kinds of crash and of damage at rest that `states` will be asked for.
    """

    def __init__(
        self, record: ProgramRecord, start: Image, choices: Choices | None = None, disks: Collection[str] = ()
    ) -> None:
        self.record = record
        self._kernel = Kernel(ReplayPolicy())
        self._machine = self._kernel.create_machine("program")
        self._choices = choices or Choices("probe")
        stream = self._choices.stream(DISK_STREAM)
        timing = SyncTiming(0, 0)
        self.disk = Disk(self._kernel, stream, image=start, page_bytes=PAGE_BYTES, timing=timing, is_sparse=True)
        self._files = self.disk.mount(self._machine)
        self._open = [self._files.open(path) for path in start.files]
        self.steps_of: list[int] = []
        """For each operation of the disk, the number of its step."""
        self.kinds: set[str] = set()
        """The kinds of executed operations, without the growth caused by writes."""
        self._at_rest = None if AT_REST.isdisjoint(disks) else self.disk.data_at_rest()

    def points(self) -> Iterator[Point]:
        """Execute the record. Yield each moment between two operations, including the first and the last.

        RecordError: a step is impossible.
        """
        acknowledged = refused = 0
        yield Point(-1, 0, 0, False)
        for number, step in enumerate(self.record.steps):
            if step.kind in steps.ANSWERS:
                acknowledged += step.kind == steps.ACKNOWLEDGE
                refused += step.kind == steps.REFUSE
                yield Point(number, self.disk.operations, acknowledged, False, refused)
                continue
            if step.kind == steps.FAULT:
                continue  # the call failed without effect
            if self._at_rest is not None and step.kind in (steps.SYNC, steps.SYNC_ALL):
                self._at_rest.note_before_sync()
            done = self.disk.operations
            for is_inside in self._execute_step(number, step):
                if self.disk.operations > done:
                    done = self.disk.operations
                    self.steps_of += [number] * (done - len(self.steps_of))
                    assert len(self.steps_of) == done, (number, done)
                    yield Point(number, done, acknowledged, is_inside, refused)

    def descriptor_of(self, file: int) -> SimDescriptor:
        """Return the descriptor of a file, by its number in the record."""
        return self._open[file]

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
        """Return up to `limit` states that a crash or damage at rest could leave at this moment."""
        if disk not in AT_REST:
            return self.disk.crash_states(PROFILES[disk], limit, stream)
        assert self._at_rest is not None, "a replay for damage keeps former contents"
        return self._at_rest.states(disk, limit, stream)

    def crash(self, profile: str) -> Image:
        """Return a crash image of this moment; draws select the losses. This ends the replay."""
        self._kernel.kill(self._machine)
        return self.disk.crash(PROFILES[profile])

    def intact_image(self) -> Image:
        """Return the disk's content with its page cache, as the program sees it. This ends the replay."""
        return self.crash(NOTHING_LOST)

    def _execute_step(self, number: int, step: Step) -> Iterator[bool]:
        """Execute a step. After each operation yield whether the step has more operations."""
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
        if step.kind == steps.ALLOCATE or (is_growth and self._open[step.file].size_bytes < step.at):
            return "extend"
        return step.kind

    def _execute_operation(self, step: Step) -> None:
        files = self._files
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
                with self.disk.with_faults(lying_sync_chance=1.0):
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
        with self.disk.with_faults(failed_sync_chance=1.0):
            try:
                self._execute_operation(structs.replace(step, kind=steps.SYNC))
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return
        raise AssertionError(f"a sync that was to fail has not: {step}")

    def _create_file(self, step: Step) -> None:
        is_new = not step.path or self._files.status(step.path) is None
        if step.file != len(self._open) or not is_new:
            raise OSError(f"expected file {len(self._open)} and a new name, found {step.file} at {step.path}")
        self._open.append(self._files.open(step.path) if step.path else self._files.open_unnamed())

    def _open_file(self, step: Step) -> SimDescriptor:
        if step.file < 0:
            raise IndexError(f"file {step.file}")
        return self._open[step.file]

    def _write_in_pieces(self, step: Step) -> Iterator[bool]:
        file = self._open_file(step)
        ends = piece_ends(step.at, len(step.data))
        done = 0
        for end in ends:
            file.write(step.at + done, step.data[done:end])
            done = end
            yield end < len(step.data)

    def _sync_all(self) -> Iterator[bool]:
        for file in self._open:
            file.sync()
            yield True
        for directory in self.disk.directories:
            self._files.sync_directory(directory)
            yield True


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
