"""Costs of a host beside its disk, and the simulated tasks and files that charge them.

Costs are computing, handing over from task to task, and first touches of pages. Simulated code takes no virtual time
by itself, so these are charged where they arise. There is one processor, as CPython's interpreter lock leaves one to a
process.

A stall is a store through a map that the system keeps waiting, as a page that is being written back cannot be written
to. Such a store waits for the disk inside one assignment, with the interpreter's lock held, so all tasks wait with it.
"""

from dataclasses import dataclass, field

from ....faults.devices.drives import Spread
from ....faults.disk.files import SimFiles
from ....faults.disk.mapped_file import Buffer, SimMappedFile
from ....sim.choices import Stream
from ....sim.machine import Machine, Processor, Scheduler, SimSignal, SimTasks, Waiting
from ....store.log.flush import GroupCommitService

_US = 1_000
STALL_NS_MIN = 1_000_000
"""What takes less is jitter, which is in what puts cost."""
_WAKING = Waiting("waking up")
_TO_SERVICE = GroupCommitService.name
_TO_PRODUCER = "group commit done"
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class HostCosts:
    """The costs of one machine, in ns."""

    put: Spread
    """Of one put that waits for no disk: the computing, and what delays it."""
    put_work_ns: int
    """How much of that is computing, which others wait for."""
    handover: Spread
    """From a notice to when the one who waited for it goes on: to the flush service and back to the producer, both."""
    handover_work_ns: int
    """How much of that is computing."""
    dispatch_ns: int
    """Computing of one message's dispatch."""
    touch_ns: int
    """Computing of the first store to a page of a map: a page fault that makes it writable."""


REFERENCE = HostCosts(
    put=Spread.through(
        [
            (0.0, 12 * _US),
            (0.5, 19 * _US),
            (0.9, 40 * _US),
            (0.99, 110 * _US),
            (0.999, 250 * _US),
            (1.0, 600 * _US),
        ]
    ),
    put_work_ns=14 * _US,
    handover=Spread.through(
        [(0.0, 60 * _US), (0.5, 140 * _US), (0.9, 230 * _US), (0.99, 390 * _US), (1.0, 1_000 * _US)]
    ),
    handover_work_ns=50 * _US,
    dispatch_ns=8 * _US,
    touch_ns=1 * _US,
)
"""A 2-core virtual machine under CPython 3.11, in round figures of what `here` measured on it."""


@dataclass(slots=True)
class Stalls:
    """The stalls of one sequence of stores."""

    stores: int = 0
    """How many stores there have been."""
    took_ns: dict[int, int] = field(default_factory=dict)
    """How long those that stalled took, by their number."""

    def note(self, took_ns: int) -> None:
        """Count a store, and keep it if it was a stall."""
        if took_ns >= STALL_NS_MIN:
            self.took_ns[self.stores] = took_ns
        self.stores += 1

    def next_ns(self) -> int:
        """Count a store again; return how long it stalled, 0 if it did not."""
        number = self.stores
        self.stores += 1
        return self.took_ns.get(number, 0)


@dataclass(slots=True)
class FileStalls:
    """The stalls of a store's files: puts store to the log, dispatch to all others, each in an order of its own."""

    log: Stalls = field(default_factory=Stalls)
    others: Stalls = field(default_factory=Stalls)

    def of(self, path: str) -> Stalls:
        """Return the sequence that stores to a file are part of."""
        return self.log if "/commitlog/" in path else self.others

    def again(self) -> "FileStalls":
        """Return the same stalls, to be met from the first on."""
        return FileStalls(Stalls(0, self.log.took_ns), Stalls(0, self.others.took_ns))


class HostTasks(SimTasks):
    """Tasks of which those that hand over a put to its group commit, and back, take the time that it takes on a host.

    All other services work beside the puts, and what they cost a put is in what puts were measured to cost.
    """

    __slots__ = ("_host", "_processor", "_stream")

    def __init__(self, machine: Machine, host: HostCosts, processor: Processor, stream: Stream) -> None:
        super().__init__(machine)
        self._host = host
        self._processor = processor
        self._stream = stream

    def signal(self, name: str) -> SimSignal:
        """Make a signal; in a handover, its waiter pays for waking up."""
        if name in (_TO_SERVICE, _TO_PRODUCER):
            return _Handover(self, self._kernel, name)
        return super().signal(name)

    def wake(self, name: str) -> None:
        """Let the current task take the time of a handover.

        Both handovers of a put were measured as one. The first takes half of the usual here, the second the rest.
        """
        host = self._host
        took_ns = host.handover.quantile(0.5) // 2
        if name == _TO_PRODUCER:
            took_ns = max(host.handover.draw(self._stream, "handover") - took_ns, 0)
        work_ns = min(host.handover_work_ns // 2, took_ns)
        if took_ns > work_ns:
            self._kernel.park(_WAKING, self._kernel.now_ns + took_ns - work_ns)
        self._processor.work(work_ns)


class _Handover(SimSignal):
    """A signal whose waiter pays for waking up, unless it found the notice there already."""

    __slots__ = ("_name", "_tasks")

    def __init__(self, tasks: HostTasks, kernel: Scheduler, name: str) -> None:
        super().__init__(kernel, name)
        self._tasks = tasks
        self._name = name

    def _park(self, due_ns: int | None) -> None:
        super()._park(due_ns)
        if self._is_set:
            self._tasks.wake(self._name)


class TouchedFiles:
    """The files of one machine, of which a store through a map takes its time; all but `map` is theirs."""

    def __init__(self, files: SimFiles, processor: Processor, touch_ns: int) -> None:
        self._files = files
        self._processor = processor
        self._touch_ns = touch_ns
        self.touches = 0
        """How many pages were touched first."""
        self.stalls = FileStalls()
        """Which stores from now on the disk keeps waiting."""

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def map(self, path: str, size_bytes: int) -> "TouchedMappedFile":
        """Map a file, as the machine does."""
        return TouchedMappedFile(self._files.map(path, size_bytes), self)

    def pay(self, path: str, pages: int) -> None:
        """Let the current task take the time of so many page faults, and of a stall if there is one."""
        self.touches += pages
        took_ns = pages * self._touch_ns + self.stalls.of(path).next_ns()
        if took_ns:
            self._processor.work(took_ns)


class TouchedMappedFile:
    """A mapped file that knows which pages have been stored to; all but `store` is the map's.

    Invariant: bit n of `_touched` says whether page n has been.
    """

    def __init__(self, mapped: SimMappedFile, files: TouchedFiles) -> None:
        self._mapped = mapped
        self._files = files
        self._touched = bytearray(-(-mapped.size_bytes // _PAGE_BYTES))

    def __getattr__(self, name: str) -> object:
        return getattr(self._mapped, name)

    def store(self, at: int, data: Buffer) -> None:
        """Write through the map, after a page fault for each page that is touched first."""
        first, last = at // _PAGE_BYTES, (at + max(len(data), 1) - 1) // _PAGE_BYTES
        assert 0 <= first <= last < len(self._touched), (at, len(data))
        new = self._touched.count(0, first, last + 1)
        if new:
            self._touched[first : last + 1] = b"\1" * (last + 1 - first)
        self._files.pay(self._mapped.path, new)
        self._mapped.store(at, data)
